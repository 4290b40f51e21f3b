"""The checks of the exercises of chapter 08, The sparse vector technique: one name for each question.

items 1 to 3   sparse_vector_numbers     one comparison, the scale of M_svec, how many failures are affordable
items 4 and 6  sparse_vector_proofs      the two moves of the proof, what is true
items 5 and 7  sparse_vector_mechanism   AboveThreshold itself, and an output that gives a broken variant away

Queries have sensitivity 1 under the neighbouring relation of the data.
"""

from dpml.exercises.sparse_vector_mechanism import check_first_above, check_giveaway
from dpml.exercises.sparse_vector_numbers import check_affordable_failures, check_lam, check_probability_above
from dpml.exercises.sparse_vector_proofs import check_claims, check_moved

__all__ = [
    "check_affordable_failures",
    "check_claims",
    "check_first_above",
    "check_giveaway",
    "check_lam",
    "check_moved",
    "check_probability_above",
]
