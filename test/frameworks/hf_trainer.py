#!/usr/bin/env python3
"""Hugging Face's Trainer on a small Qwen3, data parallel or fully sharded.

    phantora-run --cluster dgx-h100:1 --ranks-per-host 4 -- python hf_trainer.py [--fsdp]
"""

import argparse

import torch
from torch.utils.data import TensorDataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

from tiny_models import small_qwen3, tokens


def collate(rows):
    ids = torch.stack([row[0] for row in rows])
    return {"input_ids": ids, "labels": ids}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fsdp", action="store_true", help="shard parameters, gradients and optimizer")
    parser.add_argument("--steps", type=int, default=6)
    args = parser.parse_args()

    torch.manual_seed(0)
    config = small_qwen3()
    model = AutoModelForCausalLM.from_config(config)
    sharding = {}
    if args.fsdp:
        sharding = {"fsdp": "full_shard auto_wrap",
                    "fsdp_config": {"transformer_layer_cls_to_wrap": ["Qwen3DecoderLayer"]}}
    training = TrainingArguments(
        output_dir="unused", save_strategy="no", report_to=[], disable_tqdm=True, logging_steps=args.steps // 2,
        max_steps=args.steps, per_device_train_batch_size=4, learning_rate=3e-3, lr_scheduler_type="constant",
        bf16=True, dataloader_num_workers=0, **sharding)
    trainer = Trainer(model=model, args=training, data_collator=collate,
                      train_dataset=TensorDataset(tokens(1024, 128, 512)))
    trainer.train()
    if trainer.is_world_process_zero():
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        run = trainer.state.log_history[-1]
        assert losses[-1] < losses[0], losses
        print(f"RESULT {run['train_steps_per_second']} steps/s, loss {losses[0]:.3f} to {losses[-1]:.3f}", flush=True)


if __name__ == "__main__":
    main()
