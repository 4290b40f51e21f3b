"""The numbers of chapter 12."""

import math

import numpy as np
import pytest

from dpml import data
from dpml.byzantine import attacks, theory
from dpml.lessons.byzantine import explorers


def cell_06(vectors, target):
    assert vectors.mean(axis=0) == pytest.approx(target)
    assert np.linalg.norm(np.median(vectors, axis=0) - (1.0, 0.5)) < 0.2


def cell_10(rows):
    assert len(rows) == 5 and all(off < 0.3 and gap < 1e-12 for _, off, gap in rows)


def cell_14(says):
    figure = explorers.rules_in_the_plane()
    assert figure.frame(rule="krum").readout.endswith("1.19 off, with the liars at 1.25.")
    assert "Krum 1.19" in figure.frame(distance=2.0).title and "Krum 1.19" not in figure.frame(distance=2.25).title
    for distance, a_lie in ((0.25, True), (1.0, True), (1.25, False), (2.0, False)):
        honest, lies, _, answer = figure.frame(distance=distance, rule="krum").marks
        gaps = [np.hypot(some.x - answer.x[0], some.y - answer.y[0]).min() for some in (honest, lies)]
        assert (np.array(gaps) < 1e-9).tolist() == [not a_lie, a_lie]
    assert figure.frame(rule="mda").readout.endswith("1.09 off, with the liars at 3.")
    assert "the median is 0.32 off" in figure.frame(rule="median").readout
    assert "MDA 0.00" in figure.frame(rule="mda", distance=3.5).title
    says({"1.19": 1.19, "1.09": 1.09, "0.32": 0.32})


def cell_16(says):
    fit = {"n": 15, "n_byzantine": 3}
    says({"7.8": theory.kappa_krum(**fit), "0.707": theory.kappa_mda(**fit), "2.35": theory.kappa_mda_sound(**fit)})
    with pytest.raises(ValueError, match="n_byzantine"):
        theory.kappa_bulyan(n=26, n_byzantine=6)
    assert theory.kappa_bulyan(n=27, n_byzantine=6) > 0


def cell_19(ratios, s, says):
    says({"0.48": ratios[0.0], "3.46": math.sqrt(12)})
    assert ratios[s] == pytest.approx(math.sqrt(12), abs=0.3)


def cell_23(says):
    figure = explorers.eta_map()
    assert "no batch" in figure.frame(epsilon=0.2, liars=3, rule="krum").title
    step = {"clip_norm": 2.0, "dimension": 79_510, "epsilon": 0.2, "delta": 1e-5, "v": 2.0}
    kappa = theory.kappa_mda(n=15, n_byzantine=3)
    small, large = (theory.proposition_2_bounds(kappa=kappa, q=m / 60_000, m=m, **step) for m in (25, 1000))
    says({"204": small.sharp, "1.37": large.sharp, "13.2": large.sufficient, "1.38": large.enough})
    six = theory.proposition_2_bounds(kappa=theory.kappa_mda(n=15, n_byzantine=6), q=1 / 60, m=1000, **step)
    says({"9.78": six.sharp})


def cell_29(says):
    figure = explorers.distances_under_noise()
    assert "picks an honest worker" in figure.frame(d=2, z=1.0).title
    assert "picks a liar, and MDA keeps 3 of the 3" in figure.frame(d=30_000, z=1.0).title
    honest = np.random.default_rng(0).normal(size=(12, 200_000))
    apart = ((attacks.empire(honest) - honest) ** 2).mean()  # to be 1 - 1/h + z^2
    says({"0.32": math.sqrt(apart - 1 + 1 / 12)}, within=0.02)
    says({"1.2583": theory.krum_threshold(n=15, n_byzantine=3), "1.0408": theory.mda_threshold(n=15, n_byzantine=3)})


def cell_31(says):
    case = {"clip_norm": 2.0, "q": 25 / 120_000, "m": 25, "epsilon": 0.2}
    printed = theory.theorem_1_noise(**case, delta=1e-5)
    enough = theory.worker_noise(**case, delta=1e-5)
    assert theory.one_step_delta(s=printed, **case) == pytest.approx(1.455e-5, abs=5e-9)
    says({"0.05862": printed, "0.06141": enough})


def cell_33(says, run, one, server):
    says({"0.838": one.epsilon, "3.461": server.epsilon})
    wanted, enough = one.epsilon, 2.7638
    less, more = (
        theory.server_guarantee(n_honest=12, **(run | {"sigma": factor * run["sigma"]})).epsilon
        for factor in (enough - 0.002, enough + 0.002)
    )
    assert less > wanted > more
    says({"2.76": enough, "80 %": enough / math.sqrt(12)})


def cell_35(accuracy, finished, says):
    assert accuracy["krum", "empire"] < 0.1 and accuracy["multi_krum", "empire"] > accuracy["average", "none"] - 0.1
    little = {rule: found for (rule, attack), found in accuracy.items() if attack == "little"}
    says({"34 %": little["multi_krum"], "44 %": little["average"], "59 %": little["bulyan_multi_krum"]}, within=0.06)
    says({"70 %": accuracy["average", "none"]}, within=0.03)
    assert little["multi_krum"] < little["average"] < little["bulyan_multi_krum"]
    assert finished.worker_guarantee.epsilon < finished.guarantee.epsilon < 1


def cell_39(says):
    rows = data.recorded("byzantine_figures")["cpu"]["rows"]
    runs = data.grouped([row for row in rows if row["epsilon"] == 0.2], "rule", "attack", "m")
    found = {key: np.mean([row["accuracy"] for row in some]) for key, some in runs.items()}
    says({"30 %": found["multi_krum", "little, minus", 50], "65 %": found["multi_krum", "little, minus", 1000]})
    says({"64 %": found["average", "none", 50], "76 %": found["average", "none", 1000]})
    says({"72 %": found["bulyan_multi_krum", "little, minus", 1000]}, within=0.006)
    for m in (50, 300, 1000):
        assert found["krum", "empire", m] < 0.105 and found["krum", "little, minus", m] < 0.35
        assert found["bulyan", "little, minus", m] < found["multi_krum", "little, minus", m]
        rest = {rule: found[rule, "little, minus", m] for rule in ("mda", "median", "multi_krum", "average")}
        assert max(rest, key=rest.get) == "average" and found["bulyan_multi_krum", "little, minus", m] > rest["average"]
    near = [found[rule, "empire", 300] for rule in ("average", "mda", "median", "multi_krum", "bulyan_multi_krum")]
    assert max(near) - min(near) < 0.04 and found["bulyan", "empire", 300] < min(near) - 0.05
    six = {(row["attack"], row["rule"]): row["accuracy"] for row in rows if (row["n_byzantine"], row["m"]) == (6, 1000)}
    assert len(six) == 10 and all(some < 0.4 for (attack, _), some in six.items() if attack == "little, minus")
    says({"66 %": six["empire", "mda"], "71 %": six["empire", "average"]})
    assert six["empire", "mda"] > max(six["empire", rule] for rule in ("median", "krum", "multi_krum"))
