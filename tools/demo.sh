#!/usr/bin/env bash
# Sets everything up, then trains a very small GPT on four GPUs of two emulated DGX H100: so small
# that every kernel is executed, and its losses are real (near ln(512), as its tokens are random).
#
#   tools/demo.sh [arguments of test/programs/train_ddp.py, for instance --steps 20]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cache=${PHANTORA_CACHE:-$HOME/.cache/phantora}

tools/setup.sh all
echo
command=(
  bazel-bin/tools/phantora-run --cluster dgx-h100:2 --ranks-per-host 2 --
  "$cache/venv/bin/python" test/programs/train_ddp.py --backend nccl
  --layers 2 --hidden 128 --vocab 512 --batch 4 --seq 64 "$@"
)
echo "\$ ${command[*]}"
exec "${command[@]}"
