"""The checks of the exercises of chapter 04, The moments accountant: one name for each question.

items 1 to 3       moments_numbers    a log-moment, epsilon from log-moments, a misplaced noise
items 4, 7 and 9   moments_proofs     the sharp factor of the conversion, what may be quoted, why log-moments add up
items 5 and 6      moments_programs   a log-moment that does not overflow, an accountant
item 8             moments_step       one private step

The step of DP-SGD is Gaussian noise of multiplier sigma on a Poisson sample, add/remove.
"""

from dpml.exercises.moments_numbers import check_alpha_32, check_epsilon_as_printed, check_moments_epsilon
from dpml.exercises.moments_programs import check_accountant, check_stable_log_moment
from dpml.exercises.moments_proofs import check_factor, check_quotable, check_why
from dpml.exercises.moments_step import check_private_step

__all__ = [
    "check_accountant",
    "check_alpha_32",
    "check_epsilon_as_printed",
    "check_factor",
    "check_moments_epsilon",
    "check_private_step",
    "check_quotable",
    "check_stable_log_moment",
    "check_why",
]
