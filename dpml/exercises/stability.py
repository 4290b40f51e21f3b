"""The checks of the exercises of chapter 07, Privacy by stability: one name for each question.

items 1 to 3   stability_numbers      the distance of a vote, the release curve, the exact delta
items 4 and 5  stability_mechanisms   what a sharp test tells, and M_stab itself
items 6 and 7  stability_numbers      how many models M_samp trains, and the number to which it adds noise
items 8 and 9  stability_proofs       what holds for M_samp, and why a bad event may be free

Neighbours differ in one vote, or one record, that is replaced. Ties go to the lowest label.
"""

from dpml.exercises.stability_mechanisms import check_sharp_test, check_stable_release
from dpml.exercises.stability_numbers import (
    check_distance,
    check_exact_delta,
    check_models_chernoff,
    check_models_printed,
    check_release_at_one,
    check_scaled,
)
from dpml.exercises.stability_proofs import check_coins, check_samp_claims

__all__ = [
    "check_coins",
    "check_distance",
    "check_exact_delta",
    "check_models_chernoff",
    "check_models_printed",
    "check_release_at_one",
    "check_samp_claims",
    "check_scaled",
    "check_sharp_test",
    "check_stable_release",
]
