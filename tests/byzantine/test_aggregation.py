"""Rules against golden cases, brute force, other routes and bad rows; in NumPy and in torch alike."""

import numpy as np
import pytest
import torch

from dpml.byzantine import aggregation
from tests.golden import golden

CASES = golden("byzantine")["gar_cases"]
RULES = {
    "average": aggregation.average,
    "krum": aggregation.krum,
    "multikrum": aggregation.multi_krum,
    "mda": aggregation.mda,
    "median": aggregation.median,
    "trmean": aggregation.trimmed_mean,
    "geometric_median": aggregation.geometric_median,
    "bulyan": aggregation.bulyan,
}


def rows_of(case):
    return np.array([*case["honest"], *[case["byzantine"]] * case["f"]])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
@pytest.mark.parametrize("name", RULES)
def test_golden_cases(case, name):
    if name not in case:
        with pytest.raises(ValueError, match="the rule needs n >= 4 n_byzantine \\+ 3"):
            RULES[name](rows_of(case), n_byzantine=case["f"])
        return
    out = RULES[name](rows_of(case), n_byzantine=case["f"])
    assert out == pytest.approx(np.array(case[name]), rel=1e-9, abs=1e-12)
    tensor = RULES[name](torch.tensor(rows_of(case)), n_byzantine=case["f"])
    assert tensor.dtype == torch.float64
    assert tensor.numpy() == pytest.approx(np.array(case[name]), rel=1e-9, abs=1e-12)


def test_bulyan_as_worded_keeps_another_number_of_rows():
    """Discarding the highest-scoring row n - 2f - 2 times leaves 2f + 2 rows, not n - 2f - 2, and another result."""
    case = next(case for case in CASES if case["name"] == "n15f3_little")
    rows, f = rows_of(case), 3
    left = list(range(15))
    for _ in range(15 - 2 * f - 2):
        scores = aggregation.krum_scores(rows[left], n_byzantine=min(f, (len(left) - 3) // 2))
        left.pop(int(scores.argmax()))
    assert len(left) == 2 * f + 2 != len(case["bulyan_selected"]) == 15 - 2 * f - 2
    moved, rest = [], list(range(15))
    while len(moved) < 15 - 2 * f - 2:
        moved.append(rest.pop(int(aggregation.krum_scores(rows[rest], n_byzantine=f).argmin())))
    assert moved == case["bulyan_selected"]
    assert aggregation.bulyan(rows, n_byzantine=f) == pytest.approx(np.median(rows[moved], axis=0), rel=1e-12)
