#!/usr/bin/env python3
"""One compiled training step of a small network with TensorFlow."""

import time

import numpy as np
import tensorflow as tf


def main():
    gpus = tf.config.list_physical_devices("GPU")
    print(tf.__version__, gpus)
    assert gpus
    print(tf.config.experimental.get_device_details(gpus[0]))
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)

    with tf.device("/GPU:0"):
        data = np.arange(1_000_003, dtype=np.float32)
        assert np.array_equal(tf.identity(tf.constant(data)).numpy(), data)

        model = tf.keras.Sequential(
            [
                tf.keras.layers.Input((64,)),
                tf.keras.layers.Dense(256, activation="relu"),
                tf.keras.layers.Dense(10),
            ]
        )
        optimizer = tf.keras.optimizers.Adam(1e-3)
        cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        @tf.function
        def step(inputs, labels):
            with tf.GradientTape() as tape:
                value = cross_entropy(labels, model(inputs, training=True))
            gradients = tape.gradient(value, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            return value

        inputs = tf.constant(np.ones((32, 64), np.float32))
        labels = tf.constant(np.arange(32) % 10)
        for i in range(3):
            start = time.perf_counter()
            value = step(inputs, labels)
            print(f"step {i}: loss {float(value):.4f}, {time.perf_counter() - start:.3f} s", flush=True)
    print(tf.config.experimental.get_memory_info("GPU:0"))
    print("PASS tensorflow_step")


if __name__ == "__main__":
    main()
