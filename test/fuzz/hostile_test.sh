#!/bin/sh
# usage: hostile_test.sh PHANTORA_RUN DRIVER HOST_TIME HOSTILE_TRACEE SEED PROGRAM...
phantora_run=$1 driver=$2 host_time=$3 hostile=$4 seed=$5
shift 5
for program in "$@"; do
  beside="$beside --beside $program"
done
# In measured time a GPU's work is looked at in small steps: as many calls take several times as long.
count=100000
[ "$host_time" = measured ] && count=30000
# shellcheck disable=SC2086
exec "$phantora_run" --no-status --host-time "$host_time" --driver "$driver" -- "$hostile" --seed "$seed" \
  --count "$count" --seconds 100 $beside
