"""The GPU at hand, and what is needed to time work on it."""

import datetime
import math
import statistics
import subprocess
import sys
import time

from bench.device_ops import mm
from bench.nvml import Nvml
from bench.ops import VERSION, torch
from bench.samples import summary

HOT = ("gemm", "attention", "convolution")  # families that reach the power limit


class Bench:
    """The GPU, and what is needed to time work on it."""

    RESOLUTION = 5e-7  # of CUDA events, seconds

    def __init__(self, profiler, brief=False):
        t = torch()
        # Seconds until a clock lasts, and of samples.
        self.settling, self.sampling = (0.1, 0.12) if brief else (0.3, 0.5)
        self.cuda = t.cuda
        properties = self.cuda.get_device_properties(0)
        self.busy = self.cuda.Stream()
        l2_bytes = getattr(properties, "L2_cache_size", 64 << 20)
        self.filler = t.empty(4 * l2_bytes, dtype=t.uint8, device="cuda")
        self.nvml = Nvml()
        # A profiler that sees kernels but not how long they take is of no use.
        self.profiler = profiler and any(k["time_us"] > 0 for k in self.kernels(self.filler.zero_))
        self.settle(mm("bf16", 4096, 4096, 4096, "nn"), 2)  # clocks rise from idle

    def header(self):
        t = torch()
        properties = self.cuda.get_device_properties(0)
        return {"phantora_bench": VERSION, "gpu": properties.name, "sms": properties.multi_processor_count,
                "memory_bytes": properties.total_memory,
                "compute_capability": f"{properties.major}.{properties.minor}",
                "driver": self.nvml.driver(), "cuda": t.version.cuda, "torch": t.__version__,
                "cudnn": t.backends.cudnn.version(), "kernels": "profiler" if self.profiler else "none",
                "max_sm_mhz": self.nvml.clock(1, True), "max_memory_mhz": self.nvml.clock(2, True),
                "power_limit_w": self.nvml.power_limit(),
                "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")}

    def kernels(self, function, repeats=5):
        """Name and time of each kernel of one call, in order; [] if that cannot be seen."""
        t = torch()
        try:
            with t.profiler.profile(activities=[t.profiler.ProfilerActivity.CUDA]) as profile:
                for _ in range(repeats):
                    function()
                self.cuda.synchronize()
            seen = sorted((event for event in profile.profiler.kineto_results.events()
                           if event.device_type() == t.autograd.DeviceType.CUDA
                           and not event.name().startswith(("Context Sync", "Event Sync", "Stream "))),
                          key=lambda event: event.start_ns())
        except (RuntimeError, AttributeError) as error:
            print(f"the profiler fails: {error}", file=sys.stderr)
            return []
        if not seen or len(seen) % repeats:
            return []
        calls = [seen[i:i + len(seen) // repeats] for i in range(0, len(seen), len(seen) // repeats)]
        if any([e.name() for e in call] != [e.name() for e in calls[0]] for call in calls):
            return []
        return [{"name": same[0].name(),
                 "time_us": statistics.median(e.duration_ns() for e in same) / 1e3} for same in zip(*calls)]

    def settle(self, function, seconds):
        """Keeps the GPU busy until its power has found the clock that lasts."""
        now = time.perf_counter()
        until, calls = now + seconds, 1
        while now < until:
            begin = now
            for _ in range(calls):
                function()
            self.cuda.synchronize()
            now = time.perf_counter()
            calls = max(1, min(100, int(0.05 * calls / max(now - begin, 1e-6))))

    def span(self, function, calls, before):
        """Seconds of a call, of `calls` queued behind what `before` submits."""
        begin, end = self.cuda.Event(enable_timing=True), self.cuda.Event(enable_timing=True)
        before()
        begin.record()
        for _ in range(calls):
            function()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / calls

    def time(self, function, cold, hot):
        for _ in range(3):
            function()
        self.cuda.synchronize()
        if hot:
            self.settle(function, self.settling)
        started = time.perf_counter()
        function()
        submitted = time.perf_counter() - started
        once = self.span(function, 1, lambda: None)
        inner = 1 if cold else max(1, min(50, math.ceil(3e-4 / max(once, 1e-6))))
        # The GPU is busy until everything is queued, else the host's time would be measured.
        cycles = int(min(0.05, 1.5 * inner * submitted + 2e-5) * 2e9)
        before = self.filler.zero_ if cold else lambda: self.cuda._sleep(cycles)
        samples, until = [], time.perf_counter() + self.sampling
        while len(samples) < 7 or (len(samples) < 25 and time.perf_counter() < until):
            samples.append(self.span(function, inner, before))
        # An event begins when the work before it is over, and a kernel a little later.
        return {**summary(samples, self.RESOLUTION / inner), "inner": inner}

    def measure(self, op):
        """The line of one operation."""
        line = {"op": op.name, "family": op.family, "parameters": op.parameters, "l2": op.l2}
        try:
            function = op.make(**op.parameters)
            if op.host:
                return {**line, "host": True, **summary(function, 2.5e-8), "inner": 1}
            line |= self.time(function, op.l2 == "cold", op.family in HOT)
            if self.profiler and op.l2 == "warm":
                line["kernels"] = self.kernels(function)
        except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError, KeyError, OSError,
                subprocess.SubprocessError) as error:
            return {**line, "skipped": str(error).strip().split("\n", maxsplit=1)[0][:200] or repr(error)}
        line["sm_mhz"] = self.nvml.clock(1, False)
        return line
