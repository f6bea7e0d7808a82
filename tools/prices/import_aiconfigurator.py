#!/usr/bin/env python3
"""Makes profiles/data/<gpu>/surfaces from the tables of ai-dynamo/aiconfigurator.

usage: import_aiconfigurator.py REPOSITORY [--commit COMMIT] [--only PART] [--root ROOT]

REPOSITORY is a clone (or its git directory) of github.com/ai-dynamo/aiconfigurator; --commit (HEAD) is
what is read of it. --only takes the tables whose name has PART in it. The columns that say a shape decide
by their md5 whether a point is for fitting (seven of ten), or is held out: those go to profiles/held_out,
as do whole tables that are for checking only, and nothing in profiles/data is made from them. For every
file that there was, says what changed.

Needs pyarrow and numpy. Then: bazel run //profiles/surfaces:fit_surfaces -- <the files>.
"""

import argparse
import hashlib
import io
import json
import math
import pathlib
import subprocess
import sys

try:
    import numpy
    import pyarrow
    import pyarrow.parquet
except ImportError as missing:
    sys.exit(f"import_aiconfigurator.py: {missing}: pip install pyarrow numpy")

URL = "https://github.com/ai-dynamo/aiconfigurator"
DATA = "aic-core/src/aiconfigurator_core/systems/data"
MAGIC = b"phantora surface 1\n"
PER_E = 2048  # steps of the times' logarithm

# Theirs, ours, SMs (data sheets).
GPUS = {
    "a100_sxm": ("a100-sxm4-80gb", 108),
    "h100_sxm": ("h100-sxm5-80gb", 132),
    "h200_sxm": ("h200-sxm5-141gb", 132),
    "b200_sxm": ("b200-sxm-180gb", 148),
}
PRODUCT = ("m", "n", "k")
ATTENTION = (
    "batch_size",
    "isl",
    "num_heads",
    "num_key_value_heads",
    "head_dim",
    "step",
    "window_size",
)
# Layers of experts, all of whom one GPU has: `distribution` is how rows are spread over them.
EXPERTS = (
    "num_tokens",
    "hidden_size",
    "inter_size",
    "topk",
    "num_experts",
    "moe_tp_size",
    "distribution",
)
ALL_EXPERTS = {"moe_ep_size": 1}
# Where a table has no such column.
IMPLIED = {"window_size": 0}
# Words that are written as numbers, under another name.
NUMBERS = {
    "distribution": ("skew", {"balanced": 0, "power_law_1.01": 1.01, "power_law_1.2": 1.2}),
}
FLASH3 = {"kernel_source": "vllm_flash_attn_fa3"}
# On GPUs before Hopper, so FlashAttention 2.
FLASH2 = {"kernel_source": "vllm_flash_attn", "kv_cache_dtype": "bfloat16"}
FLASH2_GPUS = ("a100_sxm",)

# Ours, the folder and table, the shape's columns, what rows must have, and of which software: of the first
# version that a GPU has, points are fitted to; of the second list the first that it has is held out whole.
# Then the GPUs that it is for, if not all.
TABLES = [
    (
        "gemm_bf16",
        "gemm/{}/gemm_perf.parquet",
        PRODUCT,
        {"gemm_dtype": "bfloat16"},
        ["vllm/0.24.0", "vllm/0.14.0"],
        ["sglang/0.5.14", "sglang/0.5.10"],
    ),
    (
        "gemm_fp8",
        "gemm/{}/gemm_perf.parquet",
        PRODUCT,
        {"gemm_dtype": "fp8"},
        ["vllm/0.24.0"],
        ["sglang/0.5.14"],
    ),
    (
        "gemm_fp8_block",
        "gemm/{}/gemm_perf.parquet",
        PRODUCT,
        {"gemm_dtype": "fp8_block", "kernel_source": "DeepGemmFp8BlockScaledMMKernel"},
        ["vllm/0.24.0"],
        [],
    ),
    (
        "attention_prompt_bf16",
        "attention/{}/context_attention_perf.parquet",
        ATTENTION,
        FLASH3 | {"kv_cache_dtype": "bfloat16"},
        ["vllm/0.24.0"],
        [],
    ),
    (
        "attention_prompt_fp8",
        "attention/{}/context_attention_perf.parquet",
        ATTENTION,
        FLASH3 | {"kv_cache_dtype": "fp8"},
        ["vllm/0.24.0"],
        [],
    ),
    (
        "attention_token_bf16",
        "attention/{}/generation_attention_perf.parquet",
        ATTENTION,
        FLASH3 | {"kv_cache_dtype": "bfloat16"},
        ["vllm/0.24.0"],
        [],
    ),
    (
        "attention_token_fp8",
        "attention/{}/generation_attention_perf.parquet",
        ATTENTION,
        FLASH3 | {"kv_cache_dtype": "fp8"},
        ["vllm/0.24.0"],
        [],
    ),
    (
        "flash2_prompt_bf16",
        "attention/{}/context_attention_perf.parquet",
        ATTENTION,
        FLASH2,
        ["vllm/0.14.0"],
        [],
        FLASH2_GPUS,
    ),
    (
        "flash2_token_bf16",
        "attention/{}/generation_attention_perf.parquet",
        ATTENTION,
        FLASH2,
        ["vllm/0.14.0"],
        [],
        FLASH2_GPUS,
    ),
    (
        "experts_bf16",
        "moe/{}/moe_perf.parquet",
        EXPERTS,
        ALL_EXPERTS
        | {
            "moe_dtype": "bfloat16",
            "kernel_source": [
                "vllm_unquantizedfusedmoe_triton_tritonexperts",
                "sglang_fused_moe_triton",
            ],
        },
        ["vllm/0.24.0"],
        ["sglang/0.5.14", "sglang/0.5.10"],
        ("h100_sxm", "h200_sxm"),
    ),
    (
        "experts_fp8_block",
        "moe/{}/moe_perf.parquet",
        EXPERTS,
        ALL_EXPERTS
        | {
            "moe_dtype": "fp8_block",
            "kernel_source": ["vllm_fp8moe_triton_tritonexperts", "sglang_fused_moe_triton"],
        },
        ["vllm/0.24.0"],
        ["sglang/0.5.14"],
        ("h100_sxm", "h200_sxm"),
    ),
    # In tiles of 64 x 64, which older versions choose for most.
    (
        "experts64_bf16",
        "moe/{}/moe_perf.parquet",
        EXPERTS,
        ALL_EXPERTS | {"moe_dtype": "bfloat16", "kernel_source": "vllm_fused_moe"},
        ["vllm/0.14.0"],
        [],
        ("h100_sxm", "h200_sxm"),
    ),
    # Of an older version, which is the only one.
    (
        "experts_bf16",
        "moe/{}/moe_perf.parquet",
        EXPERTS,
        ALL_EXPERTS
        | {
            "moe_dtype": "bfloat16",
            "kernel_source": ["vllm_fused_moe", "sglang_fused_moe_triton"],
        },
        ["vllm/0.14.0"],
        ["sglang/0.5.10"],
        FLASH2_GPUS,
    ),
]


def git(repository, *words):
    result = subprocess.run(
        ["git", "-C", repository, *words], capture_output=True, check=False
    )
    if result.returncode:
        sys.exit(f"import_aiconfigurator.py: git: {result.stderr.decode().strip()}")
    return result.stdout


def read_table(repository, commit, path):
    """The table, or None if there is no such file."""
    if not git(repository, "ls-tree", "--name-only", commit, path):
        return None
    data = git(repository, "show", f"{commit}:{path}")
    if data.startswith(b"version https://git-lfs"):
        sys.exit(f"import_aiconfigurator.py: {path} is a pointer of Git LFS: fetch the file itself")
    return pyarrow.parquet.read_table(io.BytesIO(data)).to_pydict()


def points_of(table, shape, wanted):
    """{shape: ms}; the median where a shape was measured more than once."""
    for name, value in IMPLIED.items():
        table.setdefault(name, [value] * len(table["latency"]))
    missing = [name for name in (*shape, *wanted, "latency") if name not in table]
    if missing:
        sys.exit(f"import_aiconfigurator.py: the table has no column {', '.join(missing)}")
    found = {}
    for row in range(len(table["latency"])):
        if all(
            table[name][row] in (value if isinstance(value, list) else [value])
            for name, value in wanted.items()
        ):
            found.setdefault(tuple(table[name][row] for name in shape), []).append(
                table["latency"][row]
            )
    return {key: float(numpy.median(ms)) for key, ms in sorted(found.items()) if min(ms) > 0}


def is_for_fitting(shape):
    digest = hashlib.md5(",".join(str(value) for value in shape).encode()).hexdigest()
    return int(digest[:4], 16) % 100 < 70


def as_numbers(shape, points):
    """The columns' names and the points, with numbers for words."""
    names = [NUMBERS[name][0] if name in NUMBERS else name for name in shape]

    def number(name, value):
        return NUMBERS[name][1][value] if name in NUMBERS else value

    return names, {
        tuple(number(name, value) for name, value in zip(shape, key)): ms
        for key, ms in points.items()
    }


def surface(shape, points, about, sms):
    columns, numbers = [], []
    for place, name in enumerate(shape):
        values = sorted({key[place] for key in points})
        columns.append({"name": name, "values": values})
        at = {value: index for index, value in enumerate(values)}
        numbers += [at[key[place]] for key in points]
    numbers += [round(math.log(ms * 1e6) * PER_E) for ms in points.values()]
    head = {"columns": columns, "rows": len(points), "source": about, "sms": sms}
    body = numpy.array(numbers, dtype="<u2").tobytes()
    packed = pyarrow.Codec("zstd", compression_level=19).compress(body, asbytes=True)
    return MAGIC + json.dumps(head, separators=(",", ":")).encode() + b"\n" + packed


def read_surface(path):
    """What `surface` wrote: {shape: ms}."""
    data = path.read_bytes()
    end = data.index(b"\n", len(MAGIC))
    head = json.loads(data[len(MAGIC) : end])
    rows, columns = head["rows"], head["columns"]
    size = 2 * rows * (len(columns) + 1)
    body = pyarrow.Codec("zstd").decompress(data[end + 1 :], size, asbytes=True)
    numbers = numpy.frombuffer(body, dtype="<u2").reshape(len(columns) + 1, rows)
    shapes = [[column["values"][i] for i in numbers[c]] for c, column in enumerate(columns)]
    return dict(zip(zip(*shapes), numpy.exp(numbers[-1] / PER_E) * 1e-6))


def write(path, shape, points, about, sms):
    if not points:
        return
    shape, points = as_numbers(shape, points)
    if path.exists():
        old = read_surface(path)
        both = [math.log(points[key] / old[key]) for key in points if key in old]
        change = f"{100 * numpy.median(numpy.abs(both)):.2f} % in the median" if both else "-"
        print(
            f"{path}: {len(points)} points; {len(points.keys() - old.keys())} are new, "
            f"{len(old.keys() - points.keys())} are gone, the others changed by {change}"
        )
    else:
        print(f"{path}: {len(points)} points, new")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(surface(shape, points, about, sms))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("repository")
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--only", default="", metavar="PART")
    parser.add_argument(
        "--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2]
    )
    options = parser.parse_args()
    commit = git(options.repository, "rev-parse", options.commit).decode().strip()
    for theirs, (ours, sms) in GPUS.items():
        for name, where, shape, wanted, fitted, held_out, *gpus in TABLES:
            if options.only not in f"{ours}/{name}" or (gpus and theirs not in gpus[0]):
                continue
            chosen = set()
            for version in (*fitted, *held_out):
                path = f"{DATA}/{theirs}/{where.format(version)}"
                for_fitting = version in fitted
                if for_fitting in chosen:
                    continue
                table = read_table(options.repository, commit, path)
                points = points_of(table, shape, wanted) if table else {}
                if not points:
                    continue
                about = {
                    "repository": URL,
                    "commit": commit,
                    "path": path,
                    "licence": "Apache-2.0, NVIDIA CORPORATION & AFFILIATES",
                    "software": version,
                    "device": sorted(set(table["device"])),
                    "rows": wanted,
                }
                chosen.add(for_fitting)
                data = options.root / "profiles" / "data" / ours / "surfaces" / f"{name}.surface"
                label = version.replace("/", "-")
                held = options.root / "profiles" / "held_out" / ours / f"{name}.{label}.surface"
                if for_fitting:
                    fit = {key: ms for key, ms in points.items() if is_for_fitting(key)}
                    write(data, shape, fit, {**about, "part": "for fitting"}, sms)
                    points = {key: ms for key, ms in points.items() if key not in fit}
                write(held, shape, points, {**about, "part": "held out"}, sms)


if __name__ == "__main__":
    main()
