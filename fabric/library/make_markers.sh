#!/bin/sh
# Compiles marker.ptx into marker_sm80.cubin and marker_sm90.cubin, beside it. CUDA 12.0's ptxas,
# because the drivers that are to load them are of CUDA 12.2 and later.
#
# usage: make_markers.sh [PTXAS]   without one, it is fetched from PyPI
set -eu
here=$(cd "$(dirname "$0")" && pwd)
ptxas=${1:-}
if [ -z "$ptxas" ]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  pip download --quiet --no-deps --dest "$folder" nvidia-cuda-nvcc-cu12==12.0.140
  python3 -m zipfile -e "$folder"/nvidia_cuda_nvcc_cu12-*.whl "$folder"
  ptxas=$folder/nvidia/cuda_nvcc/bin/ptxas
  chmod +x "$ptxas"
fi
for sm in 80 90; do
  "$ptxas" -O3 -arch=sm_$sm -o "$here/marker_sm$sm.cubin" "$here/marker.ptx"
done
