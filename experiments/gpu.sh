#!/usr/bin/env bash
# What needs a GPU to be measured: from the source tree, without a network, each at most 5 minutes.
#   bash experiments/gpu.sh                             the training step; dpml/datasets/recorded/gpu.json
#   bash experiments/gpu.sh dpsgd                       DP-SGD with as many steps as it needs;
#                                                       dpml/datasets/recorded/dpsgd_gpu.json; go on by repeating
#   bash experiments/gpu.sh rates                       step sizes for the next, about a minute; the same file, part rates
#   bash experiments/gpu.sh ptr_tables                  private and robust SGD, the paper's network on the full sets of
#                                                       Fashion-MNIST and MNIST (those that `dpml.data` finds);
#                                                       dpml/datasets/recorded/ptr_tables.json, part gpu; go on by repeating
#   bash experiments/gpu.sh stobatch                    StoBatch and its baselines on the full Fashion-MNIST;
#                                                       dpml/datasets/recorded/stobatch.json, part full; go on by repeating
#   bash experiments/gpu.sh byzantine                   Byzantine workers and noise, Figures 2 to 5 of the paper on full
#                                                       Fashion-MNIST; dpml/datasets/recorded/byzantine_figures.json,
#                                                       part full; go on by repeating
#   bash experiments/gpu.sh processes                   what a second GPU gains, with nccl; printed
#   bash experiments/gpu.sh --preset tiny --into FILE   the code of the first on the CPU, in seconds
# Needs Python with torch, numpy, scipy and tqdm. To set opacus beside it, put its wheel and that of opt_einsum into
# experiments/wheels (pip download --no-deps opacus opt_einsum); both are pure Python and run from where they lie.
set -euo pipefail
cd "$(dirname "$0")/.."
path=$PWD
for wheel in "$PWD"/experiments/wheels/*.whl; do
    [ -e "$wheel" ] && path="$path:$wheel"
done
export PYTHONPATH="$path${PYTHONPATH:+:$PYTHONPATH}"
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-PASSIVE}"
python=${PYTHON:-python3}
case "${1:-}" in
dpsgd) part=(experiments.dpsgd_gpu) ;;
rates) part=(experiments.ptr_tables --preset rates) ;;
ptr_tables) part=(experiments.ptr_tables --preset gpu) ;;
stobatch) part=(experiments.stobatch --preset full) ;;
byzantine) part=(experiments.byzantine_figures --preset full) ;;
processes) exec "$python" benchmarks/workers.py --device cuda ;;
*) exec "$python" -m experiments.gpu "$@" ;;
esac
shift
export OMP_NUM_THREADS=1
processes=$("$python" -c 'import os; print(max(1, os.cpu_count() - 1))')
exec "$python" -m "${part[@]}" --device cuda --processes "$processes" --seconds 270 "$@"
