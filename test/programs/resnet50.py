#!/usr/bin/env python3
"""Trains ResNet-50 and prints JSON: the FLOPs of a step as PyTorch counts them, and those of its
first convolution; milliseconds per step.

usage: resnet50.py [--mode fp32|tf32|bf16|half] [--batch N] [--channels-last] [--steps N]
"""

import argparse
import json
import time

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


class Bottleneck(nn.Module):
    def __init__(self, channels, width, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width),
            nn.ReLU(True), nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Identity()
        if channels != outputs or stride != 1:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, outputs, 1, stride, bias=False),
                                          nn.BatchNorm2d(outputs))

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True),
              nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for blocks, width, stride in ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(channels, width, 4 * width, stride if block == 0 else 1))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="tf32")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--steps", type=int, default=1)
    options = parser.parse_args()
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = options.mode == "tf32"
    dtype = torch.float16 if options.mode == "half" else torch.float32  # of the whole model
    layout = torch.channels_last if options.channels_last else torch.contiguous_format
    model = resnet50().to("cuda", dtype, memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=True)
    images = torch.zeros(options.batch, 3, 224, 224, device="cuda").to(dtype, memory_format=layout)
    labels = torch.zeros(options.batch, device="cuda", dtype=torch.long)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=options.mode == "bf16"):
            outputs = model(images)
        nn.functional.cross_entropy(outputs.float(), labels).backward()
        optimizer.step()

    with FlopCounterMode(display=False) as counter:
        step()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(options.steps - 1):
        step()
    torch.cuda.synchronize()
    print(json.dumps({"flops": counter.get_total_flops(),
                      "first_convolution": 2 * options.batch * 64 * 112 * 112 * 3 * 7 * 7,
                      "ms": 1e3 * (time.perf_counter() - begin) / max(1, options.steps - 1)}))


if __name__ == "__main__":
    main()
