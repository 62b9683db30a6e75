#!/usr/bin/env bash
# All that continuous integration checks, from a clean checkout on a machine with Python, pip and gcc; under 20 minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'kill "${twins:-}" 2>/dev/null || true; rm -rf "$scratch"' EXIT
step() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }

# The one shell block below `<!-- NAME -->` in the README.
readme_command() { sed -n "/<!-- $1 -->/,/^\`\`\`\$/p" README.md | sed '1,2d;$d'; }

step "the README's test command: checked build, compiled kernels"
bash -euo pipefail -c "$(readme_command test-command)"
python="$PWD/.venv-test/bin/python"

step "the plain-Python twins, without any compiled file: started, goes on beside the next steps"
mkdir "$scratch/source"
git archive HEAD | tar -x -C "$scratch/source"
if [ -d ../shared ]; then ln -s "$(cd ../shared && pwd)" "$scratch/shared"; fi
# What runs whole steps; each kernel was compared with its twin above.
steps="tests/vectors tests/contract tests/integration/test_real_data.py tests/unit/test_algorithms.py
  tests/unit/test_auto.py tests/unit/test_bins.py tests/unit/test_partition.py tests/unit/test_planner.py
  tests/unit/test_planner_limits.py tests/unit/test_planner_reference.py tests/unit/test_repair.py"
# shellcheck disable=SC2086 # one word per file
(cd "$scratch/source" && PACKING_KERNELS=reference exec "$python" -m pytest -q -n 2 -p no:cacheprovider $steps) \
  >"$scratch/twins" 2>&1 &
twins=$!

step "with torch and datasets: parity with unpacked training, tensors, processes, real datasets"
"$python" -m pip install -q -r ci/integration-requirements.txt
mapfile -t needing < <(grep -lE 'importorskip\("(torch|datasets)' tests/integration/*.py)
"$python" -m pytest -q -n auto "${needing[@]}" | tee "$scratch/integration"
if grep -qE "could not import '(torch|datasets)" "$scratch/integration"; then exit 1; fi

step "the README's run command, in a fresh clone"
git clone -q . "$scratch/clone"
(cd "$scratch/clone" && bash -euo pipefail -c "$(readme_command run-command)")

step "lint and types"
"$python" -m ruff check .
"$python" -m ruff format --check .
"$python" -m mypy

step "wheel: built from the sdist, checked, tested on every Python found"
bash ci/wheels.sh --quick

step "plugins: wheels in a clean environment, and one made from the starter's README"
bash ci/plugins.sh dist/packing-*.whl

step "sanitizers, short form"
bash ci/sanitize.sh --quick

step "the plain-Python twins: their result"
wait "$twins" || { cat "$scratch/twins"; exit 1; }
tail -n 3 "$scratch/twins"

step "benchmarks, short form: answers and ratios, on the release build"
"$python" -m pip install -q --no-deps --target "$scratch/release" dist/packing-*.whl lightbinpack
for benchmark in ci/bench/bench_*.py; do
  PYTHONPATH="$scratch/release" "$python" "$benchmark" --quick
done
PYTHONPATH="$scratch/release" "$python" ci/bench/suite.py --quick

step "one digest, short form: plain twins, checked and release build, permuted samples, threads"
PYTHON=$python BUILDS="$PWD:$scratch/release" bash ci/determinism.sh --quick

step "done"
