#!/usr/bin/env bash
# Plugins as their users get them: wheels of packing and of the starter in a clean environment, the starter's algorithm
# chosen by name, its tests, and a second plugin made by following the starter's README to the letter.
#   ci/plugins.sh [WHEEL]     WHEEL: of packing; without it, one is built
set -euo pipefail
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1
python=${PYTHON:-python3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$python" -m venv "$scratch/build"
core=${1:-}
if [ -z "$core" ]; then
  "$scratch/build/bin/python" -m pip wheel -q --no-deps --wheel-dir "$scratch/wheels" .
  core=$(ls "$scratch"/wheels/packing-*.whl)
fi
core=$(cd "$(dirname "$core")" && pwd)/$(basename "$core")
mkdir "$scratch/user"
git archive HEAD plugins/packing-starter | tar -x -C "$scratch/user" --strip-components 1 # without what installs leave
"$scratch/build/bin/python" -m pip wheel -q --no-deps --wheel-dir "$scratch/wheels" "$scratch/user/packing-starter"
starter=$(ls "$scratch"/wheels/packing_starter-*.whl)

echo "-- $(basename "$core") and $(basename "$starter") in a clean environment"
"$python" -m venv "$scratch/environment"
PATH="$scratch/environment/bin:$PATH"
unset PYTHONPATH PACKING_PLUGINS
# One call with both files: the starter needs `packing`, and no index may be asked for it.
python -m pip install -q --log "$scratch/pip.log" "${core}[cli]" "${starter}[test]"
grep -q "search for versions of numpy:" "$scratch/pip.log"
if grep -q "search for versions of packing:" "$scratch/pip.log"; then
  echo "an index was asked for packing"
  exit 1
fi

cd "$scratch/user"
printf 'packing:\n  data_parallel_size: 8\n  seq_len: 8192\n  local_batch_size: 2\n  algorithm: starter/snake\n  estimator: {name: starter/images, weight: 3}\n' > block.yaml
python -c "
import random
random.seed(0)
print('length,image_tokens')
for _ in range(96):
    length = random.randint(16, 1300)
    print(f'{length},{random.randint(0, length)}')
" > samples.csv
packing plan samples.csv --column length --config block.yaml --output plan.json | tee summary.txt
grep -q '^algorithm  *starter/snake$' summary.txt
packing plugins
packing plugins --json | python -c "
import json, sys
from packing.plan import Plan
rows = {row['name']: row for row in json.load(sys.stdin)}
for name in ('starter/snake', 'starter/images'):
    row = rows[name]
    assert (row['distribution'], row['version'], row['error']) == ('packing-starter', '0.1.0', None), row
    assert row['load_seconds'] > 0
plan = Plan.from_json(open('plan.json').read())
assert (plan.algorithm, plan.estimator, plan.num_bins) == ('starter/snake', 'starter/images', 16), plan
"
mkdir tests
cp packing-starter/tests/*.py tests
python -m pytest -q -p no:cacheprovider tests # the installed wheel, not the folder

echo "-- a new plugin, made by following the starter's README"
sed -n '/^```sh$/,/^```$/p' packing-starter/README.md | sed '/^```/d' > follow.sh
grep -q 'pip install' follow.sh
bash -euxo pipefail follow.sh
packing plugins --json | python -c "
import json, sys
rows = {row['name']: row for row in json.load(sys.stdin)}
for name in ('acme/snake', 'acme/images', 'starter/snake'):
    assert rows[name]['error'] is None, rows[name]
assert rows['acme/snake']['distribution'] == 'packing-acme'
"
