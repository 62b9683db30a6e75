#!/usr/bin/env bash
# Runs the kernel tests under the address and undefined-behaviour sanitizers.
#   ci/sanitize.sh [--quick]     --quick: only three kernels, beside the others as they were built in the checkout
set -euo pipefail
cd "$(dirname "$0")/.."
tests="tests/kernels tests/vectors tests/unit/test_bins.py tests/unit/test_partition.py"
few=
if [ "${1:-}" = --quick ]; then
  few="greedy exchange rows"
  tests="tests/kernels/test_greedy.py tests/kernels/test_exchange.py tests/kernels/test_rows.py"
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/source"
git archive HEAD | tar -x -C "$scratch/source"
if [ -n "$few" ]; then
  rm "$scratch"/source/packing/_kernels/*.pyx
  cp packing/_kernels/*.so "$scratch/source/packing/_kernels"
  for kernel in $few; do
    rm "$scratch/source/packing/_kernels/_$kernel".*.so
    cp "packing/_kernels/_$kernel.pyx" "$scratch/source/packing/_kernels"
  done
fi
if [ -d ../shared ]; then ln -s "$(cd ../shared && pwd)" "$scratch/shared"; fi
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install -q 'setuptools>=77' 'Cython>=3.1' numpy pluggy pytest hypothesis
cd "$scratch/source"
CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer" \
  LDFLAGS="-fsanitize=address,undefined" PACKING_CHECKED=1 \
  "$scratch/venv/bin/python" setup.py -q build_ext --inplace >/dev/null
# CPython itself never frees all it allocates, so leaks are not reported.
# shellcheck disable=SC2086 # one word per file
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
  "$scratch/venv/bin/python" -m pytest -q -p no:cacheprovider $tests
