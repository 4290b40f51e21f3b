"""The numbers of chapter 14."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from dpml import mechanisms
from dpml.audit import samples
from dpml.lessons.audit import explorers


def cell_05(by_hand, package):
    assert by_hand == pytest.approx(package.epsilon_at_least, rel=1e-9) and 0.8 < by_hand < 1.0


def cell_08(false_alarms):
    assert false_alarms["other runs"] <= 5 < 8 <= false_alarms["same runs"]


def cell_10(event, form, losses_known, exact):
    assert event < losses_known < exact and event < form <= exact
    assert exact == pytest.approx(mechanisms.gaussian_epsilon(sigma=1.0, delta=1e-5))
    assert event > 0.45 * exact and form > 0.9 * exact


def cell_12(says):
    titles = [explorers.evidence_and_runs().frame(runs=runs).readout for runs in (100, 10_000, 1_000_000)]
    shares = [float(title.split("reaches ")[1].split("%")[0]) for title in titles]
    assert shares == sorted(shares) and shares[0] < 30 < 45 < shares[1] and shares[2] < 80
    says({"12": shares[0], "77": shares[2]})


def cell_15(says):
    figure = explorers.canary_scores()
    bounds = {share: figure.frame(share=share).beside[-1].y[0] for share in figure.controls[0].values}
    assert bounds[0.1] > bounds[1.0] and bounds[0.1] > bounds[0.02]
    says({"1.72": bounds[0.1], "0.60": bounds[1.0], "0.92": bounds[0.02]})
    assert max(figure.frame(share=share, canaries="10000").beside[-1].y[0] for share in bounds) < 2.5


def cell_17(audited):
    assert audited.run.guarantee.epsilon == pytest.approx(4.0, abs=1e-3)
    assert 1.2 < audited.evidence.epsilon_at_least < 4.0


def cell_34(many):
    assert many.guarantee.epsilon == pytest.approx(4.0, abs=1e-3)
    assert 0.4 < many.evidence.epsilon_at_least < 1.2


def cell_19(advantages, private, says):
    bound = (math.expm1(private.epsilon) + 2e-5) / (math.exp(private.epsilon) + 1)
    assert max(advantages["private", kind] for kind in ("loss", "ratio")) < 0.15 < bound
    assert min(advantages["plain", kind] for kind in ("loss", "ratio")) > 0.15
    assert advantages["plain", "ratio"] > advantages["plain", "loss"]
    says({"0.68": bound})


def cell_23(says):
    sigma = mechanisms.gaussian_sigma(epsilon=1.0, delta=0.1)
    assert "leaves" in explorers.attack_and_region().frame().title
    says({"0.38": 2 * ndtr(0.5) - 1, "0.52": (math.expm1(1) + 0.2) / (math.e + 1), "1.09": sigma})


def cell_25(errors):
    assert errors["as it is"] < 1e-4 and errors["clipped"] < 1e-4
    assert errors["clipped, σ = 0.01"] > 0.7 > 5 * errors["clipped, σ = 0.001"] > 0.01
    assert mechanisms.gaussian_epsilon(sigma=0.01, delta=1e-5) > 2000


def cell_27(rows):
    refuted = [name for name, claim, least in rows if least > claim]
    assert len(rows) == 6 and len(refuted) == 5 and "DP-SGD" not in refuted


def cell_36(ledger, sound, shares, says):
    assert len(ledger) - len(sound) == 14 and min(shares) > 0.3 and max(shares) < 1.0
    runs = {line["mechanism"].split(".")[-1]: line["runs"] for line in ledger if line["broken"]}
    assert min(runs.values()) == 1000 and max(runs, key=runs.get) == "theorem_1_noise"
    says({"16": runs["theorem_1_noise"] / 1e6, "128,000": runs["no_threshold_noise"]})


def cell_29(possible_0, possible_1):
    assert possible_0.all() and abs(possible_1.mean() - 0.2) < 0.05


def cell_31(tosses, says):
    assert abs(np.mean(tosses) - math.exp(-2 / 3)) < 0.02
    limit = float(samples.upper_limit(0, trials=10_000, alarm=0.025))
    says({"7.9": math.log((1 - limit) / limit)})
