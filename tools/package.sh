#!/usr/bin/env bash
# Builds Phantora's packages, for machines without a compiler: a wheel (pip install FILE) and one for Debian and Ubuntu
# (apt install ./FILE), and after either phantora-run setup.
#
#   tools/package.sh [DIRECTORY]      (default: dist)
#
# They run on amd64 systems with glibc 2.35 and GCC 12's C++ library (libstdc++6) or newer: Debian 12 and 13, Ubuntu 22.04
# and 24.04. phantora-run setup takes apt there.
# The same source gives the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
  -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" && exit 0 ;;
esac
out=${1:-dist}
version=$(sed -n 's/^inline constexpr char kPhantoraVersion\[\] = "\(.*\)";$/\1/p' tools/version.h)
[[ $version ]] || { echo "package.sh: tools/version.h has no version" >&2; exit 1; }
programs=(phantora-run phantora-replay phantora-profile phantora-record)
bazel build --ui_event_filters=-info "${programs[@]/#///tools:}"
mkdir -p "$out"
for kind in wheel deb; do
  python3 "tools/package/$kind.py" --version "$version" --out "$out" --binary "${programs[@]/#/bazel-bin/tools/}" \
    --module tools/serving/{client,loads,phantora_load,server_metrics,summary}.py --setup tools/setup.sh --license LICENSE NOTICE
done
