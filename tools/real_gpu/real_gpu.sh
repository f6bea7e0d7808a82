#!/bin/sh
# Measures a real GPU for Phantora, in minutes, on the machine that has it, which needs the driver and Python with
# PyTorch, and nothing of Phantora but a bundle.
#
#   tools/real_gpu/real_gpu.sh bundle DIR   here, after a build: what that machine needs, 20 MB
#   DIR/real_gpu.sh record OUT     there: what programs and the driver say to each other
#   DIR/real_gpu.sh kernels OUT    there: what the tests' own kernels compute there, and did on the emulated GPU
#   DIR/real_gpu.sh faults OUT     there: what the driver asks for after a kernel's fault
#   DIR/real_gpu.sh special OUT    there: what the special function unit returns for every mantissa
#   DIR/real_gpu.sh calls OUT      there: products and attention that others have published, timed as they did
#   DIR/real_gpu.sh steps OUT      there: training steps of nine models, kernel by kernel
#   DIR/real_gpu.sh compiled OUT   there: the same with torch.compile
#   DIR/real_gpu.sh curves OUT     there: how long operations take (phantora_bench.pyz)
#   DIR/real_gpu.sh replay OUT     there: a step's kernels, launched again by phantora-profile, and the step with these
#   DIR/real_gpu.sh host OUT       there: what calls cost the processor, on the real GPU and on the emulated one
#   DIR/real_gpu.sh execute OUT    there: training on one real GPU, and with --execute gpu
#   DIR/real_gpu.sh emulated OUT   there, beside the others, as it takes no GPU: the same models and driver programs on
#                                  the emulated GPU with that machine's own libraries
#   DIR/real_gpu.sh launches OUT   there, likewise: what each operation of the curves launches, for phantora_bench rows
#
# OUT is a folder, the same each time. --gpu NAME says which GPU it is (h100-sxm5-80gb), --seconds N how long a part
# may take (570), --level N and --only FAMILY which curves, --rest the calls that were not timed yet, --model NAME which
# of the models to replay, --rows FILE measured kernels for the emulated models, --lanes N how many emulated runs at once
# (2), --python FILE which Python, --driver DIR where libcuda.so.1 is. --stand-in tries it all on the emulated GPU, where
# no time means anything. Every part does what matters most first and ends in time; OUT/log.txt says what was done and
# what failed. compare_*.py make tables of OUT.
set -u

GPU=h100-sxm5-80gb SECONDS_LEFT=570 PYTHON=python3 EMULATED='' LANES=2 DRIVER='' LEVEL=1 CALLS='' ONLY='' ROWS='' MODELS='' EXECUTE_OPTIONS=''
usage() { sed -n '2,29s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
PART=$1 OUT=$2
shift 2
while [ $# -gt 0 ]; do
  case $1 in
    --gpu) GPU=$2; shift 2 ;;
    --seconds) SECONDS_LEFT=$2; shift 2 ;;
    --python) PYTHON=$2; shift 2 ;;
    --lanes) LANES=$2; shift 2 ;;
    --driver) DRIVER=$2; shift 2 ;;
    --level) LEVEL=$2; shift 2 ;;
    --only) ONLY="$ONLY --only $2"; shift 2 ;;
    --rows) ROWS=$2; shift 2 ;;
    --model) MODELS="$MODELS $2"; shift 2 ;;
    --rest) CALLS='--random --last'; shift ;;
    --stand-in) EMULATED=1; shift ;;
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
  install -m 644 "$ROOT/test/programs/model_step.py" "$ROOT/test/programs/resnet50.py" "$ROOT/test/programs/train_on_gpu.py" "$HERE"/*.py "$OUT/"
  install -m 644 "$ROOT/profiles/held_out/$GPU/published_calls.tsv" "$OUT/"
  rm -rf "$OUT/kernels" && mkdir -p "$OUT/kernels" && install -m 644 "$ROOT"/test/kernels/*.py "$OUT/kernels/"
  # The code that the emulated GPU runs, and what it computes.
  [ -n "${NO_KERNELS:-}" ] || PHANTORA_KERNELS="$OUT/kernels/emulated" "$PYTHON" "$ROOT/test/kernels/nvrtc_kernels.py" --quiet --gpu "$GPU" \
    --phantora "$bin/tools/phantora-run" | tail -n 3
  PHANTORA_KERNELS="$OUT/kernels/emulated" "$bin/tools/phantora-run" --no-status --gpu "$GPU" --host-time fixed --execute all -- \
    "$PYTHON" "$HERE/special_functions.py" -o "$OUT/kernels/special.npz" --decimate 256 2>&1 | tail -n 1
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
own_file() {  # of Python, beside this script
  echo "$HERE/$1"
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
  SAID=$(mktemp "$WORK/said.XXXXXX")  # what was killed may still write to its own
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

programs() {  # "nvidia-smi", and the driver programs
  echo 'nvidia-smi -q; nvidia-smi; nvidia-smi topo -m'
  for program in $TRACEES; do path_of "$program"; done
}

record() {
  recorder=$(path_of phantora-record)
  # One recording of all programs, so that a personality can be made of it.
  programs >"$WORK/programs.sh"
  # shellcheck disable=SC2086  # words
  try "recording of nvidia-smi and driver programs" 100 real $recorder driver -o "$OUT/driver.txt" -- sh "$WORK/programs.sh"
  # shellcheck disable=SC2086
  try "recording of a training step" 100 real $recorder driver -o "$OUT/step.txt" -- "$PYTHON" "$(program_file model_step.py)" gpt2-124m --steps 2
  nvidia-smi -q >"$OUT/nvidia-smi.txt" 2>&1
}

kernels() {
  # fault_endless would not end.
  try "kernels" $((SECONDS_LEFT - 5)) real env PHANTORA_KERNELS="$WORK/kernels" PHANTORA_CUBINS="$HERE/kernels/emulated/cubins" \
    "$PYTHON" "$HERE/kernels/nvrtc_kernels.py" --inside --gpu "$GPU" --only '^(?!fault_endless)'
  cp "$SAID" "$OUT/kernels.txt"
  cp "$WORK/kernels/launches.jsonl" "$OUT/kernels.jsonl"
}

calls() {
  try "published calls" $((SECONDS_LEFT - 2)) real "$PYTHON" "$(own_file published_calls.py)" "$HERE/published_calls.tsv" -o "$OUT/calls.jsonl" --seconds $((SECONDS_LEFT - 10)) $CALLS
}

faults() {  # what the driver asks after a kernel's fault
  recorder=$(path_of phantora-record)
  for fault in assert trap null; do
    # shellcheck disable=SC2086
    try "recording of fault_$fault" 40 real $recorder driver -o "$OUT/fault_$fault.txt" -- env PHANTORA_CUBINS="$HERE/kernels/emulated/cubins" \
      "$PYTHON" "$HERE/kernels/nvrtc_kernels.py" --inside --gpu "$GPU" --only "^fault_$fault\$"
  done
}

special() {
  try "special functions" $((SECONDS_LEFT - 2)) real env PHANTORA_CUBINS="$HERE/kernels/emulated/cubins" "$PYTHON" "$(own_file special_functions.py)" -o "$OUT/special.npz"
}

steps() {
  try "steps" $((SECONDS_LEFT - 2)) real "$PYTHON" "$(own_file step_kernels.py)" -o "$OUT/steps.jsonl" --seconds $((SECONDS_LEFT - 15))
  sed 's/^/    /' "$SAID" | tail -n 15 >>"$OUT/log.txt"
}

compiled() {
  try "compiled steps" $((SECONDS_LEFT - 2)) real "$PYTHON" "$(own_file step_kernels.py)" -o "$OUT/compiled.jsonl" --seconds $((SECONDS_LEFT - 40)) --compile \
    gpt2-124m llama-3-8b-4-layers-2k bert-large resnet-50
  sed 's/^/    /' "$SAID" | tail -n 15 >>"$OUT/log.txt"
}

curves() {
  [ -z "$EMULATED" ] || LEVEL=0
  HOST_TIME=fixed
  try "curves" $((SECONDS_LEFT - 2)) real "$PYTHON" "$(bench_file)" measure -o "$OUT/bench.jsonl" --level "$LEVEL" $ONLY --brief --minutes "$("$PYTHON" -c "print(($SECONDS_LEFT - 12) / 60)")"
}

simulated() {  # arguments of phantora-run, --, a command
  own phantora-run --no-status --nccl native --force-driver-abi ${DRIVER:+--driver "$DRIVER"} --gpu "$GPU" ${ROWS:+--rows "$ROWS"} "$@"
}

launches() {
  cat >"$WORK/run" <<END
#!/bin/sh
exec "$(path_of phantora-run)" --nccl native --force-driver-abi ${DRIVER:+--driver "$DRIVER"} --execute off "\$@"
END
  chmod 755 "$WORK/run"
  "$PYTHON" "$(bench_file)" list --jsonl --level "$LEVEL" $ONLY >"$WORK/operations.jsonl"
  try "launches of operations" $((SECONDS_LEFT - 5)) "$PYTHON" "$(bench_file)" rows "$WORK/operations.jsonl" --gpu "$GPU" --phantora-run "$WORK/run" --launches "$OUT/launches.json"
  tail -n 30 "$SAID" >"$OUT/launches.txt"
}

replay() {
  for model in ${MODELS:-gpt2-124m llama-3-8b-4-layers-2k}; do
    try "$model, list of its kernels" 90 simulated --execute off --missing "$WORK/$model.missing" --model-only -- "$PYTHON" "$(program_file model_step.py)" $model --steps 2
    # shellcheck disable=SC2046
    try "$model, its kernels launched again" 90 real $(path_of phantora-profile) "$WORK/$model.missing" -o "$OUT/$model.rows.tsv" --results "$OUT/$model.results.jsonl" --worker "setarch x86_64 -R -L $(path_of phantora-profile) worker"
    sed 's/^/    /' "$SAID" | tail -n 4 >>"$OUT/log.txt"
    try "$model, simulated with what was measured" 60 simulated --host-time measured --execute off --rows "$OUT/$model.rows.tsv" -- "$PYTHON" "$(program_file model_step.py)" $model --steps 6
    sed -n 's/^{/{"how": "rows", /p' "$SAID" >>"$OUT/emulated.jsonl"
  done
}

host() {
  try "what calls cost" 90 real "$PYTHON" "$(own_file host_truth.py)" -o "$OUT/host.real.jsonl"
  try "what calls cost, emulated" 120 simulated --host-time measured --execute off -- "$PYTHON" "$(own_file host_truth.py)" -o "$OUT/host.emulated.jsonl"
}

# train NAME RANKS OPTIONS...: of train_on_gpu.py, in words
train() {
  name=$1 ranks=$2
  shift 2
  profile=$(path_of phantora-profile)
  # shellcheck disable=SC2086,SC2046
  try "$name, $ranks ranks, --execute gpu" 150 own phantora-run --no-status --force-driver-abi ${DRIVER:+--driver "$DRIVER"} --cluster dgx-h100:1 \
    --ranks-per-host "$ranks" --host-time measured --execute gpu \
    --execute-command "$profile execute $EXECUTE_OPTIONS --worker 'setarch x86_64 -R -L $profile execute-worker'" -- \
    "$PYTHON" $(program_file train_on_gpu.py) "$@"
  went=$?
  { echo "== $name, $ranks ranks, --execute gpu"; cat "$SAID"; } >>"$OUT/execute.txt"
  return $went
}

execute() {
  for size in "--steps 5" "--steps 5 --width 768 --layers 12 --rate 1e-5"; do
    # shellcheck disable=SC2086,SC2046
    try "natively, $size" 60 real env RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=29501 "$PYTHON" $(program_file train_on_gpu.py) $size
    { echo "== natively, $size"; cat "$SAID"; } >>"$OUT/execute.txt"
    # shellcheck disable=SC2086,SC2046
    try "processor, $size" 60 "$PYTHON" $(program_file train_on_gpu.py) $size --cpu 4
    { echo "== processor, 4 ranks, $size"; cat "$SAID"; } >>"$OUT/execute.txt"
    # shellcheck disable=SC2086
    for ranks in 1 4; do
      # What fails is tried once more, with the name of the kernel that fails.
      train "$size" $ranks $size || { EXECUTE_OPTIONS=--synchronous; train "$size, waiting" $ranks $size; EXECUTE_OPTIONS=; }
    done
  done
  # shellcheck disable=SC2046
  try "gpt2-124m, --execute gpu" 100 simulated --host-time measured --execute gpu \
    --execute-command "$(path_of phantora-profile) execute --worker 'setarch x86_64 -R -L $(path_of phantora-profile) execute-worker'" -- \
    "$PYTHON" $(program_file model_step.py) gpt2-124m --steps 6
  { echo "== gpt2-124m, --execute gpu"; cat "$SAID"; } >>"$OUT/execute.txt"
}

emulate_program() {
  # shellcheck disable=SC2046
  try "emulated, with this machine's driver library: $1" 60 simulated -- $(path_of "$1")
}

emulate_model() {
  try "emulated: $1" 150 simulated --host-time measured --execute off --trace "$WORK/$1.trace.json" --log-kernels "$WORK/$1.launches.jsonl" -- \
    "$PYTHON" "$(program_file model_step.py)" "$1" --steps 6
  { echo "== $1"; tail -n 40 "$SAID"; } >>"$OUT/emulated.txt"
  sed -n 's/^{/{"how": "model", /p' "$SAID" >>"$OUT/emulated.jsonl"
  for file in trace.json launches.jsonl; do [ ! -f "$WORK/$1.$file" ] || xz -T1 -2 -c "$WORK/$1.$file" >"$OUT/$1.$file.xz"; done
}

lane() {  # of the models whose number is $1 of $2
  number=0
  for model in $("$PYTHON" "$(program_file model_step.py)" list); do
    [ $((number % $2)) != "$1" ] || emulate_model "$model"
    number=$((number + 1))
  done
}

emulated() {
  emulate_program context && emulate_program module_launch
  recorder=$(path_of phantora-record)
  programs >"$WORK/programs.sh"
  lanes=
  for number in $(seq 0 $((LANES - 1))); do
    lane "$number" "$LANES" &
    lanes="$lanes $!"
  done
  for program in $TRACEES; do emulate_program "$program"; done
  try "emulated, recorded" 100 simulated -- "$recorder" driver -o "$OUT/driver.emulated.txt" -- sh "$WORK/programs.sh"
  # shellcheck disable=SC2086
  wait $lanes
}

case $PART in
  bundle) bundle; exit ;;
  record | faults | kernels | special | calls | steps | compiled | curves | replay | host | execute | emulated | launches) ;;
  *) usage ;;
esac
mkdir -p "$OUT" || exit 1
WORK=$(mktemp -d) || exit 1
trap 'rm -rf "$WORK"' EXIT
if [ -z "$DRIVER" ] && [ -z "$EMULATED" ]; then  # a folder as phantora-run wants it
  library=$(ldconfig -p | sed -n 's/.*libcuda\.so\.1 .*x86-64.*=> //p' | head -n 1)
  [ -n "$library" ] || library=$(find /usr -name libcuda.so.1 2>/dev/null | head -n 1)
  DRIVER=$WORK/driver/lib
  mkdir -p "$DRIVER" "$WORK/driver/bin"
  ln -s "$(dirname "$library")"/libnvidia-* "$(dirname "$library")"/libcuda* "$DRIVER/" 2>/dev/null
  ln -s "$(command -v nvidia-smi)" "$WORK/driver/bin/"
  case $(basename "$(readlink -f "$library")") in
    libcuda.so.[0-9]*.*) ln -sf "$(readlink -f "$library")" "$DRIVER/libcuda.so.1" ;;
    *) version=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader | head -n 1)
      cp "$library" "$DRIVER/libcuda.so.$version" && ln -sf "libcuda.so.$version" "$DRIVER/libcuda.so.1" ;;
  esac
fi
echo "== $PART, $(date -u +%Y-%m-%dT%H:%M:%SZ)${EMULATED:+, emulated}" >>"$OUT/log.txt"
"$PART"
tail -n 60 "$OUT/log.txt"
