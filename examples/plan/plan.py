#!/usr/bin/env python3
"""Which parallelism is best for so many GPUs? Records a few steps of each layout with two replicas here, and replays
them with as many replicas as there is room for.

    examples/plan/plan.py --cluster dgx-h100 --gpus 1024 --global-batch 2048 --layouts 1x2 2x2 2x4 --sequence 1024 -- \\
        ~/.cache/phantora/venv/bin/python test/programs/train_3d.py --tp {tp} --pp {pp} --micro-batches {micro} \\
        --batch 1 --seq 1024 --steps 4

A layout is TENSORxPIPELINE. The program is told its sizes in the place of {tp}, {pp} and {micro}: how many
micro-batches of one sequence a replica has, so that all replicas together have the global batch. It must take data
parallelism from the number of its ranks. How it numbers them phantora-replay finds out.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

BINARIES = pathlib.Path(__file__).resolve().parents[2] / "bazel-bin/tools"


def run(command):
    """Its output; ends this program if it fails, with what it said last."""
    result = subprocess.run([str(part) for part in command], text=True, capture_output=True, check=False)
    if result.returncode != 0:
        lines = (result.stdout + result.stderr).strip().splitlines()
        sys.exit("plan: " + " ".join(map(str, command)) + " failed:\n" + "\n".join(lines[-20:]))
    return result.stdout


def plan(options, tensor, pipeline, directory):
    """What a layout comes to on all GPUs: a row of the table, or the reason why it cannot be used."""
    ranks = tensor * pipeline
    if options.gpus % ranks != 0:
        return f"{options.gpus} GPUs are no multiple of {ranks}"
    replicas = options.gpus // ranks
    if options.global_batch % replicas != 0:
        return f"a global batch of {options.global_batch} is no multiple of {replicas} replicas"
    micro = options.global_batch // replicas
    command = [part.format(tp=tensor, pp=pipeline, micro=micro) for part in options.program]
    recording, result = directory / f"{tensor}x{pipeline}.json", directory / "result.json"
    # Two replicas are recorded, on as few hosts as they take.
    per_host = min(2 * ranks, options.per_host)
    if 2 * ranks % per_host != 0 or options.gpus % options.per_host != 0:
        return f"{2 * ranks} or {options.gpus} ranks do not fill hosts of {options.per_host}"
    print(f"recording {tensor}x{pipeline} with {micro} micro-batches on {2 * ranks} GPUs ...", file=sys.stderr,
          flush=True)
    run([options.phantora_run, "--cluster", f"{options.cluster}:{2 * ranks // per_host}", "--ranks-per-host", per_host,
         "--host-time", options.host_time, "--execute", "off", "--record-step", recording, "--", *command])
    axes = [f"{name}={size}" for name, size in (("tp", tensor), ("dp", 2), ("pp", pipeline)) if size > 1]
    run([options.phantora_replay, recording, "--cluster", f"{options.cluster}:{options.gpus // options.per_host}",
         "--ranks-per-host", options.per_host, "--json", result,
         *(["--axes", ",".join(axes)] if options.megatron_order else [])])
    step, = json.loads(result.read_text())["steps"]
    first = step["roles"][0]
    seconds = first["step_ms"] / 1000
    return {"layout": f"{tensor}x{pipeline}", "replicas": replicas, "micro-batches": micro,
            "step ms": f"{1000 * seconds:.3f}", "exposed NCCL": f"{100 * first['exposed_ms'] / first['step_ms']:.0f} %",
            "memory GiB": f"{max(role['memory_bytes'] for role in step['roles']) / 2**30:.1f}",
            "tokens/s and GPU": options.global_batch * options.sequence / seconds / options.gpus}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", default="dgx-h100", help="a preset or a .yaml file (default: %(default)s)")
    parser.add_argument("--gpus", type=int, required=True)
    parser.add_argument("--per-host", type=int, default=8, help="GPUs of a host (default: %(default)s)")
    parser.add_argument("--global-batch", type=int, required=True, help="sequences of a step, of all replicas")
    parser.add_argument("--sequence", type=int, required=True, help="tokens of a sequence")
    parser.add_argument("--layouts", nargs="+", required=True, metavar="TxP")
    parser.add_argument("--megatron-order", action="store_true",
                        help="tell phantora-replay that ranks are laid out tensor, data, pipeline")
    parser.add_argument("--host-time", default="fixed", help="see phantora-run (default: %(default)s)")
    for tool in ("phantora-run", "phantora-replay"):
        parser.add_argument(f"--{tool}", default=BINARIES / tool, help=argparse.SUPPRESS)
    parser.add_argument("program", nargs="+", help="the program and its arguments, after --")
    options = parser.parse_args()
    rows, refused = [], []
    with tempfile.TemporaryDirectory() as directory:
        for layout in options.layouts:
            tensor, pipeline = map(int, layout.split("x"))
            row = plan(options, tensor, pipeline, pathlib.Path(directory))
            if isinstance(row, str):
                refused.append(f"{layout}: {row}")
            else:
                rows.append(row)
    rows.sort(key=lambda row: -row["tokens/s and GPU"])
    if rows:
        print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(f"{value:,.0f}" if isinstance(value, float) else str(value) for value in row.values())
              + " |")
    for reason in refused:
        print(reason)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
