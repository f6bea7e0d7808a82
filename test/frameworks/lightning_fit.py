#!/usr/bin/env python3
"""Lightning's Trainer, which starts the other ranks of its host itself.

    phantora-run --gpus 4 -- python lightning_fit.py [ddp|fsdp]
"""

import sys
import time

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import AutoModelForCausalLM

from tiny_models import small_qwen3, tokens

STEPS = 6


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = AutoModelForCausalLM.from_config(small_qwen3())
        self.losses, self.times = [], []

    def training_step(self, batch, _):
        loss = self.model(input_ids=batch[0], labels=batch[0]).loss
        self.losses.append(loss.detach())
        return loss

    def on_train_batch_end(self, *_):
        torch.cuda.synchronize()
        self.times.append(time.perf_counter())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def main():
    torch.manual_seed(0)
    trainer = lightning.Trainer(
        accelerator="gpu", devices=4, strategy=sys.argv[1] if len(sys.argv) > 1 else "ddp", precision="bf16-mixed",
        max_steps=STEPS, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False)
    model = Model()
    trainer.fit(model, DataLoader(TensorDataset(tokens(128, 128, 512)), batch_size=4))
    if trainer.is_global_zero:
        losses = [loss.item() for loss in model.losses]
        step_ms = (model.times[-1] - model.times[1]) / (STEPS - 2) * 1e3
        assert losses[-1] < losses[0], losses
        print(f"RESULT {step_ms:.2f} ms a step, loss {losses[0]:.3f} to {losses[-1]:.3f}", flush=True)


if __name__ == "__main__":
    main()
