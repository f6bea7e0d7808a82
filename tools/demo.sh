#!/usr/bin/env bash
# Sets everything up, then trains a small GPT on two emulated H100s.
#
#   tools/demo.sh [arguments of test/programs/train_ddp.py, for instance --steps 20]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cache=${PHANTORA_CACHE:-$HOME/.cache/phantora}

tools/setup.sh all
echo
command=(
  bazel-bin/tools/phantora-run --gpu h100-sxm5-80gb --gpus 2 --
  "$cache/venv/bin/torchrun" --standalone --nproc-per-node 2 test/programs/train_ddp.py "$@"
)
echo "\$ ${command[*]}"
exec "${command[@]}"
