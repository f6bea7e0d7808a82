#!/usr/bin/env python3
"""One compiled training step of a small network with JAX."""

import time

import jax
import jax.numpy as jnp
import numpy as np


def init(sizes):
    keys = jax.random.split(jax.random.key(0), len(sizes) - 1)
    return [
        {"weight": jax.random.normal(key, (n, m)) / n**0.5, "bias": jnp.zeros(m)}
        for key, n, m in zip(keys, sizes[:-1], sizes[1:])
    ]


def loss(parameters, inputs, targets):
    x = inputs
    for layer in parameters[:-1]:
        x = jax.nn.gelu(x @ layer["weight"] + layer["bias"])
    x = x @ parameters[-1]["weight"] + parameters[-1]["bias"]
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(x) * targets, axis=-1))


@jax.jit
def step(parameters, inputs, targets):
    value, gradients = jax.value_and_grad(loss)(parameters, inputs, targets)
    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients), value


def main():
    devices = jax.devices()
    print(jax.__version__, devices, devices[0].device_kind)
    assert all(device.platform == "gpu" for device in devices)

    data = np.arange(1_000_003, dtype=np.int32)
    assert np.array_equal(np.asarray(jax.device_put(data)), data)

    parameters = init((64, 256, 256, 10))
    inputs = jax.device_put(np.ones((32, 64), np.float32))
    targets = jax.device_put(np.eye(10, dtype=np.float32)[np.arange(32) % 10])
    for i in range(3):
        start = time.perf_counter()
        parameters, value = step(parameters, inputs, targets)
        value.block_until_ready()
        print(f"step {i}: loss {float(value):.4f}, {time.perf_counter() - start:.3f} s", flush=True)
    print(devices[0].memory_stats())
    print("PASS jax_step")


if __name__ == "__main__":
    main()
