"""The numbers of chapter 16."""

import math

import numpy as np
import pytest

from dpml import mechanisms
from dpml.accounting import composition, pld
from dpml.lessons.project import explorers


def cell_70(largest_group, says):
    assert composition.group_privacy(epsilon=2.0, delta=1e-5, size=largest_group).delta < 1
    assert largest_group < 1437 / 13
    says({"110": 1437 / 13}, within=1.0)


def cell_09(rehearsal, labels_by_votes, sigma_alone, says):
    sums = np.mean(rehearsal["sums"])
    rates = [np.mean(rehearsal[f"gradients, rate {rate}"]) for rate in (2, 4, 8)]
    ahead = [100 * (rate - sums) for rate in rates]
    assert min(ahead) > 5.5 and max(ahead) < 9.5 and rates == sorted(rates)
    says({"14": labels_by_votes})
    assert all(np.std(rehearsal[f"gradients, rate {rate}"], ddof=1) < 0.01 for rate in (2, 4, 8))
    assert pld.epsilon(q=0.2, sigma=sigma_alone, steps=60, delta=1e-5).epsilon == pytest.approx(2.0, rel=1e-3)


def cell_11(says):
    figure, shares = explorers.budget_split(), {}
    alone = figure.frame().marks[0].y
    for share in (0.1, 0.5):
        shares[share] = figure.frame(share=share, trials=3).marks[-1].y
    says({"1.9": shares[0.5][0] / alone, "1.13": shares[0.1][0] / alone, "32.7": shares[0.1][1]})
    assert 8.5 < shares[0.1][1] / shares[0.1][0] < 9.0


def cell_13(sigma, sigma_alone, total, final_alone, added, says):
    assert 1.999 < total.epsilon <= 2.0 and (total.adjacency, total.public) == ("add/remove", "none")
    says({"14 %": sigma / sigma_alone - 1, "7.6": 2 * sigma, "1.71": final_alone.epsilon, "3.30": added})


def cell_72(best_of_five):
    assert best_of_five == pytest.approx(pld.epsilon(q=0.2, sigma=4.0, steps=300, delta=1e-5).epsilon)


def cell_16(scores, best, run, accuracy, error, final_alone, report, says):
    assert best == 2.0 and scores[8.0] < scores[4.0] < scores[2.0]
    one = math.sqrt(0.8 * 0.2 / 180)
    assert scores[2.0] - scores[4.0] < one < scores[2.0] - scores[8.0]
    assert run.guarantee.epsilon == pytest.approx(final_alone.epsilon, rel=1e-3) and 0.8 < accuracy < 0.9
    assert error < 0.03 and len(report[0]) == 180
    more = pld.epsilon(q=0.2, sigma=3.787, steps=5 * 60, delta=1e-5)
    says({"4": math.floor(more.epsilon)})


def cell_19(audited, least, final_alone, says):
    assert audited.run.guarantee.epsilon == pytest.approx(final_alone.epsilon, rel=1e-4)
    says({"0.629": least, "0.71": audited.evidence.correct / 200})


def cell_22(statement, promised, shown, total, least, says):
    assert total.epsilon <= promised < total.epsilon + 0.01 and least - 0.01 < shown <= least
    assert statement["epsilon"] == "2.00" and statement["n public"] == "no" and statement["kind"] == "upper bound"
    says({"0.88": (math.exp(2) + 1e-5) / (1 + math.exp(2))})
    assert mechanisms.gaussian_sigma(epsilon=2.0, delta=1e-5) < 2.2 and 1e-3 > 1 / 1437
