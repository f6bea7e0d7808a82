"""Rows of profiles/data/GPU from what `phantora_bench measure` measured.

  phantora_bench rows FILE --gpu NAME --phantora-run PATH -o profiles/data/NAME

Times come from FILE. What each kernel does (family, shape, FLOPs, bytes, tiles) comes from the emulator:
the operations of FILE are run on an emulated NAME, which need not be the GPU of FILE but should launch
the same kernels. An operation that launches one kernel there gives a row; one of several does where
FILE has the times of kernels, and these can be told apart by their names. All else is left out, and said.

With --launches FILE, what operations launch is kept in FILE if that is not there yet, and nothing more is done; else it
is taken from there: so operations can be emulated where their libraries are, before or while they are measured
(`phantora_bench list --jsonl` makes a FILE of operations without times).

Writes kernels.tsv (kernel_rows.py merge FILE... joins it with what there is) and host_costs.tsv: calls,
copies and fills by size, columns call, bytes, nodes, side (device: by events; host: the call), time_us,
error, source.
"""

import argparse
import collections
import ctypes
import hashlib
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import kernel_rows
from bench import ops
from bench.catalogue import define_all

PAUSE_S = 5
# A kernel's title says nothing that the shape of these does not.
BY_SHAPE = ("gemm", "attention", "convolution")


def run_operations(path):
    """Under phantora-run: each warm, then once alone, with pauses by which a timeline tells them apart.
    Prints when, after a piece of work that stands alone by which this clock and the timeline's are
    compared."""
    torch = ops.torch()
    define_all()
    mark = torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    time.sleep(4 * PAUSE_S)
    print(json.dumps(["", time.monotonic(), 0]))
    mark.fill_(1)
    torch.cuda.synchronize()
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()[1:]:
        op = ops.OPS.get(ops.key_of(json.loads(line)))
        if op is None or op.host or op.l2 == "cold" or op.family == "copy":
            continue
        time.sleep(PAUSE_S)
        try:
            function = op.make(**op.parameters)
            function()
            torch.cuda.synchronize()
            time.sleep(PAUSE_S)
            begin = time.monotonic()
            function()
            torch.cuda.synchronize()
            print(json.dumps([op.key, begin, time.monotonic()]))
        except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError, KeyError) as error:
            print(f"{op.key}: {error}", file=sys.stderr)
        function = None
        torch.cuda.empty_cache()


def this_program():
    """phantora_bench.pyz if this is a part of it, else phantora_bench.py."""
    root = pathlib.Path(__file__).resolve().parents[1]
    return root if root.is_file() else root / "phantora_bench.py"


def identity(launch):
    """What a slice of the timeline and a line of the log have in common."""
    return (launch.get("name", launch.get("kernel")), tuple(launch["grid"]), tuple(launch["block"]),
            launch["family"], round(launch["flops"]), round(launch["bytes"]))


def emulate(options, folder):
    """The launches of each operation, as lines of the kernel log; None for one that is not known."""
    trace, log = folder / "trace.json", folder / "kernels.jsonl"
    result = subprocess.run(
        [options.phantora_run, "--gpu", options.gpu, "--host-time", "fixed", "--no-status", "--trace", trace,
         "--log-kernels", log, *(["--model-only"] if options.model_only else []), "--", options.python,
         this_program(), "rows", "--run", options.file], text=True, stdout=subprocess.PIPE, check=False)
    if result.returncode != 0:
        sys.exit("phantora_bench rows: the operations cannot be run under phantora-run, see above")
    log_by = collections.defaultdict(list)
    for line in log.read_text(encoding="utf-8").splitlines():
        launch = json.loads(line)
        if "family" in launch:
            log_by[identity(launch)].append(launch)
    work = sorted((event["args"] | event for event in json.loads(trace.read_text(encoding="utf-8"))
                   if event.get("cat") in ("kernel", "copy")), key=lambda event: event["ts"])
    spans = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("[")]
    alone = next(after for before, after in zip(work, work[1:])
                 if after["ts"] - before["ts"] > 3e6 * PAUSE_S)
    offset = alone["ts"] - spans[0][1] * 1e6
    launches = {}
    for key, begin, end in spans[1:]:
        slices = [event for event in work
                  if begin * 1e6 + offset - 1e3 <= event["ts"] <= end * 1e6 + offset + 1e3]
        # Copies and fills are no rows, also where libcuda does them with kernels of its own, known or not.
        kernels = [event for event in slices if event.get("family") not in (None, "libcuda")
                   and not re.fullmatch("kernel [0-9a-f]{8}", event["name"])]
        launches[key] = ([launch_of(event, log_by[identity(event)]) for event in kernels],
                         len(slices) - len(kernels))
    return launches


def launch_of(event, candidates):
    """What is known of a slice: its kernel's symbol, and its row without a time; None where nothing is
    known of what it does, or launches that look alike do different work."""
    rows = [row_of(launch) for launch in candidates if launch["source"] != "placeholder"]
    one = len({kernel_rows.key(row) for row in rows}) == 1
    return {"symbol": candidates[0]["symbol"] if candidates else event["name"],
            "row": rows[0] if one else None}


def row_of(launch):
    row = kernel_rows.row_of(launch)
    if row["family"] in BY_SHAPE and row["shape"] != "-" and not row["kernel"].startswith("cudnn_generated"):
        row["kernel"] = "*"
    return row


def demangle(symbol):
    function = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    function.restype, status = ctypes.c_void_p, ctypes.c_int()
    address = function(symbol.encode(), None, None, ctypes.byref(status))
    if not address:
        return symbol
    return ctypes.string_at(address).decode(errors="replace")


def plain(name):
    """A function's own name, without namespaces, return type, template arguments and parameters."""
    depth, kept = 0, []
    for c in name.replace("(anonymous namespace)::", "").removeprefix("void "):
        depth += c in "<"
        if depth == 0:
            if c == "(":
                break
            kept.append(c)
        depth -= c in ">"
    return "".join(kept).split("::")[-1].strip()


def times_of(line, launches, others):
    """Times (us) of an operation's launches, and '' or why there are none. `others`: copies and fills
    that it has beside them."""
    measured = line.get("kernels")
    if not measured:
        if len(launches) == 1 and not others:
            return [line["time_us"]], ""
        return None, "several kernels, whose own times were not measured"
    measured = [kernel for kernel in measured if not kernel["name"].startswith(("Memset", "Memcpy"))]
    if len(measured) != len(launches):
        return None, "other kernels on the GPU than here"
    if len(launches) == 1 and launches[0]["row"] and launches[0]["row"]["family"] in BY_SHAPE:
        return [measured[0]["time_us"]], ""
    symbols = [demangle(launch["symbol"]) for launch in launches]
    for name in (lambda n: n, plain):
        if [name(kernel["name"]) for kernel in measured] == [name(symbol) for symbol in symbols]:
            return [kernel["time_us"] for kernel in measured], ""
    return None, "other kernels on the GPU than here"


def join(lines, launches_by):
    """Rows, and for each reason the operations of which a kernel gave none."""
    rows, left_out = collections.defaultdict(list), collections.defaultdict(list)
    for line in lines:
        name = ops.key_of(line)
        if line.get("host") or line["family"] == "copy" or line["l2"] == "cold":
            continue
        launches, others = launches_by.get(name, ([], 0))
        if "skipped" in line:
            left_out["could not be measured"].append(name)
            continue
        if not launches:
            left_out["cannot be run here, or launches nothing"].append(name)
            continue
        times, why = times_of(line, launches, others)
        if times is None:
            left_out[why].append(name)
            continue
        if any(launch["row"] is None for launch in launches):
            left_out["(a part) the emulator does not know what a kernel does"].append(name)
        for launch, microseconds in zip(launches, times):
            if launch["row"] is None:
                continue
            rows[kernel_rows.key(launch["row"])].append((launch["row"], microseconds, line["error"]))
    return [one(rows[key]) for key in sorted(rows)], left_out


def one(measured):
    """The row of work that was measured once or more, perhaps as parts of different operations: the
    median, and an error that has them all."""
    median = statistics.median(time_us for _, time_us, _ in measured)
    error = max([0.001, *(error for _, _, error in measured),
                 *(abs(time_us / median - 1) for _, time_us, _ in measured)])
    return measured[0][0] | {"time_us": f"{median:.4g}", "error": f"{error:.3g}"}


def provenance(header, lines):
    """The word for the source column, and the comment that explains it."""
    def said(value):
        return "unknown" if value is None else value
    clocks = sorted({line["sm_mhz"] for line in lines if line.get("sm_mhz")})
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode()).hexdigest()[:6]
    word = f"bench-{header['date']}-{digest}"
    running = f"{clocks[0]} to {clocks[-1]}" if clocks else "unknown"
    return word, [
        f"# {word}: phantora_bench.py {header['phantora_bench']} on {header['gpu']} ({header['sms']} SMs, power limit "
        f"{said(header['power_limit_w'])} W), driver {header['driver']},",
        f"# CUDA {header['cuda']}, PyTorch {header['torch']}, cuDNN {header['cudnn']}, {header['date']}. SM clock "
        f"{running} MHz of {said(header['max_sm_mhz'])}, memory {said(header['max_memory_mhz'])} MHz.",
        "# Warm caches; "
        + ("each kernel by CUPTI where it was seen." if header["kernels"] == "profiler" else
           "by CUDA events, gaps between kernels included.")]


def host_costs(lines, word, comments):
    rows = ["\t".join(("call", "bytes", "nodes", "side", "time_us", "error", "source"))]
    for line in lines:
        if "skipped" not in line and (line.get("host") or line["family"] == "copy"):
            parameters = line["parameters"]
            rows.append("\t".join(map(str, (
                line["op"], parameters.get("bytes", "-"), parameters.get("nodes", "-"),
                "host" if line.get("host") else "device", f"{line['time_us']:.4g}", f"{line['error']:.3g}",
                word))))
    return "\n".join([*comments, *rows]) + "\n" if len(rows) > 1 else None


def main(arguments):
    if arguments[:1] == ["--run"]:
        return run_operations(arguments[1])
    parser = argparse.ArgumentParser(prog="phantora_bench rows", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--gpu", required=True, help="a personality's name, or a file")
    parser.add_argument("--phantora-run", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable, help="with PyTorch (default: this one)")
    parser.add_argument("--model-only", action="store_true", help="of phantora-run")
    parser.add_argument("--launches", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, help="a folder")
    options = parser.parse_args(arguments)
    header, *lines = [json.loads(line) for line in options.file.read_text(encoding="utf-8").splitlines()]
    if options.launches and not options.launches.exists():
        with tempfile.TemporaryDirectory() as folder:
            options.launches.write_text(json.dumps(emulate(options, pathlib.Path(folder))), encoding="utf-8")
        return 0
    if not options.output:
        sys.exit("phantora_bench rows: give a folder with -o")
    if header.get("phantora_bench") != ops.VERSION:
        sys.exit(f"{options.file} is not of phantora_bench.py, version {ops.VERSION}")
    if options.launches:
        launches = json.loads(options.launches.read_text(encoding="utf-8"))
    else:
        with tempfile.TemporaryDirectory() as folder:
            launches = emulate(options, pathlib.Path(folder))
    rows, left_out = join(lines, launches)
    word, comments = provenance(header, lines)
    options.output.mkdir(parents=True, exist_ok=True)
    with (options.output / "kernels.tsv").open("w", encoding="utf-8") as file:
        kernel_rows.write([row | {"source": word} for row in rows], comments, file)
    costs = host_costs(lines, word, comments)
    if costs:
        (options.output / "host_costs.tsv").write_text(costs, encoding="utf-8")
    print(f"{len(rows)} rows from {len(lines)} operations in {options.output}")
    for why, names in sorted(left_out.items()):
        print(f"left out, {why}: {len(names)}")
        for name in names:
            print(f"  {name}")
    return 0
