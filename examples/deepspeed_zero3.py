#!/usr/bin/env python3
"""Trains a model of Qwen3 8B's shape with DeepSpeed's ZeRO-3: bfloat16, all activations recomputed, PyTorch's scaled
dot product attention and AdamW, random tokens.

    phantora-run --cluster dgx-h100:1 --ranks-per-host 4 --execute off -- python deepspeed_zero3.py --length 2048

prints seconds a step, tokens per second of all GPUs together, and the memory that PyTorch has reserved. It takes an
environment with DeepSpeed and Transformers (tools/setup.sh framework training).
"""

import argparse
import json
import os
import time

import deepspeed
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY = 151936


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=2048, help="tokens of a sequence (2048)")
    parser.add_argument("--layers", type=int, default=36)
    parser.add_argument("--batch", type=int, default=4, help="sequences of a micro-batch (4)")
    parser.add_argument("--accumulate", type=int, default=16, help="micro-batches of a step (16)")
    parser.add_argument("--warm-up", type=int, default=1, help="steps before those that count (1)")
    parser.add_argument("--steps", type=int, default=1, help="that count (1)")
    return parser.parse_args()


def main():
    args = parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    deepspeed.init_distributed()
    world = dist.get_world_size()
    settings = {
        "train_micro_batch_size_per_gpu": args.batch,
        "gradient_accumulation_steps": args.accumulate,
        "optimizer": {"type": "AdamW", "params": {"torch_adam": True, "lr": 5e-5}},
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 3, "overlap_comm": False, "contiguous_gradients": False},
        "steps_per_print": 10**9,
    }
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=4096, intermediate_size=12288, num_hidden_layers=args.layers,
        num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=args.length, use_cache=False,
        attn_implementation="sdpa", dtype=torch.bfloat16)
    torch.set_default_dtype(torch.bfloat16)
    with deepspeed.zero.Init(config_dict_or_path=settings, dtype=torch.bfloat16):
        model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)

    rows = (args.warm_up + args.steps) * args.accumulate * args.batch
    data = iter(DataLoader(TensorDataset(torch.randint(VOCABULARY, (rows, args.length))), batch_size=args.batch))

    def step():
        for _ in range(args.accumulate):
            ids = next(data)[0].to(engine.device)
            engine.backward(engine(input_ids=ids, labels=ids).loss)
            engine.step()
        torch.cuda.synchronize()

    for _ in range(args.warm_up):
        step()
    dist.barrier()
    torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    for _ in range(args.steps):
        step()
    seconds = (time.perf_counter() - start) / args.steps
    tokens = args.batch * args.accumulate * world * args.length
    if dist.get_rank() == 0:
        print(json.dumps({"tokens per step": tokens, "step": round(seconds, 3), "speed": round(tokens / seconds),
                          "memory reserved": round(torch.cuda.max_memory_reserved() / 2**30, 2)}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
