"""What the labels of an ensemble cost: one query, then the student.

| question | functions | where it is proved |
|---|---|---|
| one noisy argmax, any votes | `laplace_vote_epsilon`, `laplace_vote_scale`, `laplace_moment` | `laplace_votes` |
| one noisy argmax, these votes | `laplace_upset_bound`, `laplace_moment_data_dependent` | `laplace_votes` |
| one GNMax, any votes | `gnmax_rdp` | `gaussian_votes` |
| one GNMax, these votes | `gnmax_upset_bound`, `gnmax_rdp_data_dependent` | `gaussian_votes` |
| one question to confident GNMax | `confident_rdp`, `confident_rdp_data_dependent` | `gaussian_votes` |
| the student, any votes | `laplace_student`, `gnmax_student`, `confident_student` | `student` |
| the student, these votes | the same with `_data_dependent` | `student_of_these_votes` |
| a number for these votes that may be told | `publish_gnmax_cost` | `smooth_release` |

Neighbours: one replaced record, which moves one vote in every query. Noise is in votes. For any votes the student has a
`Guarantee`; for these votes it has a `DataDependent`, which is private information itself.
"""

from dpml.pate.gaussian_votes import (
    confident_rdp,
    confident_rdp_data_dependent,
    gnmax_rdp,
    gnmax_rdp_data_dependent,
    gnmax_upset_bound,
)
from dpml.pate.laplace_votes import (
    laplace_moment,
    laplace_moment_data_dependent,
    laplace_upset_bound,
    laplace_vote_epsilon,
    laplace_vote_scale,
)
from dpml.pate.smooth_release import PublishedCost, publish_gnmax_cost
from dpml.pate.student import confident_student, gnmax_student, laplace_student
from dpml.pate.student_of_these_votes import (
    DataDependent,
    confident_student_data_dependent,
    gnmax_student_data_dependent,
    laplace_student_data_dependent,
)

__all__ = [
    "DataDependent",
    "PublishedCost",
    "confident_rdp",
    "confident_rdp_data_dependent",
    "confident_student",
    "confident_student_data_dependent",
    "gnmax_rdp",
    "gnmax_rdp_data_dependent",
    "gnmax_student",
    "gnmax_student_data_dependent",
    "gnmax_upset_bound",
    "laplace_moment",
    "laplace_moment_data_dependent",
    "laplace_student",
    "laplace_student_data_dependent",
    "laplace_upset_bound",
    "laplace_vote_epsilon",
    "laplace_vote_scale",
    "publish_gnmax_cost",
]
