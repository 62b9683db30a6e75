#!/usr/bin/env bash
# One digest of the same seeded plans, whatever the compiler's flags, the kernels, the order of keyed samples, the
# number of threads and the Python.
#   ci/determinism.sh             builds with -O0 and with -O3 -march=native, on every Python found
#   ci/determinism.sh --quick     only what $PYTHON finds in the folders $BUILDS (separated by colons; the checkout)
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/find_python.sh
root=$PWD
python=${PYTHON:-python3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
quick=()
thread_counts="2 4 8"
if [ "${1:-}" = --quick ]; then
  quick=(--quick)
  thread_counts=4
fi
expected=

# digest NAME PYTHON FOLDER [OPTION...]: plans with that Python, `packing` from that folder, and compares.
digest() {
  local name=$1 interpreter=$2 folder=$3 found
  shift 3
  found=$(cd "$scratch" && PYTHONPATH=$folder "$interpreter" "$root/ci/determinism.py" ${quick[@]+"${quick[@]}"} "$@")
  printf '%s  %s\n' "$found" "$name"
  if [ "$found" != "${expected:=$found}" ]; then
    echo "not the digest of the others"
    exit 1
  fi
}

# variants NAME PYTHON FOLDER: what every build is asked.
variants() {
  digest "$1" "$2" "$3"
  digest "$1, keyed samples permuted" "$2" "$3" --permuted
  for threads in $thread_counts; do
    digest "$1, $threads threads" "$2" "$3" --threads "$threads"
  done
}

if [ ${#quick[@]} -gt 0 ]; then
  PACKING_KERNELS=reference digest "plain twins" "$python" "$root"
  IFS=: read -ra builds <<<"${BUILDS:-$root}"
  for build in "${builds[@]}"; do
    variants "$(basename "$build")" "$python" "$build"
  done
  exit
fi

"$python" -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install -q 'setuptools>=77' 'Cython>=3.1'
mkdir "$scratch/source"
git archive HEAD | tar -x -C "$scratch/source"
flags_of_O0="-O0"
flags_of_native="-O3 -march=native"
for build in O0 native; do
  flags=flags_of_$build
  # A compiler of its own: flags that come last win over those of setup.py, and CFLAGS come first.
  printf '#!/bin/sh\nexec %s "$@" %s\n' "${CC:-gcc}" "${!flags}" >"$scratch/cc-$build"
  chmod +x "$scratch/cc-$build"
  cp -r "$scratch/source" "$scratch/$build"
  (cd "$scratch/$build" && CC="$scratch/cc-$build" "$scratch/venv/bin/python" setup.py -q build_ext --inplace >/dev/null)
done

for version in 3.11 3.12 3.13; do
  if ! interpreter=$(find_python $version); then
    echo "Python $version is not on this machine"
    continue
  fi
  "$interpreter" -m venv "$scratch/$version"
  "$scratch/$version/bin/python" -m pip install -q numpy pluggy
  PACKING_KERNELS=reference digest "plain twins, Python $version" "$scratch/$version/bin/python" "$scratch/source"
  for build in O0 native; do
    variants "$build, Python $version" "$scratch/$version/bin/python" "$scratch/$build"
  done
done
