"""What rows must keep, whoever made them."""

import math

import pytest

from dpml.accounting import composition
from dpml.pate import student
from experiments.pate_fashion import DELTA

# By the functions that state guarantees: what k answers of each mechanism cost, from the noise that a row records.
SPENT = {
    "noisy argmax": lambda k, scale: student.laplace_student(queries=k, scale=scale, delta=DELTA),
    "GNMax": lambda k, sigma: student.gnmax_student(queries=k, sigma=sigma, delta=DELTA),
    "confident GNMax": lambda k, threshold, **noise: student.confident_student(
        asked=2 * k, answered=k, **noise, delta=DELTA
    ),
    "M_stab": lambda k, epsilon, delta: composition.optimal(epsilon=epsilon, delta=delta / 2, k=k, total_delta=DELTA),
}


def m_samp_keeps_its_predictions(result):
    """Every measured rate is within 6 standard deviations of the predicted one, with one draw and with many."""
    for row in result["rows"]:
        sd = row["standard_deviation"]
        assert abs(row["measured_release_rate"] - row["predicted_release_rate"]) <= 6 * sd
        many = abs(row["measured_over_all_noise_draws"] - row["predicted_release_rate"])
        assert many <= 6 * sd / math.sqrt(result["noise_draws"])
        expected = row["release_rate_expected_from_the_seed_before"]
        if expected is not None:
            assert row["predicted_release_rate"] == pytest.approx(expected, abs=0.02)
        assert not row["failed_for_overuse"]
