#!/usr/bin/env python3
"""Prints what a rank sees of how it was started: the same, whoever starts it."""

import os
import signal
import sys
import threading

import numpy
import torch


def here():
    return sys._getframe().f_globals["__name__"], here.__module__, here.__code__.co_filename


def main():
    print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "on", os.uname().nodename)
    print("words", sys.argv, sys.orig_argv[1:], sys.flags)
    print("places", __file__, sys.path[0], os.getcwd(), sys.executable)
    print("main", here(), sorted(name for name in globals() if name != "torch"), __spec__, __package__)
    print("threads", threading.active_count(), threading.current_thread().name)
    print("streams", sys.stdin.read(), sys.stdout.line_buffering, sys.stderr.line_buffering, os.isatty(1))
    print("signals", [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)],
          signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    print("open", sorted(int(name) for name in os.listdir("/proc/self/fd"))[:3])
    print("environment", sorted(name for name in os.environ if name != "PATH"))
    # As many values as there are ranks, and not one for all.
    values = torch.tensor([float(int.from_bytes(os.urandom(3), "big")), numpy.random.rand()], dtype=torch.float64)
    torch.distributed.init_process_group("gloo")
    gathered = [torch.zeros_like(values) for _ in range(int(os.environ["WORLD_SIZE"]))]
    torch.distributed.all_gather(gathered, values)
    print("random", [len({row[i].item() for row in gathered}) for i in range(2)])
    print("device", torch.cuda.get_device_name(), torch.ones(3, device="cuda").sum().item())
    torch.distributed.destroy_process_group()
    sys.exit(3 if "fail" in sys.argv else 0)


if __name__ == "__main__":
    main()
