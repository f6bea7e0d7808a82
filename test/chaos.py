#!/usr/bin/env python3
"""Runs of small programs to which something happens at a random moment: each ends, says why, and leaves nothing.

usage: chaos.py PHANTORA_RUN NCCL_PERF TURNS EQUAL_PAGES TRACEES... [--runs N] [--seed N] [--only MISHAP]

`bazel run //test:chaos -- --runs 500`. The same seed makes the same choices; when exactly they hit, the machine decides.
Exit status 1 if a run did not end in time, ended with another status than it should, did not say what it should, or left
a process, a file, a mount or shared memory behind.
"""

import argparse
import collections
import os
import pathlib
import pty
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

# Real seconds, many times what a run takes: a run that has not ended then hangs.
PATIENCE = 180
MARK = "PHANTORA_CHAOS"
MODES = ("real", "measured", "fixed")
# `simulated`: options that real time does not take.
Program = collections.namedtuple("Program", "name options command simulated", defaults=((),))
# `expected` is the set of exit statuses, `said` a pattern of what is to be on the standard error, or None.
Mishap = collections.namedtuple("Mishap", "name cause expected said", defaults=(None,))


# --- Processes ---------------------------------------------------------------------


def read(path):
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:
        return b""


def marked(mark):
    """Living processes with the mark in their environment."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and f"{MARK}={mark}".encode() in read(f"/proc/{entry}/environ").split(b"\0"):
            if b"State:\tZ" not in read(f"/proc/{entry}/status"):
                found.append(int(entry))
    return found


def own_files(directory):
    """Names of files there that are this user's."""
    found = []
    for name in os.listdir(directory):
        try:
            if os.lstat(os.path.join(directory, name)).st_uid == os.getuid():
                found.append(name)
        except FileNotFoundError:
            pass
    return found


def parent(process):
    match = re.search(rb"PPid:\t(\d+)", read(f"/proc/{process}/status"))
    return int(match.group(1)) if match else 0


class Run:
    """One run: the guardian (phantora-run), the supervisor, and what it runs."""

    def __init__(self, words, mark, terminal=False, limits=(), environment=None):
        self.mark, self.master, slave = mark, None, None
        if terminal:
            self.master, slave = pty.openpty()

        def prepare():
            for what, most in limits:
                resource.setrlimit(what, most if isinstance(most, tuple) else (most, most))
        self.process = subprocess.Popen(
            words, stdin=slave if terminal else subprocess.DEVNULL, stdout=slave or subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, preexec_fn=prepare,
            env={**os.environ, **(environment or {}), MARK: mark})
        if slave is not None:
            os.close(slave)
        self.output, self.errors = bytearray(), bytearray()
        self.readers = [threading.Thread(target=self.collect, args=(stream, into), daemon=True)
                        for stream, into in ((self.process.stdout, self.output), (self.process.stderr, self.errors))
                        if stream is not None]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def collect(stream, into):
        while part := os.read(stream.fileno(), 1 << 16):
            into += part

    @property
    def guardian(self):
        return self.process.pid

    def supervisor(self):
        return next((process for process in marked(self.mark) if parent(process) == self.guardian), None)

    def ranks(self):
        """All but the guardian and the supervisor."""
        supervisor = self.supervisor()
        return [process for process in marked(self.mark) if process not in (self.guardian, supervisor)]

    def wait(self):
        """The exit status; None: it hangs, and is ended."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return None


# --- What can happen -----------------------------------------------------------------


def send(number, whom):
    def happen(run, chance):
        process = whom(run, chance)
        if process is None:
            return False
        try:
            os.kill(process, number)
        except ProcessLookupError:
            return False
        return True
    return happen


def guardian(run, _):
    return run.guardian


def supervisor(run, _):
    return run.supervisor()


def any_rank(run, chance):
    ranks = run.ranks()
    return chance.choice(ranks) if ranks else None


def any_thread(run, chance):
    rank = any_rank(run, chance)
    try:
        return int(chance.choice(os.listdir(f"/proc/{rank}/task"))) if rank else None
    except (OSError, IndexError):
        return None


def all_ranks(number):
    def happen(run, _):
        some = False
        for process in run.ranks():
            try:
                os.kill(process, number)
                some = True
            except ProcessLookupError:
                pass
        return some
    return happen


def pause(whom):
    """Stopped for a while, and resumed."""
    def happen(run, chance):
        stopped = send(signal.SIGSTOP, whom)(run, chance)
        time.sleep(chance.uniform(0, 0.5))
        for process in marked(run.mark):
            try:
                os.kill(process, signal.SIGCONT)
            except ProcessLookupError:
                pass
        return stopped
    return happen


def look(*words, ended_early):
    """A debugger that comes and goes. One that is ended early may leave what it looked at stopped, or interrupted, which
    is its own affair: gdb does so without Phantora, too.
    """
    def happen(run, chance):
        rank = any_rank(run, chance)
        if rank is None:
            return False
        with subprocess.Popen([word.format(rank) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as debugger:
            try:
                debugger.wait(chance.uniform(0.1, 2) if ended_early else PATIENCE)
            except subprocess.TimeoutExpired:
                debugger.terminate()
        return True
    return happen


def hang_up(run, _):
    os.close(run.master)
    run.master = None
    return True


def nothing(_run, _chance):
    return True


# What a rank's death makes of a run: its own status, or that of one that noticed first.
ENDED_BY = {137}
FINE = {0}
# Before it has set itself up, phantora-run dies of a signal as any program does, with nobody to end.
MISHAPS = [
    Mishap("nothing", nothing, FINE),
    Mishap("phantora-run is killed", send(signal.SIGKILL, guardian), {-9}),
    Mishap("phantora-run is interrupted", send(signal.SIGINT, guardian), {130, -2}),
    Mishap("phantora-run is terminated", send(signal.SIGTERM, guardian), {143, -15}),
    Mishap("phantora-run is hung up", send(signal.SIGHUP, guardian), {129, -1}),
    Mishap("the supervisor is killed", send(signal.SIGKILL, supervisor), {70}, "the supervisor died"),
    Mishap("the supervisor crashes", send(signal.SIGSEGV, supervisor), {70}, "the supervisor died"),
    Mishap("a process is killed", send(signal.SIGKILL, any_rank), ENDED_BY),
    Mishap("a process crashes", send(signal.SIGSEGV, any_rank), {139}),
    Mishap("a process is terminated", send(signal.SIGTERM, any_rank), {143}),
    Mishap("a thread is killed", send(signal.SIGKILL, any_thread), ENDED_BY),
    Mishap("all processes are killed", all_ranks(signal.SIGKILL), ENDED_BY),
    Mishap("a process is stopped and resumed", pause(any_rank), FINE),
    Mishap("the supervisor is stopped and resumed", pause(supervisor), FINE),
    Mishap("phantora-run is stopped and resumed", pause(guardian), FINE),
    Mishap("strace comes and goes", look("strace", "-f", "-o", "/dev/null", "-p", "{}", ended_early=True), FINE),
    Mishap("gdb comes and goes", look("gdb", "-q", "-batch", "-p", "{}", "-ex", "bt 3", ended_early=False), FINE),
    Mishap("the terminal is closed", hang_up, {129, -1}),
]
# Of the surroundings, from the beginning: the run fails and says so, or does without.
SHORTAGES = {
    "few descriptors": {"limits": [(resource.RLIMIT_NOFILE, 24)]},
    "some descriptors": {"limits": [(resource.RLIMIT_NOFILE, 64)]},
    "little address space": {"limits": [(resource.RLIMIT_AS, 1 << 30)]},
    "no files longer than a page": {"limits": [(resource.RLIMIT_FSIZE, 4096)]},  # and no way to raise that
    "no files longer than a page at first": {"limits": [(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))]},
    "no place for temporary files": {"environment": {"TMPDIR": "/proc/none"}},
    "a full disk": {"full": True},
    "little memory": {"options": ["--memory-limit", "64M"]},
    # The kernel kills whom it likes.
    "a control group of 64 MiB": {"group": 64 << 20, "killed": True},
    "a control group of 200 MiB": {"group": 200 << 20, "killed": True},
}


class ControlGroup:
    """A memory control group (of either version) for a run; None from make() where this user cannot have one."""

    def __init__(self, path):
        self.path = path

    @classmethod
    def make(cls, most):
        for parent, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            path = pathlib.Path(parent, f"phantora-chaos-{os.getpid()}")
            try:
                path.mkdir()
            except OSError:
                continue
            try:
                (path / limit).write_text(str(most))
                return cls(path)
            except OSError:
                path.rmdir()
        return None

    def words(self, words):
        return ["sh", "-c", f"echo $$ > {self.path}/cgroup.procs; exec \"$@\"", "sh", *words]

    def remove(self):
        # Who has been killed leaves it a moment later.
        for _ in range(100):
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"{self.path}: somebody is still in it")


class Chaos:
    def __init__(self, phantora_run, programs, seed, mode=None, leave_hangs=False):
        self.phantora_run, self.programs, self.seed = phantora_run, programs, seed
        self.leave_hangs = leave_hangs
        self.mode = mode
        self.durations = {}
        self.counts = collections.Counter()
        self.late = collections.Counter()
        self.failures = []

    def words(self, program, mode, more=()):
        options = [*program.options, *(program.simulated if mode != "real" else ()), *more]
        return [self.phantora_run, "--no-status", "--host-time", mode, *options, "--", *program.command]

    def surroundings(self):
        """What a run could leave behind."""
        mounts = read("/proc/self/mounts").splitlines()
        # libcuda's of a process that was killed stay on a real machine, too.
        shared = {name for name in own_files("/dev/shm") if not name.startswith("cuda.shm.")}
        temporary = {name for name in own_files(tempfile.gettempdir()) if name.startswith("phantora")}
        ipc = set(re.findall(rb"^\s*(\d+\s+\d+)", read("/proc/sysvipc/shm"), re.M))
        return {"mounts": set(mounts), "shared memory": shared, "temporary files": temporary, "System V": ipc}

    def fail(self, number, what, run):
        text = bytes(run.errors).decode(errors="replace")
        self.failures.append(f"run {number} (--seed {self.seed}): {what}\n{text[-1500:]}")
        print("FAILED", self.failures[-1], flush=True)

    def leftovers(self, before, mark):
        """What is left, once who is ending has ended."""
        deadline = time.monotonic() + 15
        while (left := marked(mark)) and time.monotonic() < deadline:
            time.sleep(0.05)
        found = [f"process {process}: {read(f'/proc/{process}/cmdline')[:80]!r}" for process in left]
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        after = self.surroundings()
        for kind, names in after.items():
            found += [f"{kind}: {name!r}" for name in names - before[kind]]
        return found

    def duration(self, program, mode):
        """Real seconds of an undisturbed run, once."""
        key = program.name, mode
        if key not in self.durations:
            begin = time.monotonic()
            run = Run(self.words(program, mode), f"{os.getpid()}-{program.name}-{mode}")
            status = run.wait()
            if status != 0:
                self.fail(-1, f"{program.name}, {mode}, undisturbed: status {status}", run)
            self.durations[key] = time.monotonic() - begin
        return self.durations[key]

    def disturb(self, number, only):
        chance = random.Random(f"{self.seed} {number}")
        program, mode = chance.choice(self.programs), self.mode or chance.choice(MODES)
        names = [mishap.name for mishap in MISHAPS] + list(SHORTAGES)
        name = only or chance.choice(names)
        self.counts[name] += 1
        before = self.surroundings()
        if name in SHORTAGES:
            return self.short_of(number, name, program, mode, before)
        mishap = next(mishap for mishap in MISHAPS if mishap.name == name)
        duration = self.duration(program, mode)
        run = Run(self.words(program, mode), f"{os.getpid()}-{number}", terminal=mishap.cause is hang_up)
        time.sleep(chance.uniform(0, 0.7 * duration))
        happened = run.process.poll() is None and mishap.cause(run, chance)
        self.late[name] += not happened
        status = run.wait()
        what = f"{program.name}, {mode}, {name}"
        if status is None:
            self.show_hang(run)
            run.process.kill()
            self.fail(number, f"{what}: hangs", run)
        if run.master is not None:
            os.close(run.master)
        left = self.leftovers(before, run.mark)
        for reader in run.readers:
            reader.join(10)
        if left:
            self.fail(number, f"{what}: left {left}", run)
        # It may have ended by itself before that had an effect.
        allowed = mishap.expected | FINE if happened else FINE
        if status is not None and status not in allowed and not self.is_of_a_program(mishap, status):
            self.fail(number, f"{what}: status {status}, not one of {sorted(allowed)}", run)
        if mishap.said and status not in (0, None) and not re.search(mishap.said, run.errors.decode(errors="replace")):
            self.fail(number, f"{what}: does not say '{mishap.said}'", run)
        return None

    @staticmethod
    def is_of_a_program(mishap, status):
        """A program may notice that another process of its own has ended, and fail for that."""
        return mishap.cause is not nothing and "process" in mishap.name or "thread" in mishap.name and status > 0

    def short_of(self, number, name, program, mode, before):
        shortage = SHORTAGES[name]
        environment = dict(shortage.get("environment", {}))
        with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
            more = list(shortage.get("options", []))
            words = self.words(program, mode, more)
            if shortage.get("full"):
                more += ["--report", folder + "/full/report", "--trace", folder + "/full/trace.json"]
                os.mkdir(folder + "/full")
                inner = " ".join(subprocess.list2cmdline([word]) for word in self.words(program, mode, more))
                words = ["unshare", "-rm", "sh", "-c",
                         f"mount -t tmpfs -o size=16k none {folder}/full && TMPDIR={folder}/full exec {inner}"]
            group = ControlGroup.make(shortage["group"]) if "group" in shortage else None
            if group:
                words = group.words(words)
            run = Run(words, f"{os.getpid()}-{number}", limits=shortage.get("limits", ()), environment=environment)
            status = run.wait()
            if status is None:
                self.show_hang(run)
                run.process.kill()
                self.fail(number, f"{program.name}, {mode}, {name}: hangs", run)
            left = self.leftovers(before, run.mark)
            if group:
                group.remove()
        for reader in run.readers:
            reader.join(10)
        if left:
            self.fail(number, f"{program.name}, {mode}, {name}: left {left}", run)
        if not shortage.get("killed") and (status is not None and status < 0 or status == 70):
            self.fail(number, f"{program.name}, {mode}, {name}: status {status}", run)
        # That a signal ended it, shells say.
        if status is not None and 0 < status < 128 and not run.errors and not run.output:
            self.fail(number, f"{program.name}, {mode}, {name}: fails without a word", run)

    def show_hang(self, run):
        for process in marked(run.mark):
            print(f"  {process} of {parent(process)}: {read(f'/proc/{process}/cmdline')[:100]!r}", flush=True)
            for thread in sorted(os.listdir(f"/proc/{process}/task"), key=int):
                at = f"/proc/{process}/task/{thread}"
                state = re.search(rb"State:\t(.*)", read(f"{at}/status"))
                print(f"    {thread} {state.group(1).decode() if state else 'gone'}, {read(f'{at}/wchan').decode()}, "
                      f"call {' '.join(read(f'{at}/syscall').decode().split()[:4])}", flush=True)
        if self.leave_hangs:
            print(run.errors.decode(errors="replace")[-1500:], f"\nstill there, of {run.guardian}", flush=True)
            os._exit(1)


def programs(nccl_perf, turns, equal_pages, tracees):
    found = [Program(pathlib.Path(path).name, ["--gpus", "2"], [path]) for path in tracees]
    perf = [nccl_perf, "all_reduce", "-b", "64K", "-e", "64M", "-f", "8", "-n", "3", "-c", "0"]
    return found + [
        Program("nccl", ["--gpus", "4"], [*perf, "-g", "4"]),
        Program("hosts", ["--cluster", "dgx-h100:2", "--ranks-per-host", "2"], perf),
        Program("sharing", ["--cluster", "dgx-h100:1", "--ranks-per-host", "4"], [equal_pages, "48", "150"], ["--share-memory", "on"]),
        Program("turns", [], [turns, "pipe", "300", "200"]),
        Program("shell", [], ["sh", "-c", "for i in 1 2 3 4 5 6; do (sleep 0.1; ls /proc/driver/nvidia >/dev/null) & done; wait"]),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phantora_run")
    parser.add_argument("nccl_perf")
    parser.add_argument("turns")
    parser.add_argument("equal_pages")
    parser.add_argument("tracees", nargs="+")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="one mishap, by its name")
    parser.add_argument("--program", help="one program, by its name")
    parser.add_argument("--mode", choices=MODES, help="one way to take the host's time")
    parser.add_argument("--leave-hangs", action="store_true", help="end with the first run that hangs, and leave it there")
    options = parser.parse_args()
    chosen = programs(*map(os.path.abspath, (options.nccl_perf, options.turns, options.equal_pages)), map(os.path.abspath, options.tracees))
    if options.program:
        chosen = [program for program in chosen if program.name == options.program]
        if not chosen:
            parser.error(f"no program is called {options.program}")
    chaos = Chaos(os.path.abspath(options.phantora_run), chosen, options.seed, options.mode, options.leave_hangs)
    for tool in ("strace", "gdb"):
        if shutil.which(tool) is None:
            print(f"{tool} is not here: it does not come")
            MISHAPS[:] = [mishap for mishap in MISHAPS if tool not in mishap.name]
    if (group := ControlGroup.make(1 << 30)) is None:
        print("no control group can be made here")
        for name in [name for name, shortage in SHORTAGES.items() if "group" in shortage]:
            del SHORTAGES[name]
    else:
        group.remove()
    for number in range(options.first, options.first + options.runs):
        chaos.disturb(number, options.only)
        if number % 50 == 49:
            print(f"{number + 1 - options.first} runs so far, {len(chaos.failures)} failures", flush=True)
    width = max(map(len, chaos.counts), default=0)
    for name, count in sorted(chaos.counts.items()):
        late = f" ({chaos.late[name]} too late)" if chaos.late[name] else ""
        print(f"{name:{width}}  {count}{late}")
    print(f"{options.runs} runs, {len(chaos.failures)} failures")
    return 1 if chaos.failures else 0


if __name__ == "__main__":
    sys.exit(main())
