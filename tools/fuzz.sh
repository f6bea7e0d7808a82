#!/usr/bin/env bash
# Fuzzes with libFuzzer, under the sanitizers of addresses and of undefined behaviour.
#
#   tools/fuzz.sh [--runs N | --seconds N] [--jobs N] [TARGET]...
#
# Without targets all of test/fuzz/targets; 60 seconds each, one after another, unless told otherwise. Inputs that
# reach something new stay in the user's cache (phantora/fuzz) and are where the next call begins. What crashes, hangs
# or takes more than 2 GiB is a finding: its input is named, and belongs into test/fuzz/inputs/TARGET once it is mended.
# Takes clang 14 (Debian's package clang-14) and the first time some 15 minutes on two cores to build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

limit=-max_total_time=60
jobs=1
targets=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --runs) limit=-runs=$2 && shift 2 ;;
    --seconds) limit=-max_total_time=$2 && shift 2 ;;
    --jobs) jobs=$2 && shift 2 ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" && exit 0 ;;
    -*) echo "fuzz.sh: no such option: $1 (see --help)" >&2 && exit 2 ;;
    *) targets+=("$1") && shift ;;
  esac
done
if [[ ${#targets[@]} -eq 0 ]]; then
  for file in test/fuzz/targets/*.cc; do targets+=("$(basename "$file" .cc)"); done
fi
for target in "${targets[@]}"; do
  [[ -f test/fuzz/targets/$target.cc ]] || { echo "fuzz.sh: no target is called $target" >&2 && exit 2; }
done
command -v clang-14 >/dev/null || { echo "fuzz.sh: clang-14 is not installed (apt install clang-14)" >&2 && exit 1; }

cache=${PHANTORA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/phantora}/fuzz
mkdir -p "$cache"
# An output folder of its own: with another compiler the usual one would be made anew each time.
labels=()
for target in "${targets[@]}"; do labels+=("//test/fuzz:${target}_fuzzer"); done
bazel --output_base="$cache/bazel" build --config=fuzz --ui_event_filters=-info "${labels[@]}"
built=$(bazel --output_base="$cache/bazel" info --config=fuzz --ui_event_filters=-info bazel-bin)/test/fuzz

fuzz() {
  local target=$1 log=$cache/$1.log begin=$SECONDS
  mkdir -p "$cache/inputs/$target" "$cache/findings"
  if ! UBSAN_OPTIONS=print_stacktrace=1 "$built/${target}_fuzzer" "$limit" -timeout=20 -rss_limit_mb=2048 \
    -max_len=8192 -print_final_stats=1 -artifact_prefix="$cache/findings/$target-" "$cache/inputs/$target" \
    "test/fuzz/inputs/$target" >"$log" 2>&1; then
    echo "$target: FINDING, see $log"
    grep -E "^SUMMARY|runtime error|Test unit written" "$log" | head -3
    return 1
  fi
  printf '%-14s %12s runs in %4d s, %s edges, %s inputs\n' "$target:" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" $((SECONDS - begin)) \
    "$(grep -oE 'cov: [0-9]+' "$log" | tail -1 | cut -d' ' -f2)" "$(find "$cache/inputs/$target" -type f | wc -l)"
}
export -f fuzz
export built cache limit
printf '%s\n' "${targets[@]}" | xargs -P "$jobs" -I '{}' bash -c 'fuzz {}'
