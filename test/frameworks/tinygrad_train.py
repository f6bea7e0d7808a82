#!/usr/bin/env python3
"""A small convolutional network trained by tinygrad's own driver of NVIDIA GPUs, which speaks to the kernel's driver without any of
NVIDIA's libraries.

usage: tinygrad_train.py [--steps N] [--device NV|CPU]

tinygrad 0.14 looks for the classes of consumer GPUs alone; here an A100's stand in their place, which are used alike.
"""

import argparse

import numpy
import tinygrad.runtime.ops_nv as nv
from tinygrad import Tensor, nn
from tinygrad.helpers import DEV, TRAINING

AMPERE_COMPUTE_A, AMPERE_DMA_COPY_A = 0xC6C0, 0xC6B5


class Net:
    def __init__(self):
        self.convolution = nn.Conv2d(1, 8, 5)
        self.head = nn.Linear(8 * 4 * 4, 10)

    def __call__(self, images):
        return self.head(self.convolution(images).relu().max_pool2d(3, stride=3).flatten(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--device", default="NV")
    arguments = parser.parse_args()
    for names in (nv.nv_gpu, nv.nv_580):
        names.AMPERE_COMPUTE_B, names.AMPERE_DMA_COPY_B = AMPERE_COMPUTE_A, AMPERE_DMA_COPY_A
    DEV.value, TRAINING.value = arguments.device, 1
    random = numpy.random.default_rng(0)
    net = Net()
    for parameter in nn.state.get_parameters(net):
        parameter.assign(Tensor(random.normal(0, 0.1, parameter.shape).astype(numpy.float32))).realize()
    optimizer = nn.optim.SGD(nn.state.get_parameters(net), lr=0.1)
    images = Tensor(random.normal(size=(32, 1, 16, 16)).astype(numpy.float32))
    labels = Tensor(random.integers(0, 10, 32).astype(numpy.int32))
    for step in range(arguments.steps):
        optimizer.zero_grad()
        loss = net(images).sparse_categorical_crossentropy(labels).backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
