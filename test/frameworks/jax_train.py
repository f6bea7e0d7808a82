#!/usr/bin/env python3
"""A network trained by JAX on several GPUs, of one process or of a process for each.

    phantora-run --gpus 4 -- python jax_train.py
    phantora-run --cluster dgx-h100:2 --ranks-per-host 2 -- python jax_train.py --processes
"""

import os
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

WIDTH, HIDDEN, CLASSES, BATCH, STEPS, RATE = 64, 256, 10, 32, 6, 0.2


def loss_of(weights, rows, labels):
    first, second = weights
    scores = jax.nn.log_softmax(jax.nn.relu(rows @ first) @ second)
    return -jnp.take_along_axis(scores, labels[:, None], 1).mean()


@jax.jit
def step(weights, rows, labels):
    loss, gradients = jax.value_and_grad(loss_of)(weights, rows, labels)
    return loss, jax.tree.map(lambda weight, gradient: weight - RATE * gradient, weights, gradients)


def main():
    if "--processes" in sys.argv:
        jax.distributed.initialize(f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
                                   int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]),
                                   int(os.environ["LOCAL_RANK"]))
    mesh = Mesh(np.array(jax.devices()), ("replica",))

    def over(array, *names):
        sharding = NamedSharding(mesh, P(*names))
        return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])

    random = np.random.default_rng(0)
    means = random.standard_normal((CLASSES, WIDTH), np.float32)
    weights = [over(random.standard_normal(shape, np.float32) * shape[0]**-0.5)
               for shape in ((WIDTH, HIDDEN), (HIDDEN, CLASSES))]
    losses, start = [], 0.0
    for number in range(STEPS):
        labels = random.integers(0, CLASSES, BATCH * len(jax.devices()))
        rows = means[labels] + 0.1 * random.standard_normal((len(labels), WIDTH), np.float32)
        loss, weights = step(weights, over(rows, "replica"), over(labels.astype(np.int32), "replica"))
        losses.append(float(loss))
        if number == 1:
            start = time.perf_counter()
    step_ms = (time.perf_counter() - start) / (STEPS - 2) * 1e3
    if jax.process_index() == 0:
        assert losses[-1] < losses[0], losses
        print(f"RESULT {step_ms:.2f} ms a step on {len(jax.devices())} GPUs, "
              f"loss {losses[0]:.4f} to {losses[-1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
