#!/bin/sh
# usage: hostile_test.sh PHANTORA_RUN DRIVER HOSTILE_TRACEE SEED PROGRAM...
phantora_run=$1 driver=$2 hostile=$3 seed=$4
shift 4
for program in "$@"; do
  beside="$beside --beside $program"
done
# shellcheck disable=SC2086
exec "$phantora_run" --host-time real --driver "$driver" -- "$hostile" --seed "$seed" --count 100000 \
  --seconds 100 $beside
