"""Runs programs under phantora-run and judges them by what they say."""

import subprocess
import sys
import time


def run(phantora_run, gpu, driver, gpus, name, command, says, timeout_seconds, options=()):
    """True if `command` exits 0, prints `says`, and Phantora met nothing unknown."""
    start = time.monotonic()
    try:
        result = subprocess.run([phantora_run, "--gpu", gpu, "--driver", driver,
                                 "--gpus", str(gpus), *options, "--", *command],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                timeout=timeout_seconds, check=False)
        output, status = result.stdout, result.returncode
    except subprocess.TimeoutExpired as error:
        output, status = (error.stdout or b"").decode(errors="replace"), "timeout"
    problems = []
    if status != 0:
        problems.append("exit status %s" % status)
    if says not in output:
        problems.append("did not say %r" % says)
    if "not emulated" in output:
        problems.append("unknown calls")
    seconds = time.monotonic() - start
    print("%-18s %5.1f s  %s" % (name, seconds, "; ".join(problems) or "ok"), flush=True)
    if problems:
        print(output, flush=True)
    return not problems


def finish(passed):
    """Ends the test: 0 if there were programs and all of them passed."""
    print("%d of %d programs pass" % (sum(passed), len(passed)))
    sys.exit(0 if passed and all(passed) else 1)
