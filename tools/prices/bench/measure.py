"""The commands `measure` and `list`."""

import json
import sys
import time

from bench.catalogue import define_all
from bench.gpu import Bench
from bench.ops import OPS, key_of, torch

SAME = ("phantora_bench", "gpu", "driver", "torch", "power_limit_w")


def resume(path, header):
    """Keys of what is in the file, which is made if need be. A line that was cut is taken away."""
    if not path.exists() or not path.stat().st_size:
        path.write_text(json.dumps(header) + "\n", encoding="utf-8")
        return set()
    content = path.read_bytes()
    whole = content[:content.rfind(b"\n") + 1]
    lines = [json.loads(line) for line in whole.splitlines()]
    if not lines or any(lines[0].get(name) != header[name] for name in SAME):
        sys.exit(f"{path} is of another GPU, driver or version; give another file")
    if whole != content:
        path.write_bytes(whole)
    return {key_of(line) for line in lines[1:]}


def chosen(options):
    define_all()
    ops = [op for op in OPS.values() if op.level <= options.level
           and (not options.only or op.family in options.only)
           and max([0, *(v for k, v in op.parameters.items() if k == "bytes")]) <= options.most_bytes]
    unknown = set(options.only or ()) - {op.family for op in OPS.values()}
    if unknown:
        sys.exit(f"no family {', '.join(unknown)}; there are {', '.join(sorted({o.family for o in OPS.values()}))}")
    return sorted(ops, key=lambda op: op.level)  # stable


def measure(options):
    if not torch().cuda.is_available():
        sys.exit("PyTorch sees no GPU")
    ops, bench = chosen(options), Bench(not options.no_profiler, options.brief)
    done = resume(options.output, bench.header())
    ops = [op for op in ops if op.key not in done]
    deadline = time.monotonic() + options.minutes * 60
    with options.output.open("a", encoding="utf-8") as file:
        for number, op in enumerate(ops):
            if time.monotonic() > deadline:
                print(f"time is over with {len(ops) - number} operations left; run it again to go on")
                break
            line = bench.measure(op)
            file.write(json.dumps(line) + "\n")
            file.flush()
            try:
                torch().cuda.synchronize()
                torch().cuda.empty_cache()
            except RuntimeError as error:  # nothing works in this process any more
                sys.exit(f"the GPU failed at {op.key}: {error}\nrun it again to go on with the next")
            print(f"{number + 1}/{len(ops)} {op.name} {op.parameters} "
                  f"{line.get('skipped') or str(line['time_us']) + ' us'}", file=sys.stderr)
    print(f"wrote {options.output}")


def show(options):
    if options.jsonl:  # a file for `rows`, without times
        print("{}")
    for op in chosen(options):
        if options.jsonl:
            print(json.dumps({"op": op.name, "family": op.family, "parameters": op.parameters, "l2": op.l2}))
            continue
        print(op.level, op.family, op.key)
