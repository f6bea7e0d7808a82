#!/usr/bin/env python3
"""Trains a small residual network with cuDNN: both ways to choose algorithms, both memory formats, with and without AMP."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Residual(nn.Module):
    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.shortcut = nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def make_model():
    return nn.Sequential(
        nn.Conv2d(3, 32, 7, 2, 3, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        Residual(32, 32, 1),
        Residual(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def train(memory_format, amp, steps=3, batch=8, size=64):
    model = make_model().cuda().to(memory_format=memory_format)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=amp)
    start = time.perf_counter()
    for _ in range(steps):
        images = torch.randn(batch, 3, size, size).to("cuda", memory_format=memory_format)
        labels = torch.randint(10, (batch,)).cuda()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16, enabled=amp):
            outputs = model(images)
            loss = F.cross_entropy(outputs, labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert outputs.shape == (batch, 10) and outputs.dtype == (torch.float16 if amp else torch.float32)
    assert all(p.grad is not None and p.grad.shape == p.shape for p in model.parameters())
    print(
        f"benchmark={torch.backends.cudnn.benchmark!s:5} {memory_format} amp={amp!s:5}"
        f"  loss {loss.item():.4f}  {steps / (time.perf_counter() - start):.2f} steps/s",
        flush=True,
    )


def main():
    assert torch.backends.cudnn.is_available()
    print("cuDNN", torch.backends.cudnn.version())
    for benchmark in (False, True):
        torch.backends.cudnn.benchmark = benchmark
        train(torch.contiguous_format, amp=False)
        train(torch.channels_last, amp=False)
        train(torch.channels_last, amp=True)
    torch.cuda.synchronize()
    print("PASS convnet")


if __name__ == "__main__":
    main()
