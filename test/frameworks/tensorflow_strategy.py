#!/usr/bin/env python3
"""TensorFlow and Keras on several GPUs: of one process, or of a process for each.

    phantora-run --gpus 4 -- python tensorflow_strategy.py
    phantora-run --cluster dgx-h100:1 --ranks-per-host 2 -- python tensorflow_strategy.py --workers nccl
    phantora-run --cluster dgx-h100:2 --ranks-per-host 1 -- python tensorflow_strategy.py --workers ring

`ring` is TensorFlow's own among hosts.
"""

import json
import os
import sys
import time

WIDTH, CLASSES, BATCH, STEPS = 64, 10, 32, 6


def worker_addresses():
    """TF_CONFIG of a rank. Hosts are numbered, from the one that MASTER_ADDR names."""
    rank, here = int(os.environ["RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    name = os.environ["MASTER_ADDR"]
    stem = name.rstrip("0123456789")
    workers = [f"{stem}{int(name[len(stem):]) + n // here}:{12000 + n % here}"
               for n in range(int(os.environ["WORLD_SIZE"]))]
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}})


def main():
    several = "--workers" in sys.argv
    by_ring = "ring" in sys.argv
    if several:
        worker_addresses()
    import numpy as np
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if several:
        gpus = [gpus[int(os.environ["LOCAL_RANK"])]]
        tf.config.set_visible_devices(gpus, "GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if several:
        ways = tf.distribute.experimental.CommunicationImplementation
        strategy = tf.distribute.MultiWorkerMirroredStrategy(
            communication_options=tf.distribute.experimental.CommunicationOptions(
                implementation=ways.RING if by_ring else ways.NCCL))
    else:
        strategy = tf.distribute.MirroredStrategy()
    tf.random.set_seed(0)
    generator = np.random.default_rng(0)
    means = generator.standard_normal((CLASSES, WIDTH), np.float32)
    batch = BATCH * strategy.num_replicas_in_sync
    labels = generator.integers(0, CLASSES, batch * STEPS)
    inputs = means[labels] + 0.1 * generator.standard_normal((len(labels), WIDTH), np.float32)
    data = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(batch, drop_remainder=True)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    with strategy.scope():
        model = tf.keras.Sequential([
            tf.keras.layers.Input((WIDTH,)), tf.keras.layers.Dense(256, activation="relu"),
            tf.keras.layers.Dense(CLASSES)])
        optimizer = tf.keras.optimizers.Adam(3e-3)
        optimizer.build(model.trainable_variables)
        cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def step_of_replica(rows):
        x, y = rows
        with tf.GradientTape() as tape:
            loss = tf.nn.compute_average_loss(cross_entropy(y, model(x, training=True)), global_batch_size=batch)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    @tf.function
    def step(rows):
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step_of_replica, args=(rows,)), axis=None)

    losses, start = [], 0.0
    for number, rows in enumerate(strategy.experimental_distribute_dataset(data.with_options(options))):
        losses.append(float(step(rows)))
        if number == 1:
            start = time.perf_counter()
    step_ms = (time.perf_counter() - start) / (STEPS - 2) * 1e3
    if os.environ.get("RANK", "0") == "0":
        assert losses[-1] < losses[0], losses
        print(f"RESULT {step_ms:.2f} ms a step on {strategy.num_replicas_in_sync} GPUs, "
              f"loss {losses[0]:.3f} to {losses[-1]:.3f}", flush=True)


if __name__ == "__main__":
    main()
