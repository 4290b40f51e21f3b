"""The checks of the exercises of chapter 10, Propose-test-release: one name for each question.

items 1, 5, 8 and 9   ptr_numbers    the classic formula, where Theorem 4.4 fails, a run's epsilon, the matching noise
items 2 to 4          ptr_formulas   Laplace noise, Theorem 4.3, the exact moment on a sample
items 6 and 7         ptr_sums       the margin as a count, a trimmed sum that one record cannot upset
item 10               ptr_release    the mechanism
item 11               ptr_proofs     why the margin moves by at most 1

Neighbours: add/remove.
"""

from dpml.exercises.ptr_formulas import check_laplace_rdp, check_ptr_rdp, check_sampled_log_moment
from dpml.exercises.ptr_numbers import (
    check_epsilon_moved,
    check_first_false_order,
    check_matched_sigma,
    check_unsound_below,
)
from dpml.exercises.ptr_proofs import check_why_one
from dpml.exercises.ptr_release import check_release
from dpml.exercises.ptr_sums import check_margin, check_total

__all__ = [
    "check_epsilon_moved",
    "check_first_false_order",
    "check_laplace_rdp",
    "check_margin",
    "check_matched_sigma",
    "check_ptr_rdp",
    "check_release",
    "check_sampled_log_moment",
    "check_total",
    "check_unsound_below",
    "check_why_one",
]
