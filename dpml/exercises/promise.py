"""The checks of the exercises of chapter 01, What differential privacy promises: one name for each question.

items 1 to 3   promise_means      what a mean gives away, and how much noise hides it
items 4 and 5  promise_response   randomized response
items 6 and 9  promise_numbers    the exact Gaussian mechanism, and an audit
items 7 and 8  promise_proofs     a counterexample, and an argument

Neighbouring datasets differ in the value of one of n records (replace-one).
"""

from dpml.exercises.promise_means import check_mean_noise, check_mean_sensitivity, check_private_mean, check_recover
from dpml.exercises.promise_numbers import check_delta_of_classic, check_proved, check_refuted, check_sigma
from dpml.exercises.promise_proofs import check_counterexample, check_post_processing
from dpml.exercises.promise_response import check_estimate_share, check_randomized_response

__all__ = [
    "check_counterexample",
    "check_delta_of_classic",
    "check_estimate_share",
    "check_mean_noise",
    "check_mean_sensitivity",
    "check_post_processing",
    "check_private_mean",
    "check_proved",
    "check_randomized_response",
    "check_recover",
    "check_refuted",
    "check_sigma",
]
