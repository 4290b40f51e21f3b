"""The checks of the exercises of chapter 05, DP-SGD: one name for each question.

items 1 and 2         dpsgd_gradients    clipping, and norms in closed form
items 3 and 7         dpsgd_numbers      where the noise ends up, and what the printed update costs
items 4, 8 and 9      dpsgd_proofs       a counterexample, what breaks single gradients, an argument
item 5                dpsgd_mechanisms   the noisy mean gradient
item 6                dpsgd_microbatches the noisy sum of micro-batches

Neighbouring datasets differ by one example (add/remove).
"""

from dpml.exercises.dpsgd_gradients import check_clip_rows, check_gradient_norms
from dpml.exercises.dpsgd_mechanisms import check_noisy_mean
from dpml.exercises.dpsgd_microbatches import check_noisy_sum
from dpml.exercises.dpsgd_numbers import check_printed_epsilon, check_update_noise
from dpml.exercises.dpsgd_proofs import check_divisor, check_mean_moves, check_sound

__all__ = [
    "check_clip_rows",
    "check_divisor",
    "check_gradient_norms",
    "check_mean_moves",
    "check_noisy_mean",
    "check_noisy_sum",
    "check_printed_epsilon",
    "check_sound",
    "check_update_noise",
]
