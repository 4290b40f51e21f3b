"""The checks of the exercises of chapter 06, PATE: one name for each question.

items 1 to 4    pate_votes        the loser's chance, the loss of the printed noise, a worse case, the right noise
items 5 and 6   pate_mechanisms   a private label, and one that may be withheld
items 7 to 10   pate_student      how many labels, the moment of these votes, what may be told, why

Neighbours differ in one replaced record, which moves one vote of each question. Noise is in votes.
"""

from dpml.exercises.pate_mechanisms import check_confident_label, check_release_label
from dpml.exercises.pate_student import check_how_many, check_moment, check_told, check_why_private
from dpml.exercises.pate_votes import check_loss, check_noise_scale, check_upset, check_worse_votes

__all__ = [
    "check_confident_label",
    "check_how_many",
    "check_loss",
    "check_moment",
    "check_noise_scale",
    "check_release_label",
    "check_told",
    "check_upset",
    "check_why_private",
    "check_worse_votes",
]
