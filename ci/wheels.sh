#!/usr/bin/env bash
# Builds the sdist, one abi3 wheel from it, checks both, and runs the tests against the wheel on the Pythons found.
#   ci/wheels.sh [--quick] [FOLDER]     --quick: only the fast tests; FOLDER: where sdist and wheel are left (dist)
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/find_python.sh
quick=no
if [ "${1:-}" = --quick ]; then quick=yes; shift; fi
dist=${1:-dist}
mkdir -p "$dist"
dist=$(cd "$dist" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

builder=$(find_python 3.11 || command -v python3)
"$builder" -m venv "$scratch/build"
"$scratch/build/bin/python" -m pip install -q build
rm -f "$dist"/packing-*
"$scratch/build/bin/python" -m build -q --sdist --outdir "$dist" .
sdist=$(ls "$dist"/packing-*.tar.gz)
"$scratch/build/bin/python" -m pip wheel -q --no-deps --wheel-dir "$dist" "$sdist"
wheel=$(ls "$dist"/packing-*.whl)
"$scratch/build/bin/python" ci/check_wheel.py "$sdist" "$wheel"

# Outside the checkout, so that the installed wheel is what is tested.
mkdir -p "$scratch/project"
cp -r tests pyproject.toml README.md ci plugins "$scratch/project"
if [ -d ../shared ]; then ln -s "$(cd ../shared && pwd)" "$scratch/shared"; fi
tests="tests"
if [ $quick = yes ]; then tests="tests/vectors tests/contract tests/kernels/test_kk.py tests/kernels/test_greedy.py"; fi
for version in 3.11 3.12 3.13; do
  if ! interpreter=$(find_python $version); then
    echo "Python $version is not on this machine"
    continue
  fi
  echo "-- $(basename "$wheel") on Python $version"
  "$interpreter" -m venv "$scratch/$version"
  if [ $quick = yes ]; then
    "$scratch/$version/bin/python" -m pip install -q "$wheel[cli]" pytest pytest-xdist hypothesis
  else
    "$scratch/$version/bin/python" -m pip install -q "$wheel[test]"
  fi
  (cd "$scratch/project" && "$scratch/$version/bin/python" -I -W error -c "import packing; packing.Planner")
  # shellcheck disable=SC2086 # one word per folder
  (cd "$scratch/project" && "$scratch/$version/bin/python" -m pytest -q -n auto -p no:cacheprovider $tests)
done
