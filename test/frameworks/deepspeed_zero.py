#!/usr/bin/env python3
"""DeepSpeed's ZeRO on a small Qwen3.

    phantora-run --cluster dgx-h100:1 --ranks-per-host 4 -- python deepspeed_zero.py --stage 3 [--offload]
"""

import argparse
import os
import time

import deepspeed
import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM

from tiny_models import small_qwen3, tokens

BATCH, STEPS = 4, 6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stage", type=int, choices=(1, 2, 3), required=True)
    parser.add_argument("--offload", action="store_true", help="parameters and optimizer in the host's memory")
    args = parser.parse_args()

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    deepspeed.init_distributed()
    rank, world = dist.get_rank(), dist.get_world_size()
    zero = {"stage": args.stage}
    if args.offload:
        zero |= {"offload_optimizer": {"device": "cpu", "pin_memory": True}}
        if args.stage == 3:
            zero |= {"offload_param": {"device": "cpu", "pin_memory": True}}
    # PyTorch's own Adam: DeepSpeed's are compiled on the spot, for which CUDA's compiler would be needed.
    settings = {
        "train_micro_batch_size_per_gpu": BATCH,
        "optimizer": {"type": "AdamW", "params": {"torch_adam": True, "lr": 3e-3}},
        "bf16": {"enabled": True},
        "zero_optimization": zero,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,
    }
    torch.manual_seed(0)
    # Whole at first, so that all stages begin with the same weights.
    model = AutoModelForCausalLM.from_config(small_qwen3(), dtype=torch.bfloat16)
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)

    data = tokens(STEPS * world * BATCH, 128, 512)
    losses, start = [], 0.0
    for step in range(STEPS):
        first = (step * world + rank) * BATCH
        ids = data[first:first + BATCH].to(engine.device)
        loss = engine(input_ids=ids, labels=ids).loss
        engine.backward(loss)
        engine.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / world)
        if step == 1:
            start = time.perf_counter()
    step_ms = (time.perf_counter() - start) / (STEPS - 2) * 1e3
    if rank == 0:
        assert losses[-1] < losses[0], losses
        print(f"RESULT {step_ms:.2f} ms a step, loss {losses[0]:.3f} to {losses[-1]:.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
