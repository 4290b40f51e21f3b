"""The recorded results of StoBatch: every row of the preset, epsilons that are right, and what page and chapter say."""

import numpy as np
import pytest

from dpml import data
from dpml.accounting import pld
from experiments import stobatch

PART = data.recorded("stobatch")["cpu"]
PRESET = stobatch.PRESETS["cpu"]
MEANS = {(one.set, one.method, one.budget, one.multiplier, one.noise): one for one in stobatch.summaries(PART["rows"])}
PRINTED, LOCAL, CENTRAL = (f"StoBatch, {name}" for name in ("as printed", "local", "central"))
BARE = MEANS["digits", "StoBatch, no noise", None, None, None]


def test_every_mean_is_over_five_seeds():
    assert "no epsilon covers that" in PART["chosen"]
    assert {one.seeds for one in MEANS.values()} == {5}
    shown = stobatch.tables(PART)[0][3]
    assert sum("none holds" in cell for line in shown for cell in line) == len(PRESET.claims["digits"])


def test_the_recorded_epsilons_are_right():
    seen = 0
    for (name, method, budget, multiplier, _), one in MEANS.items():
        if multiplier:
            sized = PRESET.sets[name]
            given = {"q": sized.q, "sigma": multiplier, "steps": sized.steps_private, "delta": stobatch.DELTA}
            assert one.epsilon == pytest.approx(pld.epsilon(**given).epsilon, rel=1e-6)
            seen += 1
        elif method == LOCAL:
            assert one.epsilon == pytest.approx(budget, rel=1e-12)
        else:
            assert one.epsilon is None
        assert (one.claimed is not None) == (method == PRINTED)
        assert method != PRINTED or one.claimed == pytest.approx(budget, rel=1e-9)
    assert seen >= 20


def test_the_bar_of_the_central_version_is_met():
    """Digits, epsilon 4.9, five seeds: accuracy, and certified accuracy at l2 0.25."""
    one = MEANS["digits", CENTRAL, None, 2.0, 0.5]
    assert one.epsilon < 5.34 and one.accuracy >= 0.92
    assert one.radii_l2[stobatch.RADII.index(0.25)] >= 0.78


def test_noise_that_all_examples_share_costs_little_and_fresh_noise_much():
    """The claim of 0.2 keeps the accuracy within 5 points of no noise at all, since its noise hides nothing.

    An epsilon of 20 that holds leaves less than 0.3.
    """
    for claim in PRESET.claims["digits"]:
        assert BARE.accuracy - MEANS["digits", PRINTED, claim, None, None].accuracy < 0.05
    assert MEANS["digits", LOCAL, 20.0, None, None].accuracy < 0.3
    assert MEANS["digits", LOCAL, 100.0, None, None].accuracy > 0.7


def test_certificates_of_laplace_noise_on_l_inf_are_tiny_and_the_sum_is_never_below():
    """None is left at a size of 0.02; smoothing at epsilon 4.9 keeps most there."""
    at = stobatch.SIZES_CERTIFIED.index(0.02)
    for one in MEANS.values():
        if one.printed is not None:
            assert all(sound <= by_sum for sound, by_sum in zip(one.certified, one.printed, strict=True))
            assert one.certified[at] == 0.0
    assert MEANS["digits", CENTRAL, None, 2.0, 0.5].certified[at] > 0.75
    assert sum(BARE.printed) > sum(BARE.certified) + 0.5


def test_more_privacy_costs_accuracy_and_certificates():
    """With noise 0.5; one seed may differ, means do not."""
    found = [MEANS["digits", CENTRAL, None, multiplier, 0.5] for multiplier in PRESET.multipliers["digits"]]
    for values in ([one.accuracy for one in found], [one.radii_l2[5] for one in found]):
        assert np.all(np.diff(values) < 0.01)


def test_what_training_on_adversarial_examples_buys():
    """At epsilon 4.9 under every attack of size 0.2 more than DP-SGD; PixelDP certifies less than smoothing."""
    ours, plain = MEANS["digits", CENTRAL, None, 2.0, 0.5], MEANS["digits", "DP-SGD", None, 2.0, None]
    at = stobatch.SIZES.index(0.2)
    assert all(ours.attacked[name][at] > plain.attacked[name][at] + 0.03 for name in stobatch.ATTACKS)
    by_pixeldp = MEANS["digits", "SecureSGD-AGM", None, 2.0, 0.5]
    size = stobatch.SIZES_CERTIFIED.index(0.02)
    assert by_pixeldp.certified[size] < ours.certified[size] - 0.2
