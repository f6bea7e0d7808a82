#!/usr/bin/env python3
"""TRL's supervised fine-tuning of a small Qwen3, on text.

    phantora-run --gpus 2 -- torchrun --nproc-per-node 2 trl_sft.py
"""

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

from tiny_models import MODELS, small_qwen3

TEXTS = [f"{n} and {n + 1} make {2 * n + 1}. " * 4 for n in range(256)]


def main():
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "qwen3-0.6b")
    model = AutoModelForCausalLM.from_config(small_qwen3())
    training = SFTConfig(
        output_dir="unused", save_strategy="no", report_to=[], disable_tqdm=True, logging_steps=3, max_steps=6,
        per_device_train_batch_size=4, learning_rate=3e-3, lr_scheduler_type="constant", bf16=True, max_length=128,
        packing=False)
    trainer = SFTTrainer(model=model, args=training, processing_class=tokenizer,
                         train_dataset=Dataset.from_dict({"text": TEXTS}))
    trainer.train()
    if trainer.is_world_process_zero():
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        run = trainer.state.log_history[-1]
        assert losses[-1] < losses[0], losses
        print(f"RESULT {run['train_steps_per_second']} steps/s, loss {losses[0]:.3f} to {losses[-1]:.3f}", flush=True)


if __name__ == "__main__":
    main()
