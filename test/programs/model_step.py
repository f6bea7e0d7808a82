#!/usr/bin/env python3
"""One GPU's step of a model, in plain PyTorch: prints JSON with the median milliseconds per step and
the peak memory, so that the same program can be measured on a GPU and simulated.

usage: model_step.py MODEL [--steps N] [--compile]
       model_step.py list
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional as F

from resnet50 import resnet50


class Attention(nn.Module):
    def __init__(self, width, heads, kv_heads=None, causal=True, bias=True):
        super().__init__()
        self.heads, self.kv_heads, self.causal = heads, kv_heads or heads, causal
        self.size = width // heads
        self.query = nn.Linear(width, width, bias=bias)
        self.key_value = nn.Linear(width, 2 * self.kv_heads * self.size, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)

    def forward(self, x, memory=None):
        batch, length, width = x.shape
        source = x if memory is None else memory
        query = self.query(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        key, value = self.key_value(source).view(
            batch, source.shape[1], 2, self.kv_heads, self.size).permute(2, 0, 3, 1, 4)
        if self.kv_heads != self.heads:
            key, value = (t.repeat_interleave(self.heads // self.kv_heads, dim=1)
                          for t in (key, value))
        mixed = F.scaled_dot_product_attention(query, key, value,
                                               is_causal=self.causal and memory is None)
        return self.output(mixed.transpose(1, 2).reshape(batch, length, width))


class Gelu(nn.Sequential):
    def __init__(self, width, inner):
        super().__init__(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))


class SwiGlu(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Each token goes to two of eight experts, here always the same number to each, so that what it
    takes does not depend on values that a simulation does not have."""

    def __init__(self, width, inner, experts=8, chosen=2):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList([SwiGlu(width, inner) for _ in range(experts)])
        self.chosen = chosen

    def forward(self, x):
        tokens = x.view(-1, x.shape[-1])
        weights = F.softmax(self.router(tokens), dim=-1)
        each = tokens.shape[0] * self.chosen // len(self.experts)
        result = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            rows = torch.arange(number, number + each, device=x.device)
            result = result.index_add(0, rows, expert(tokens[rows]) * weights[rows, number, None])
        return result.view_as(x)


class Block(nn.Module):
    def __init__(self, width, attention, feed, norm=nn.LayerNorm):
        super().__init__()
        self.norms = nn.ModuleList([norm(width), norm(width)])
        self.attention, self.feed = attention, feed

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.feed(self.norms[1](x))


class Language(nn.Module):
    def __init__(self, vocabulary, width, blocks, positions=0, norm=nn.LayerNorm):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width) if positions else None
        self.blocks, self.norm = nn.Sequential(*blocks), norm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(x)))


class VisionTransformer(nn.Module):
    def __init__(self, width=1024, heads=16, layers=24, patch=16, size=224):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.positions = nn.Parameter(torch.zeros(1, (size // patch) ** 2, width))
        self.blocks = nn.Sequential(*[
            Block(width, Attention(width, heads, causal=False), Gelu(width, 4 * width))
            for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.norm(self.blocks(x)).mean(1))


class Residual(nn.Module):
    def __init__(self, channels, outputs):
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(32, channels), nn.SiLU(), nn.Conv2d(channels, outputs, 3, 1, 1),
            nn.GroupNorm(32, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, 1, 1))
        self.shortcut = nn.Conv2d(channels, outputs, 1) if channels != outputs else nn.Identity()

    def forward(self, x, _):
        return self.body(x) + self.shortcut(x)


class CrossAttention(nn.Module):
    """Of pixels with each other and with a text."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(32, channels)
        self.own = Attention(channels, channels // 40, causal=False, bias=False)
        self.text = Attention(channels, channels // 40, causal=False, bias=False)
        self.feed = Gelu(channels, 4 * channels)

    def forward(self, x, text):
        batch, channels, height, width = x.shape
        y = self.norm(x).flatten(2).transpose(1, 2)
        y = y + self.own(y)
        y = y + self.text(y, text[..., :channels])
        y = y + self.feed(y)
        return x + y.transpose(1, 2).reshape(batch, channels, height, width)


class Unet(nn.Module):
    """The shape of Stable Diffusion 1's: 320 channels, doubled twice, attention at three sizes."""

    WIDTHS = (320, 640, 1280, 1280)

    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Conv2d(4, 320, 3, 1, 1), nn.Conv2d(320, 4, 3, 1, 1)
        self.down, self.up, before = nn.ModuleList(), nn.ModuleList(), 320
        for level, width in enumerate(self.WIDTHS):
            parts = []
            for _ in range(2):
                parts.append(Residual(before, width))
                before = width
                if level < 3:
                    parts.append(CrossAttention(width))
            self.down.append(nn.ModuleList(parts))
        for level in reversed(range(4)):
            width = self.WIDTHS[level]
            parts = [Residual(before + width, width)]
            if level < 3:
                parts.append(CrossAttention(width))
            self.up.append(nn.ModuleList(parts))
            before = width

    def forward(self, inputs):
        x, text = inputs
        x, kept = self.enter(x), []
        for level, parts in enumerate(self.down):
            for part in parts:
                x = part(x, text)
            kept.append(x)
            if level < 3:
                x = F.avg_pool2d(x, 2)
        for level, parts in enumerate(self.up):
            if level > 0:
                x = F.interpolate(x, scale_factor=2)
            x = torch.cat([x, kept.pop()], 1)
            for part in parts:
                x = part(x, text)
        return self.leave(x)


def gpt(layers, width, heads, positions=1024):
    return Language(50304, width, [Block(width, Attention(width, heads), Gelu(width, 4 * width))
                                   for _ in range(layers)], positions)


def llama(layers):
    return Language(128256, 4096, [Block(4096, Attention(4096, 32, 8, bias=False),
                                         SwiGlu(4096, 14336), nn.RMSNorm)
                                   for _ in range(layers)], norm=nn.RMSNorm)


def mixtral():
    return Language(32000, 4096, [Block(4096, Attention(4096, 32, 8, bias=False),
                                        Experts(4096, 14336), nn.RMSNorm)], norm=nn.RMSNorm)


def bert():
    return Language(30528, 1024, [Block(1024, Attention(1024, 16, causal=False),
                                        Gelu(1024, 4096)) for _ in range(24)], 512)


# Random ones: on real GPUs products of zeros draw less power, and all words the same contend for one row.
def words(batch, length):
    return lambda: torch.randint(30000, (batch, length))


def images(batch):
    return lambda: torch.randn(batch, 3, 224, 224)


def latents(batch):
    return lambda: (torch.randn(batch, 4, 64, 64), torch.randn(batch, 77, 1280))


# What makes it, and its input.
MODELS = {
    "gpt2-124m": (lambda: gpt(12, 768, 12), words(12, 1024)),
    "gpt-1.3b": (lambda: gpt(24, 2048, 16), words(4, 1024)),
    "llama-3-8b-4-layers": (lambda: llama(4), words(1, 8192)),
    "llama-3-8b-4-layers-2k": (lambda: llama(4), words(4, 2048)),
    "mixtral-layer": (mixtral, words(2, 4096)),
    "resnet-50": (resnet50, images(128)),
    "bert-large": (bert, words(16, 512)),
    "vit-l": (VisionTransformer, images(32)),
    "sd-unet": (Unet, latents(4)),
}


def loss_of(output):
    if output.dim() == 3:  # of words
        return F.cross_entropy(output.flatten(0, 1).float(),
                               torch.zeros(output.shape[0] * output.shape[1], dtype=torch.long,
                                           device=output.device))
    if output.dim() == 2:
        return F.cross_entropy(output.float(), torch.zeros(output.shape[0], dtype=torch.long,
                                                           device=output.device))
    return F.mse_loss(output.float(), torch.zeros_like(output, dtype=torch.float))


class Training:
    """A model of the list, its input and its optimizer; step() submits a step."""

    def __init__(self, name, compiled=False):
        make, inputs = MODELS[name]
        with torch.device("cuda"):
            self.model, self.batch = make(), inputs()
        self.forward = torch.compile(self.model) if compiled else self.model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), fused=True)

    def step(self):
        with torch.autocast("cuda", torch.bfloat16):
            output = self.forward(self.batch)
        loss_of(output).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=[*MODELS, "list"])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    if options.model == "list":
        print("\n".join(MODELS))
        return
    training = Training(options.model, options.compile)
    times = []
    for _ in range(options.steps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        training.step()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    warm = times[min(3, len(times) - 1):]
    print(json.dumps({
        "model": options.model, "compiled": options.compile,
        "gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
        "ms": statistics.median(warm), "spread": max(warm) / min(warm) - 1,
        "peak_gib": torch.cuda.max_memory_reserved() / 2**30,
        "parameters": sum(p.numel() for p in training.model.parameters())}))


if __name__ == "__main__":
    main()
