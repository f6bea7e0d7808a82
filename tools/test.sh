#!/usr/bin/env bash
# Sets everything up, then runs all tests and closes with "N passed, N failed".
#
#   tools/test.sh [targets and options of bazel test, for instance //clock/... --config=asan]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/setup.sh all
exec /usr/bin/python3 tools/setup/test_summary.py "$@"
