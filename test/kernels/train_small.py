#!/usr/bin/env python3
"""Small models train on an emulated GPU with the losses that they have on the processor.

usage: train_small.py [--phantora PHANTORA_RUN] [--gpu NAME] [--steps N]

An MLP, a convolutional network and a GPT, in float32 and with bfloat16 autocast. In float32 losses agree
to rounding errors of sums in another order; in bfloat16 cuda and cpu also round at other places.
"""

import argparse
import os
import subprocess
import sys

# Relative: what the order of sums makes of losses over tens of steps of these models.
TOLERANCES = {"float32": 1e-4, "bfloat16": 5e-3}


def mlp(torch):
    nn = torch.nn
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    return model, torch.randn(32, 64), torch.randint(0, 10, (32,))


def convnet(torch):
    nn = torch.nn
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(8, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                          nn.Linear(16, 10))
    return model, torch.randn(8, 1, 16, 16), torch.randint(0, 10, (8,))


def gpt(torch):
    nn = torch.nn
    width, heads, length, words = 64, 4, 32, 65

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            batch = x.shape[0]
            qkv = self.qkv(self.before_attention(x)).view(batch, length, 3, heads, width // heads)
            attended = nn.functional.scaled_dot_product_attention(*qkv.permute(2, 0, 3, 1, 4),
                                                                  is_causal=True)
            x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
            return x + self.mlp(self.before_mlp(x))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(Block(), Block())
            self.head = nn.Linear(width, words)

        def forward(self, tokens):
            places = self.places(torch.arange(length, device=tokens.device))
            return self.head(self.blocks(self.tokens(tokens) + places)).flatten(0, 1)

    return Gpt(), torch.randint(0, words, (4, length)), torch.randint(0, words, (4 * length,))


def losses(torch, make, device, dtype, steps):
    torch.manual_seed(1)
    model, inputs, targets = (part.to(device) for part in make(torch))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    found = []
    for _ in range(steps):
        with torch.autocast(device, torch.bfloat16, enabled=dtype == "bfloat16"):
            outputs = model(inputs)
            loss = torch.nn.functional.cross_entropy(outputs.float(), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def inside(steps):
    import torch  # pylint: disable=import-outside-toplevel
    torch.backends.cudnn.allow_tf32 = False
    wrong = False
    for make in (mlp, convnet, gpt):
        for dtype, tolerance in TOLERANCES.items():
            cpu = losses(torch, make, "cpu", dtype, steps)
            cuda = losses(torch, make, "cuda", dtype, steps)
            worst = max(abs(a - b) / abs(a) for a, b in zip(cpu, cuda))
            good = worst <= tolerance and cuda[-1] < cuda[0]
            wrong |= not good
            print(f"{make.__name__:8} {dtype:9} {'ok' if good else 'WRONG':6} losses {cuda[0]:.4f} to "
                  f"{cuda[-1]:.4f}, within {worst:.1e} of cpu's", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--phantora", default="bazel-bin/tools/phantora-run")
    parser.add_argument("--gpu", default="a100-sxm4-80gb")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--inside", action="store_true")
    options = parser.parse_args()
    if options.inside:
        return inside(options.steps)
    run = subprocess.run(
        [options.phantora, "--gpu", options.gpu, "--host-time", "fixed", "--no-status", "--",
         sys.executable, os.path.abspath(__file__), "--inside", "--steps", str(options.steps)],
        check=False, stderr=subprocess.PIPE, text=True)
    print(run.stderr, end="", file=sys.stderr)
    # Results that are right by chance are not what is asked for.
    return run.returncode or "kernels were executed" not in run.stderr or "were not" in run.stderr


if __name__ == "__main__":
    sys.exit(main())
