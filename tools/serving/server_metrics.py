"""What a server says of itself at /metrics (Prometheus' text format): vLLM's and SGLang's names."""

import asyncio
import re
import time

import client

# Ours; theirs, of which the first that is there counts.
GAUGES = {
    "running": ("vllm:num_requests_running", "sglang:num_running_reqs"),
    "waiting": ("vllm:num_requests_waiting", "sglang:num_queue_reqs"),
    "kv_use": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage"),
}
COUNTERS = {"preemptions": ("vllm:num_preemptions_total",)}
# Sums and counts of histograms, whose means are what a part of a request took.
HISTOGRAMS = {
    "queue": ("vllm:request_queue_time_seconds",),
    "prefill": ("vllm:request_prefill_time_seconds",),
    "decode": ("vllm:request_decode_time_seconds",),
}
LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{[^}]*\})? (\S+)")


def parse(text):
    """{name: sum over its labels}"""
    found = {}
    for line in text.splitlines():
        match = LINE.match(line)
        if match:
            try:
                found[match[1]] = found.get(match[1], 0.0) + float(match[2])
            except ValueError:
                pass
    return found


def first_of(values, names, suffix=""):
    return next((values[name + suffix] for name in names if name + suffix in values), None)


class ServerMetrics:
    """Looks at them every `period` seconds while it runs."""

    def __init__(self, url, period):
        self._url, self._period = url, period
        self.samples = []  # {"at_s": ..., "running": ...}
        self._first = self._last = None

    async def look(self):
        try:
            values = parse((await client.get(self._url, "/metrics")).decode(errors="replace"))
        except (client.HttpError, OSError, asyncio.IncompleteReadError, ValueError):
            return
        self._last = values
        self._first = self._first or values
        sample = {name: first_of(values, theirs) for name, theirs in GAUGES.items()}
        self.samples.append({"at_s": time.monotonic()} | {k: v for k, v in sample.items() if v is not None})

    async def run(self):
        while True:
            await self.look()
            await asyncio.sleep(self._period)

    def summary(self):
        """{} if the server has no such page."""
        result = {}
        for name in GAUGES:
            values = [sample[name] for sample in self.samples if name in sample]
            if values:
                result[name] = {"mean": sum(values) / len(values), "most": max(values)}
        if self._last is None:
            return result
        for name, theirs in COUNTERS.items():
            last = first_of(self._last, theirs)
            if last is not None:
                result[name] = last - (first_of(self._first, theirs) or 0)
        for name, theirs in HISTOGRAMS.items():
            sums = [first_of(values, theirs, "_sum") or 0 for values in (self._first, self._last)]
            counts = [first_of(values, theirs, "_count") or 0 for values in (self._first, self._last)]
            if counts[1] > counts[0]:
                result[name] = {"mean_s": (sums[1] - sums[0]) / (counts[1] - counts[0])}
        return result
