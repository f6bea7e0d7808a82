"""Measures a GPU for Phantora. Needs PyTorch and nothing else; phantora_bench.pyz can be copied anywhere.

  phantora_bench measure -o FILE    times operations on this machine's GPU, the most important first,
                                    for --minutes; FILE gets a JSON object per line. Run again, it goes
                                    on where it was.
  phantora_bench list               what it would measure
  phantora_bench rows FILE ...      what became of it: rows for profiles/data/GPU (needs Phantora; see rows.py)

The first line of FILE says what was measured: GPU, driver, clocks, versions. Then, per operation:
  op, parameters   which one
  l2               warm: the same data again and again; cold: after the cache was filled with other data
  time_us          of the operation on the GPU, by CUDA events: median of `samples` means of `inner` calls
                   queued behind other work. Of host calls (`host`), by the host's clock
  error            relative: half of what lies between the 10th and 90th of 100 samples, or the resolution
                   of events
  rejected         samples further from the median than five deviations
  kernels          name and time_us of each kernel in order, where PyTorch's profiler sees kernels
  sm_mhz           the SMs' clock right after
An operation that cannot be run has `skipped`, a reason, instead.
"""

import argparse
import pathlib
import sys

from bench.measure import measure, show


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for function, name in ((measure, "measure"), (show, "list")):
        command = commands.add_parser(name)
        command.add_argument("--only", action="append", metavar="FAMILY", help="may be given several times")
        command.add_argument("--level", type=int, default=2, help="0: the least, 2: all (default)")
        command.add_argument("--most-bytes", type=int, default=1 << 30, help="of a copy (default 1 GiB)")
        if function is show:
            command.add_argument("--jsonl", action="store_true", help="as `rows --launches` reads it")
        command.set_defaults(run=function)
        if function is measure:
            command.add_argument("-o", "--output", type=pathlib.Path, required=True)
            command.add_argument("--minutes", type=float, default=25, help="at most (default 25)")
            command.add_argument("--brief", action="store_true", help="a third of the time for each, for a GPU that is lent")
            command.add_argument("--no-profiler", action="store_true", help="events alone")
    if sys.argv[1:2] == ["rows"]:
        from bench import rows  # pylint: disable=import-outside-toplevel
        return rows.main(sys.argv[2:])
    commands.add_parser("rows", help="phantora_bench rows --help")
    options = parser.parse_args()
    return options.run(options)
