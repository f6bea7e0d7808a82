"""Runs a case's command, under phantora-run or natively, and reads its numbers."""

import json
import math
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

TAIL_LINES = 40
TAIL_COLUMNS = 240
GRACE_SECONDS = 10


class RunError(Exception):
    """A command that failed: which, how, and its last lines of output."""


def tail(*outputs):
    lines = [line for output in outputs for line in output.splitlines() if line.strip()]
    return "\n".join("  | " + line[:TAIL_COLUMNS] for line in lines[-TAIL_LINES:])


def end(process):
    """Ends a process and what it started."""
    for what, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, GRACE_SECONDS)):
        try:
            os.killpg(process.pid, what)
            process.wait(seconds)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            pass


def run(command, timeout_seconds, environment, folder):
    """Standard output. Raises RunError."""
    with tempfile.TemporaryFile("w+", errors="replace") as output, \
            tempfile.TemporaryFile("w+", errors="replace") as errors:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                                       env=os.environ | environment, cwd=folder, start_new_session=True)
        except OSError as error:
            raise RunError(f"{command[0]}: {error.strerror}") from error
        status = None
        try:
            status = process.wait(timeout_seconds)
            how = f"exit status {status}" if status >= 0 else f"ended by {signal.Signals(-status).name}"
        except subprocess.TimeoutExpired:
            how = f"was not done after {timeout_seconds:g} s"
        finally:
            if status is None:
                end(process)
        output.seek(0)
        errors.seek(0)
        text = output.read()
        if status != 0:
            raise RunError(f"{how}: {' '.join(map(str, command))}\n{tail(errors.read(), text)}")
        return text


def first_rank(output):
    """What rank 0 printed, without the prefix that phantora-run puts before lines."""
    lines = []
    for line in output.splitlines():
        prefix = re.match(r"\[rank (\d+)\] ?", line)
        if prefix is None or prefix[1] == "0":
            lines.append(line[prefix.end():] if prefix else line)
    return "\n".join(lines)


def json_object(output):
    """The last line that is a JSON object, or {}."""
    for line in reversed(output.splitlines()):
        if line.startswith("{"):
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                return value
    return {}


def read_value(row, output, values):
    """In the row's unit, or None if it is not in the output. Of several matches the last counts."""
    if row.json is not None:
        value = values.get(row.json)
    else:
        matches = re.findall(row.regex, output, re.M)
        value = matches[-1].replace(",", "") if matches else None
    try:
        value = float(value) * row.scale
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


class Runner:
    """Fills in the placeholders of commands and runs them.

    root: the repository; built: where Bazel's programs are (bazel-bin); cache: with the environments of
    tools/setup.sh; python: that of programs, by default the first environment's.
    """

    def __init__(self, root, built, cache, python=None, timeout_seconds=None):
        self.root, self.built = pathlib.Path(root), pathlib.Path(built)
        self.frameworks = pathlib.Path(cache) / "frameworks"
        self.python = python or pathlib.Path(cache) / "venv/bin/python"
        self.timeout_seconds = timeout_seconds

    def fill(self, words, scratch):
        """Raises RunError if an environment is missing."""
        for name in re.findall(r"\{frameworks\}/([\w.-]+)", " ".join(words)):
            if not (self.frameworks / name).exists():
                raise RunError(f"it takes the environment of: tools/setup.sh framework {name}")
        names = {"python": self.python, "frameworks": self.frameworks, "root": self.root, "built": self.built,
                 "scratch": scratch}
        for name, value in names.items():
            words = [word.replace("{%s}" % name, str(value)) for word in words]
        return words

    def values(self, case, output):
        output = first_rank(output)
        values = json_object(output)
        return {row.name: read_value(row, output, values) for row in case.rows}

    def simulate(self, case, prices, gpu=None):
        """Values by row, and the seconds that it took here. Raises RunError."""
        with tempfile.TemporaryDirectory(prefix="phantora-validate-") as scratch:
            options = self.fill(case.phantora_options(prices, gpu), scratch)
            command = [str(self.built / "tools/phantora-run"), "--no-status", *options, "--",
                       *self.fill(case.command, scratch)]
            limit = self.timeout_seconds or case.timeout_seconds
            start = time.monotonic()
            output = run(command, limit, case.environment, self.root)
            if case.then:
                output += "\n" + run(self.fill(case.then, scratch), limit, case.environment, self.root)
            return self.values(case, output), time.monotonic() - start

    def measure(self, case):
        """The same on this machine's GPU, natively. Raises RunError."""
        with tempfile.TemporaryDirectory(prefix="phantora-validate-") as scratch:
            return self.values(case, run(self.fill(case.command, scratch),
                                         self.timeout_seconds or case.timeout_seconds,
                                         {"CUDA_VISIBLE_DEVICES": "0"} | case.environment, self.root))


def gpu_here():
    """The name of this machine's first GPU ("NVIDIA H200"), or None."""
    try:
        output = subprocess.run(["nvidia-smi", "-L"], text=True, capture_output=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"^GPU 0: (.*?) \(UUID", output, re.M)
    return match[1] if match else None


def personality(root, name):
    """The emulated GPU (of profiles/data) that is the card of this name, or None."""
    for file in sorted(pathlib.Path(root, "profiles/data").glob("*/personality.json")):
        if re.search(r'^\s*"product": "%s"' % re.escape(str(name)), file.read_text(encoding="utf-8"), re.M):
            return file.parent.name
    return None
