#!/bin/sh
# Measures a real GPU for Phantora, in three calls of ten minutes at most on the machine that has it, which needs
# the driver and Python with PyTorch, and nothing of Phantora but a bundle.
#
#   tools/setup/real_gpu.sh bundle DIR        here, after a build: what that machine needs, 40 MB
#   DIR/real_gpu.sh record OUT          there: what programs and the driver say to each other, and what the
#                                       emulated driver does with that machine's libraries
#   DIR/real_gpu.sh curves OUT          there: how long operations take (phantora_bench.pyz)
#   DIR/real_gpu.sh steps OUT           there: training steps, measured and simulated, and their kernels
#   tools/setup/real_gpu.sh table OUT         here or there: simulated beside measured steps, from `steps`
#
# OUT is a folder, the same each time, of at most eight files. --gpu NAME says which GPU it is
# (h200-sxm5-141gb), --seconds N how long each may take (570), --python FILE which Python. --emulated tries it all
# on the emulated GPU, where no time means anything. Every part does what matters most first and ends in time;
# OUT/log.txt says what was done and what failed.
set -u

GPU=h200-sxm5-141gb SECONDS_LEFT=570 PYTHON=python3 EMULATED=
usage() { sed -n '2,17s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
PART=$1 OUT=$2
shift 2
while [ $# -gt 0 ]; do
  case $1 in
    --gpu) GPU=$2; shift 2 ;;
    --seconds) SECONDS_LEFT=$2; shift 2 ;;
    --python) PYTHON=$2; shift 2 ;;
    --emulated) EMULATED=1; shift ;;
    *) usage ;;
  esac
done
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)  # of the repository; a bundle is flat
END=$(($(date +%s) + SECONDS_LEFT))

PROGRAMS="phantora-run phantora-profile phantora-record"
TRACEES="init_attributes context memcpy memset module_launch streams_events graphs_capture graphs_explicit vmm ipc mempool managed"

bundle() {
  bin=$ROOT/bazel-bin
  mkdir -p "$OUT/bin" "$OUT/lib" "$OUT/real" || exit 1
  for program in $TRACEES; do install -m 755 "$bin/test/tracees/$program" "$OUT/bin/" || exit 1; done
  # With the C library: the other machine's may be older. What libcuda needs of it is there, too.
  loader=ld-linux-x86-64.so.2
  for program in $PROGRAMS; do
    install -m 755 "$bin/tools/$program" "$OUT/real/" || exit 1
    ldd "$OUT/real/$program" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^[[:space:]]*\(\/[^ ]*ld-linux[^ ]*\).*/\1/p'
    cat >"$OUT/bin/$program" <<END
#!/bin/sh
here=\$(cd "\$(dirname "\$0")/.." && pwd)
exec "\$here/lib/$loader" --library-path "\$here/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}" "\$here/real/$program" "\$@"
END
    chmod 755 "$OUT/bin/$program"
  done | sort -u | while read -r library; do install -m 755 "$library" "$OUT/lib/"; done
  for library in libdl.so.2 libpthread.so.0 librt.so.1 libm.so.6; do
    install -m 755 "/lib/x86_64-linux-gnu/$library" "$OUT/lib/" || exit 1
  done
  chmod u+w "$OUT"/bin/* "$OUT"/real/*
  for program in $TRACEES; do strip "$OUT/bin/$program"; done
  strip "$OUT"/real/*
  install -m 755 "$HERE/real_gpu.sh" "$OUT/"
  python3 "$ROOT/tools/prices/bundle_bench.py" "$OUT/phantora_bench.pyz" || exit 1
  install -m 644 "$ROOT/test/programs/model_step.py" "$ROOT/test/programs/resnet50.py" "$OUT/"
  du -sh "$OUT"
}

path_of() {  # a program of the bundle, or of the build tree
  if [ -d "$HERE/real" ]; then
    echo "$HERE/bin/$1"
  else
    case $1 in phantora-*) echo "$ROOT/bazel-bin/tools/$1" ;; *) echo "$ROOT/bazel-bin/test/tracees/$1" ;; esac
  fi
}
bench_file() {
  if [ -d "$HERE/real" ]; then echo "$HERE/phantora_bench.pyz"; else echo "$ROOT/tools/prices/phantora_bench.py"; fi
}
own() {
  program=$1
  shift
  "$(path_of "$program")" "$@"
}
# A command line that has the real GPU, or the one that stands for it. Arguments are words without spaces.
real() {
  if [ -n "$EMULATED" ]; then own phantora-run --no-status --gpu "$GPU" --host-time "${HOST_TIME:-real}" -- "$@"; else "$@"; fi
}
program_file() {  # of Python
  if [ -f "$HERE/$1" ]; then echo "$HERE/$1"; else echo "$ROOT/test/programs/$1"; fi
}

# try WHAT AT-MOST-SECONDS COMMAND...: within what is left of the time; says how it went.
try() {
  what=$1 most=$2
  shift 2
  left=$((END - $(date +%s)))
  [ "$left" -gt 5 ] || { echo "skipped, no time: $what" >>"$OUT/log.txt"; return 1; }
  [ "$most" -lt "$left" ] || most=$left
  begin=$(date +%s)
  TRIES=$((TRIES + 1)) SAID="$WORK/said.$TRIES"  # what was killed may still write to its own
  # timeout(1) starts programs, not functions of this shell.
  ( "$@" ) >"$SAID" 2>&1 &
  job=$!
  ( sleep "$most"; kill -TERM -- "$job"; sleep 5; pkill -KILL -P "$job" ) >/dev/null 2>&1 &
  watch=$!
  wait "$job"
  status=$?
  kill "$watch" 2>/dev/null
  echo "$([ $status = 0 ] && echo ok || echo "FAILED ($status)"), $(($(date +%s) - begin)) s: $what" >>"$OUT/log.txt"
  [ $status = 0 ] || tail -n 12 "$SAID" | sed 's/^/    /' >>"$OUT/log.txt"
  return $status
}

record() {
  recorder=$(path_of phantora-record)
  # One recording of all programs, so that a personality can be made of it.
  {
    echo 'nvidia-smi -q; nvidia-smi; nvidia-smi topo -m'
    for program in $TRACEES; do path_of "$program"; done
  } >"$WORK/programs.sh"
  # shellcheck disable=SC2086  # words
  try "recording of nvidia-smi and driver programs" 200 real $recorder driver -o "$OUT/driver.txt" -- sh "$WORK/programs.sh"
  # shellcheck disable=SC2086
  try "recording of a training step" 150 real $recorder driver -o "$OUT/step.txt" -- "$PYTHON" "$(program_file model_step.py)" gpt2-124m --steps 2
  for file in driver step; do [ ! -f "$OUT/$file.txt" ] || xz -f -T0 "$OUT/$file.txt"; done
  # What the emulated driver makes of this machine's libraries.
  for program in $TRACEES; do
    # shellcheck disable=SC2046
    try "emulated, with this machine's driver library: $program" 60 own phantora-run --force-driver-abi --gpu "$GPU" -- $(path_of "$program")
  done
  try "emulated, with this machine's driver library: a training step" 120 own phantora-run --no-status --force-driver-abi --gpu "$GPU" -- "$PYTHON" "$(program_file model_step.py)" gpt2-124m --steps 2
}

curves() {
  level=2
  [ -z "$EMULATED" ] || level=0
  HOST_TIME=fixed
  try "curves" $((SECONDS_LEFT - 10)) real "$PYTHON" "$(bench_file)" measure -o "$OUT/bench.jsonl" --level "$level" --minutes $((SECONDS_LEFT / 60 - 1))
}

steps() {
  HOST_TIME=measured
  model_step=$(program_file model_step.py)
  models=$("$PYTHON" "$model_step" list)
  for model in $models; do
    try "$model, measured" 60 real "$PYTHON" "$model_step" "$model" && sed -n '/^{/s/^{/{"how": "measured", /p' "$SAID" >>"$OUT/steps.jsonl"
    try "$model, simulated" 60 own phantora-run --no-status --force-driver-abi --gpu "$GPU" --missing "$WORK/$model.missing" -- "$PYTHON" "$model_step" "$model" --steps 5 &&
      sed -n '/^{/s/^{/{"how": "model", /p' "$SAID" >>"$OUT/steps.jsonl"
  done
  for model in $models; do
    [ -s "$WORK/$model.missing" ] || continue
    # shellcheck disable=SC2046
    try "$model, its kernels" 90 real $(path_of phantora-profile) "$WORK/$model.missing" -o "$WORK/$model.rows" --results "$WORK/$model.results" --worker "setarch x86_64 -R -L $(path_of phantora-profile) worker" ||
      continue
    sed 's/^/    /' "$SAID" | tail -n 1 >>"$OUT/log.txt"
    cat "$WORK/$model.results" >>"$OUT/kernels.jsonl"
    head=
    [ ! -s "$OUT/kernels.tsv" ] || head='^#\|^family	'
    grep -v "${head:-^\$}" "$WORK/$model.rows" >>"$OUT/kernels.tsv"
    try "$model, simulated with what was measured" 60 own phantora-run --no-status --force-driver-abi --gpu "$GPU" --rows "$WORK/$model.rows" -- "$PYTHON" "$model_step" "$model" --steps 5 &&
      sed -n '/^{/s/^{/{"how": "rows", /p' "$SAID" >>"$OUT/steps.jsonl"
  done
  for model in $models; do
    try "$model, compiled, measured" 120 real "$PYTHON" "$model_step" "$model" --compile && sed -n '/^{/s/^{/{"how": "measured", /p' "$SAID" >>"$OUT/steps.jsonl"
  done
  table >"$OUT/steps.md"
}

table() {
  "$PYTHON" - "$OUT/steps.jsonl" <<'END'
import json, statistics, sys
found = {}
for line in open(sys.argv[1], encoding="utf-8"):
    step = json.loads(line)
    found.setdefault((step["model"], step["compiled"]), {})[step["how"]] = step
print("| model | measured, ms | by the model | error | with its kernels measured | error | peak GiB, measured | simulated |")
print("|---|---|---|---|---|---|---|---|")
errors = {"model": [], "rows": []}
for (model, compiled), how in sorted(found.items()):
    if "measured" not in how:
        continue
    real, cells = how["measured"], []
    for kind in ("model", "rows"):
        if kind not in how:
            cells += ["", ""]
            continue
        error = how[kind]["ms"] / real["ms"] - 1
        errors[kind].append(abs(error))
        cells += [f"{how[kind]['ms']:.2f}", f"{error:+.1%}"]
    peak = how.get("model", {}).get("peak_gib")
    print(f"| {model}{', compiled' if compiled else ''} | {real['ms']:.2f} | {' | '.join(cells)} | "
          f"{real['peak_gib']:.2f} | {'' if peak is None else format(peak, '.2f')} |")
for kind, what in (("model", "by the model"), ("rows", "with kernels measured")):
    if errors[kind]:
        print(f"\n{what}: median error {statistics.median(errors[kind]):.1%}, largest {max(errors[kind]):.1%}")
END
}

case $PART in
  bundle) bundle; exit ;;
  table) table; exit ;;
  record | curves | steps) ;;
  *) usage ;;
esac
mkdir -p "$OUT" || exit 1
WORK=$(mktemp -d) || exit 1
TRIES=0
trap 'rm -rf "$WORK"' EXIT
echo "== $PART, $(date -u +%Y-%m-%dT%H:%M:%SZ)${EMULATED:+, emulated}" >>"$OUT/log.txt"
"$PART"
tail -n 60 "$OUT/log.txt"
