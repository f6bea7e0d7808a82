#!/usr/bin/env python3
"""DeepSpeed's pipeline: two stages, and two replicas of them.

    phantora-run --cluster dgx-h100:1 --ranks-per-host 4 -- python deepspeed_pipeline.py
"""

import os
import time

import deepspeed
import torch
import torch.distributed as dist
import torch.nn as nn
from deepspeed.pipe import PipelineModule

BATCH, PARTS, STEPS, WIDTH, CLASSES = 8, 4, 6, 256, 10


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    deepspeed.init_distributed()
    torch.manual_seed(0)
    layers = [nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH),
              nn.GELU(), nn.Linear(WIDTH, CLASSES)]
    model = PipelineModule(layers=layers, num_stages=2, loss_fn=nn.CrossEntropyLoss())
    settings = {
        "train_micro_batch_size_per_gpu": BATCH,
        "gradient_accumulation_steps": PARTS,
        "optimizer": {"type": "AdamW", "params": {"torch_adam": True, "lr": 1e-3}},
        "steps_per_print": 10**9,
    }
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)

    means = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(1))

    def batches():
        generator = torch.Generator().manual_seed(2 + engine.grid.get_data_parallel_rank())
        while True:
            labels = torch.randint(0, CLASSES, (BATCH,), generator=generator)
            yield means[labels] + 0.1 * torch.randn(BATCH, WIDTH, generator=generator), labels

    data, losses, start = batches(), [], 0.0
    for step in range(STEPS):
        losses.append(engine.train_batch(data_iter=data).item())
        if step == 1:
            start = time.perf_counter()
    step_ms = (time.perf_counter() - start) / (STEPS - 2) * 1e3
    if dist.get_rank() == 0:
        assert losses[-1] < losses[0], losses
        print(f"RESULT {step_ms:.2f} ms a step, loss {losses[0]:.3f} to {losses[-1]:.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
