"""What rows must keep, whoever made them."""

import math

import pytest


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
