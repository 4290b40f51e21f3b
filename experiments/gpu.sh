#!/usr/bin/env bash
# The training step on a GPU: from the source tree, without a network, with the images that come with the package.
#   bash experiments/gpu.sh                             on the GPU, at most 5 minutes; experiments/results/gpu.json
#   bash experiments/gpu.sh --preset tiny --into FILE   the same code on the CPU, in seconds
# Needs Python with torch, numpy, scipy and tqdm. To set opacus beside it, put its wheel and that of opt_einsum into
# experiments/wheels (pip download --no-deps opacus opt_einsum); both are pure Python and run from where they lie.
set -euo pipefail
cd "$(dirname "$0")/.."
path=$PWD
for wheel in "$PWD"/experiments/wheels/*.whl; do
    [ -e "$wheel" ] && path="$path:$wheel"
done
PYTHONPATH="$path${PYTHONPATH:+:$PYTHONPATH}" exec "${PYTHON:-python3}" -m experiments.gpu "$@"
