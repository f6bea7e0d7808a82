#!/usr/bin/env python3
"""torchtitan's own training loop and Llama 3, with text that is made here. Options are torchtitan's.

    phantora-run --cluster dgx-h100:1 --ranks-per-host 4 -- python torchtitan_llama.py \\
        --parallelism.tensor_parallel_degree 2
"""

import json
import pathlib
import runpy
import sys
import tempfile

from tiny_models import MODELS


def main():
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder, "text.json")
        text.write_text("\n".join(json.dumps({"text": f"{n} and {n + 1} make {2 * n + 1}. " * 40})
                                  for n in range(2000)))
        sys.argv[1:] = [
            "--model.name=llama3", "--model.flavor=debugmodel", f"--model.hf_assets_path={MODELS / 'llama-3.1-8b'}",
            "--training.dataset=c4_test", f"--training.dataset_path={folder}", "--training.steps=6",
            "--training.seq_len=64", "--training.local_batch_size=4", "--lr_scheduler.warmup_steps=1",
            "--optimizer.lr=3e-3", "--metrics.log_freq=1", "--metrics.disable_color_printing",
            f"--job.dump_folder={folder}/out", *sys.argv[1:]]
        runpy.run_module("torchtitan.train", run_name="__main__")


if __name__ == "__main__":
    main()
