"""The checks of the exercises of chapter 03, Amplification by subsampling: one name for each question.

items 1 to 4   amplification_bounds      the bound, where it helps, its worst case, why
items 5 to 7   amplification_settings    what the theorem covers, and what a step may cost
item 8         amplification_mechanism   a noisy count on a Poisson sample

A mechanism M that is epsilon-DP runs on a secret random sample that holds each record with probability q: Poisson
sampling under add/remove, or m of n records without replacement (q = m/n) under replace-one.
"""

from dpml.exercises.amplification_bounds import check_amplified, check_useful_q, check_why, check_worst_case
from dpml.exercises.amplification_mechanism import check_subsample_and_release
from dpml.exercises.amplification_settings import check_all_sampled, check_covered, check_step_epsilon

__all__ = [
    "check_all_sampled",
    "check_amplified",
    "check_covered",
    "check_step_epsilon",
    "check_subsample_and_release",
    "check_useful_q",
    "check_why",
    "check_worst_case",
]
