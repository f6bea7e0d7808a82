#!/usr/bin/env python3
"""A training loop of one's own with Accelerate, started by its launcher.

    phantora-run --cluster dgx-h100:1 --per-host -- accelerate launch --multi_gpu --num_processes 4 accelerate_step.py
"""

import time

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import AutoModelForCausalLM

from tiny_models import small_qwen3, tokens


def main():
    accelerator = Accelerator(mixed_precision="bf16")
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(small_qwen3())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = DataLoader(TensorDataset(tokens(256, 128, 512)), batch_size=4, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses, start = [], 0.0
    for step, (ids,) in enumerate(loader):
        if step == 6:
            break
        loss = model(input_ids=ids, labels=ids).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()).mean().item())
        if step == 1:
            start = time.perf_counter()
    step_ms = (time.perf_counter() - start) / 4 * 1e3
    assert losses[-1] < losses[0], losses
    accelerator.print(f"RESULT {step_ms:.2f} ms a step, loss {losses[0]:.3f} to {losses[-1]:.3f}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
