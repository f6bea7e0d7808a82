#!/usr/bin/env bash
# Sets everything up, then trains a small GPT on four GPUs of two emulated DGX H100.
#
#   tools/demo.sh [arguments of test/programs/train_ddp.py, for instance --steps 20]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cache=${PHANTORA_CACHE:-$HOME/.cache/phantora}

tools/setup.sh all
echo
command=(
  bazel-bin/tools/phantora-run --cluster dgx-h100:2 --ranks-per-host 2 --
  "$cache/venv/bin/python" test/programs/train_ddp.py --backend nccl "$@"
)
echo "\$ ${command[*]}"
exec "${command[@]}"
