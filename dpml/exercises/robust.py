"""The checks of the exercises of chapter 11, private and robust SGD: one name for each question.

items 1, 2 and 4      robust_steps       the F that a test needs, the weights of a step, the next F
item 3                robust_mechanism   the noisy trimmed sum
items 5 and 8         robust_numbers     equal privacy, and an argument
items 6 and 7         robust_training    a setting whose test passes, and an attack; both train

Neighbouring datasets differ by one example (add/remove).
"""

from dpml.exercises.robust_mechanism import check_noisy_total
from dpml.exercises.robust_numbers import check_matched, check_share
from dpml.exercises.robust_steps import check_least_trim, check_next_trim, check_step_weights
from dpml.exercises.robust_training import check_attack, check_setting

__all__ = [
    "check_attack",
    "check_least_trim",
    "check_matched",
    "check_next_trim",
    "check_noisy_total",
    "check_setting",
    "check_share",
    "check_step_weights",
]
