"""The numbers of chapter 11."""

import numpy as np
import pytest

from dpml import data
from dpml.lessons.robust import explorers
from dpml.ptr.propose_test_release import pass_probability


def cell_04(gradients, clipped, trimmed):
    assert gradients.mean(axis=0)[0] < -80
    assert (clipped[0], trimmed[0]) == pytest.approx((0.791, 0.883), abs=5e-4)


def cell_38(norms, stays, shorter):
    assert list(stays) == 9 * [True] + [False] and 984 < norms[9] < 986
    assert np.linalg.norm(shorter, axis=1) == pytest.approx(1)


def cell_12(says, threshold):
    says({"17.7": threshold(scale=1.0, delta0=1e-8)})
    figure = explorers.sorted_norms()
    assert figure.frame().title.startswith("49 of 256 norms exceed τR = 10: with F = 80")
    assert figure.frame(case="small").title.startswith("250 of 256")
    outliers = figure.frame(case="outliers").title
    assert outliers.startswith("72 of 256") and "almost never" in outliers


def cell_17(difference, margin, b, delta0, passed, ids, w, F):
    assert difference < 1e-5
    assert passed and pass_probability(margin, scale=b, delta0=delta0) > 0.99
    assert len(ids) - int((w > 0).sum()) == F


def cell_22():
    figure = explorers.feedback()
    assert "50% of the last tests pass" in figure.frame().title
    assert "fallen to 0" in figure.frame(rule="appendix").title
    assert "noise alone" in figure.frame(start=160, rule="appendix").title


def cell_25(run, tests, trims):
    assert 2.9 < run.guarantee.epsilon <= 3.0 and run.trace.accuracy[-1] > 0.72
    assert 0.3 < np.average(tests[1:]) < 0.65 and max(trims) > 128


def cell_28(says, with_test, at_07, matched, claim, setting):
    says({"1.931": with_test, "3.398": at_07, "0.850": matched, "0.55": setting["sigma"] * setting["tau"]})
    assert claim.broken is not None and claim.epsilon == pytest.approx(3.041, abs=2e-3)


def means(rows, *fields):
    """Accuracy in per cent for each value of the fields."""
    groups = data.grouped(rows, *fields)
    return {key: 100 * np.mean([row["accuracy"] for row in group]) for key, group in groups.items()}


def cell_31(says):
    recorded = data.recorded("ptr_tables")
    rows = recorded["cpu"]["rows"]
    accuracy = means(rows, "method", "corruption", "ratio")
    clean, *corrupted = kinds = [key[1:] for key in accuracy if key[0] == "TSGD+PTR"]
    assert clean == ("none", 0.0) and len(kinds) == 7

    def lead(method, other, kind):
        return accuracy[(method, *kind)] - accuracy[(other, *kind)]

    ptr, paper, matched = "TSGD+PTR", "TSGD+Gaussian, paper", "TSGD+Gaussian, matched"
    over_paper = [lead(ptr, paper, kind) for kind in kinds]
    says({"7": min(over_paper), "15": max(over_paper)})
    says({"4": lead(ptr, matched, clean)})
    assert all(abs(lead(ptr, matched, kind)) < 1 for kind in corrupted if kind[1] == 0.1)
    behind = [lead(matched, ptr, kind) for kind in corrupted if kind[1] == 0.2]
    says({"1": min(behind), "2": max(behind)}, within=1)
    ahead = [lead("DP-SGD, matched", ptr, kind) for kind in kinds]
    assert min(ahead) > 3 and max(ahead) < 4
    never = [row["passed"] for row in rows if row["method"] == "TSGD+PTR, appendix"]
    says({"79.9 %": accuracy["TSGD+PTR, appendix", "none", 0.0] / 100})
    assert max(never) == 0 and accuracy["TSGD+PTR, appendix", "none", 0.0] > accuracy[ptr, "none", 0.0]
    wide = [row["passed"] for row in rows if (row["method"], row["corruption"]) == ("TSGD+PTR, wide", "none")]
    says({"70 %": np.mean(wide), "72 %": accuracy["TSGD+PTR, wide", "none", 0.0] / 100})

    severe = means(recorded["severe"]["rows"], "corruption", "ratio", "method")
    for kind in ((name, ratio) for name in ("targeted labels", "gradient signs") for ratio in (0.1, 0.2)):
        by_ptr = severe[(*kind, ptr)]
        assert severe[(*kind, "DP-SGD, matched")] - by_ptr == pytest.approx(3, abs=0.5)
        assert 12 < by_ptr - severe[(*kind, paper)] < 20 and -1 < by_ptr - severe[(*kind, matched)] < 4.5

    one = [row for row in recorded["gpu"]["rows"] if (row["corruption"], row["seed"]) == ("none", 0)]
    gpu = means([row for row in one if row["set"] == "Fashion-MNIST"], "method", "rate")
    says({"9": gpu[ptr, 0.15] - gpu[paper, 0.15]}, within=1)
    for rate in (0.15, 0.5):
        assert gpu["DP-SGD, matched", rate] - gpu[ptr, rate] == pytest.approx(3, abs=0.5)
    assert gpu[ptr, 0.5] - gpu[ptr, 0.15] > 4


def cell_34(says, rest, needed, bound):
    says({"0.868": needed})
    assert rest == pytest.approx(0.267, abs=5e-4) and rest < bound[-1] < 0.35
