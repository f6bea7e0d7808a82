#!/usr/bin/env python3
"""JAX's collectives among several GPUs, and two training steps, with the values that must arrive.

By hand, in an environment with jax[cuda12]. One process with several GPUs, where XLA must be told to leave sums of
small arrays to NCCL:

    XLA_FLAGS=--xla_gpu_unsupported_use_all_reduce_one_shot_kernel=false \\
        phantora-run --gpus 4 -- python jax_collectives.py [PART...]

A process per GPU, with the coordinator's address from the environment, or as JAX finds out itself:

    phantora-run --cluster dgx-h100:2 --ranks-per-host 1 -- python jax_collectives.py --distributed=environment
    phantora-run --cluster dgx-h100:2 --ranks-per-host 1 --rank-env slurm -- \\
        python jax_collectives.py --distributed=auto

XLA_PYTHON_CLIENT_PREALLOCATE=false and --xla_gpu_autotune_level=0 (in XLA_FLAGS) make it start faster.

Arguments of a collective come from the host, and what it leaves is compared on the host: nothing here depends on
what a kernel computes.
"""

import argparse
import os
import sys
import time
import traceback

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

PARTS = {}


def part(function):
    PARTS[function.__name__] = function
    return function


def mesh(shape=None, names=("i",)):
    devices = np.array(jax.devices())
    return Mesh(devices if shape is None else devices.reshape(shape), names)


def put(whole, over, spec):
    """The array `whole`, which every process has, laid over the GPUs of the mesh `over`."""
    return jax.make_array_from_callback(whole.shape, NamedSharding(over, spec), lambda index: whole[index])


def check(name, array, expected):
    """Every piece of `array` that this process has, against `expected`, the whole."""
    assert array.shape == expected.shape, f"{name}: {array.shape}, expected {expected.shape}"
    for shard in array.addressable_shards:
        got, wanted = np.asarray(shard.data), expected[shard.index]
        assert np.array_equal(got, wanted), f"{name} on {shard.device}: got {got}, expected {wanted}"


def mapped(function, over, inputs, outputs):
    return jax.jit(jax.shard_map(function, mesh=over, in_specs=inputs, out_specs=outputs, check_vma=False))


def numbers(rows, columns, dtype=np.float32):
    """Small whole numbers, different everywhere."""
    return (np.arange(rows * columns) % 251).reshape(rows, columns).astype(dtype)


# --- Collectives ------------------------------------------------------------------------------------


@part
def psum():
    """All-reduce: sum, largest and smallest, in several types, up to the 1 MiB that are computed."""
    n, over = jax.device_count(), mesh()
    for dtype in (np.float32, np.int32, np.float16, jnp.bfloat16, np.float64):
        if dtype == np.float64 and not jax.config.jax_enable_x64:
            continue
        x = numbers(n, 24, dtype)
        for name, op, reduce in (("psum", lax.psum, np.sum), ("pmax", lax.pmax, np.max),
                                 ("pmin", lax.pmin, np.min)):
            result = mapped(lambda a, op=op: op(a, "i"), over, P("i"), P("i"))(put(x, over, P("i")))
            row = reduce(x.astype(np.float64), axis=0).astype(dtype)
            check(f"{name} {np.dtype(dtype).name}", result, np.tile(row, (n, 1)))
    x = numbers(n, (1 << 20) // 4)
    result = mapped(lambda a: lax.psum(a, "i"), over, P("i"), P("i"))(put(x, over, P("i")))
    check("psum of 1 MiB", result, np.tile(x.sum(axis=0), (n, 1)))


@part
def all_gather():
    n, over = jax.device_count(), mesh()
    for columns in (3, 300_000):
        x = numbers(n, columns)
        result = mapped(lambda a: lax.all_gather(a, "i", axis=0, tiled=True), over, P("i"), P("i"))(
            put(x, over, P("i")))
        check("all_gather", result, np.tile(x, (n, 1)))


@part
def psum_scatter():
    n, over = jax.device_count(), mesh()
    x = numbers(n * n, 40)
    result = mapped(lambda a: lax.psum_scatter(a, "i", scatter_dimension=0, tiled=True), over, P("i"), P("i"))(
        put(x, over, P("i")))
    check("psum_scatter", result, x.reshape(n, n, 40).sum(axis=0))


@part
def ppermute():
    n, over = jax.device_count(), mesh()
    x = numbers(n, 1000)
    for step in (1, n - 1):
        ring = [(i, (i + step) % n) for i in range(n)]
        result = mapped(lambda a, ring=ring: lax.ppermute(a, "i", ring), over, P("i"), P("i"))(
            put(x, over, P("i")))
        check(f"ppermute by {step}", result, np.roll(x, step, axis=0))


@part
def all_to_all():
    n, over = jax.device_count(), mesh()
    x = numbers(n * n, 1000)
    result = mapped(lambda a: lax.all_to_all(a, "i", 0, 0, tiled=True), over, P("i"), P("i"))(
        put(x, over, P("i")))
    check("all_to_all", result, x.reshape(n, n, 1000).transpose(1, 0, 2).reshape(n * n, 1000))


@part
def axes_of_a_mesh():
    """Collectives among some of the GPUs: each axis of a mesh is a communicator of its own."""
    n = jax.device_count()
    if n % 2:
        return
    over = mesh((2, n // 2), ("a", "b"))
    x = numbers(n, 16)
    cube = x.reshape(2, n // 2, 16)
    for axis, expected in (("a", np.broadcast_to(cube.sum(axis=0, keepdims=True), cube.shape)),
                           ("b", np.broadcast_to(cube.sum(axis=1, keepdims=True), cube.shape))):
        result = mapped(lambda a, axis=axis: lax.psum(a, axis), over, P(("a", "b")), P(("a", "b")))(
            put(x, over, P(("a", "b"))))
        check(f"psum along {axis}", result, expected.reshape(n, 16))


@part
def pmap():
    if jax.process_count() > 1:
        return
    n = jax.device_count()
    x = numbers(n, 32)
    result = jax.pmap(lambda a: lax.psum(a, "i"), axis_name="i")(x)
    assert np.array_equal(np.asarray(result), np.tile(x.sum(axis=0), (n, 1))), "pmap psum"
    result = jax.pmap(lambda a: lax.all_gather(a, "i"), axis_name="i")(x)
    assert np.array_equal(np.asarray(result), np.tile(x, (n, 1, 1))), "pmap all_gather"


@part
def reshard():
    """What the partitioner makes of a change of sharding, and copies between GPUs of a process."""
    n, over = jax.device_count(), mesh()
    x = numbers(4 * n, 8 * n)
    rows, whole = NamedSharding(over, P("i", None)), NamedSharding(over, P())
    array = put(x, over, P("i", None))
    check("to all", jax.jit(lambda a: a, out_shardings=whole)(array), x)
    check("to all, by device_put", jax.device_put(array, whole), x)
    check("back", jax.jit(lambda a: a, out_shardings=rows)(array), x)
    if jax.process_count() == 1:
        first, last = jax.devices()[0], jax.devices()[-1]
        copied = jax.device_put(jax.device_put(x, first), last)
        assert np.array_equal(np.asarray(copied), x), "copy from the first GPU to the last"


# --- Training steps ---------------------------------------------------------------------------------


def init(width, depth):
    return [{"up": np.zeros((width, 4 * width), np.float32), "down": np.zeros((4 * width, width), np.float32)}
            for _ in range(depth)]


def loss(parameters, x, y):
    for layer in parameters:
        x = x + jax.nn.gelu(x @ layer["up"]) @ layer["down"]
    return jnp.mean((x - y) ** 2)


@jax.jit
def step(parameters, x, y):
    value, gradients = jax.value_and_grad(loss)(parameters, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients), value


def train(name, over, specs, data):
    width, depth = 512, 4
    parameters = [{k: put(v, over, specs[k]) for k, v in layer.items()} for layer in init(width, depth)]
    batch = numbers(64, width)
    x, y = put(batch, over, data), put(batch, over, data)
    for i in range(3):
        start = time.perf_counter()
        parameters, value = step(parameters, x, y)
        value.block_until_ready()
        if jax.process_index() == 0:
            print(f"{name} step {i}: {1e3 * (time.perf_counter() - start):.3f} ms", flush=True)
    for k, spec in specs.items():
        assert parameters[0][k].sharding.is_equivalent_to(NamedSharding(over, spec), 2)


@part
def data_parallel():
    train("data parallel", mesh(), {"up": P(), "down": P()}, P("i"))


@part
def tensor_parallel():
    train("tensor parallel", mesh(), {"up": P(None, "i"), "down": P("i", None)}, P())


@part
def sharded_data_parallel():
    train("sharded", mesh(), {"up": P("i", None), "down": P("i", None)}, P("i"))


# ----------------------------------------------------------------------------------------------------


def join(how):
    """Makes this process one of many, with one GPU."""
    if how == "auto":
        jax.distributed.initialize()
        return
    local = int(os.environ["LOCAL_RANK"])
    jax.distributed.initialize(
        coordinator_address=f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
        num_processes=int(os.environ["WORLD_SIZE"]), process_id=int(os.environ["RANK"]),
        local_device_ids=[local])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--distributed", choices=["environment", "auto"])
    parser.add_argument("parts", nargs="*", help="which parts (default: all): " + ", ".join(PARTS))
    arguments = parser.parse_args()
    if arguments.distributed:
        join(arguments.distributed)
    print(f"{jax.__version__}: process {jax.process_index()} of {jax.process_count()}, "
          f"{jax.local_device_count()} of {jax.device_count()} GPUs: {jax.devices()[0].device_kind}", flush=True)
    assert all(device.platform == "gpu" for device in jax.devices())
    assert jax.device_count() > 1, "needs more than one GPU"
    failed = []
    for name in arguments.parts or PARTS:
        try:
            PARTS[name]()
            print(f"ok {name}", flush=True)
        except Exception:  # pylint: disable=broad-except
            traceback.print_exc()
            failed.append(name)
    if failed:
        sys.exit(f"FAIL jax_collectives: {', '.join(failed)}")
    print("PASS jax_collectives")


if __name__ == "__main__":
    main()
