r"""Privacy by stability: release an exact answer where no one person could have changed it.

Noise can go into the answer, or into the decision whether to answer. The second is for answers that are the same on
all datasets nearby: `m_stab` measures how far the data are from another answer, adds noise to that distance, and
releases the answer itself if the noisy distance is large. `m_samp` makes any function stable, at a price, by asking it
about many random parts of the data.

| step | function |
|---|---|
| how many records can change without changing the answer | `distance_to_instability`, `distance_by_brute_force` |
| does the answer survive on a random part of the data | `subsampling_stability` |
| release or fail | `m_stab` for votes, `stability_test` for any function |
| the exact probability of a release | `release_probability`, `fail_probability` |
| how many models M_samp trains | `sampling_plan`, `sampling_plan_chernoff`, `overuse_probability` |
| ask many models, release or fail | `m_samp`; `subsample_votes`, `scaled_distance`, `m_samp_release_probability` |
| what it costs | `m_stab_privacy`, `m_samp_privacy` |

Both are $(\varepsilon, \delta/2)$-differentially private, under replace-one, for each answer and each
"fail". Definitions, theorems and proofs: `dpml.pate.instability`, `dpml.pate.exact_release`, `dpml.pate.sampling_plan`
and `dpml.pate.subsample_aggregate`.
"""

from dpml.pate import exact_release
from dpml.pate.exact_release import (
    distance_needed,
    fail_probability,
    m_stab,
    m_stab_privacy,
    release_probability,
    stability_test,
    stability_threshold,
)
from dpml.pate.instability import distance_by_brute_force, distance_to_instability, subsampling_stability
from dpml.pate.sampling_plan import SamplingPlan, overuse_probability, sampling_plan, sampling_plan_chernoff
from dpml.pate.subsample_aggregate import (
    SubsampleVotes,
    m_samp,
    m_samp_privacy,
    m_samp_release_probability,
    scaled_distance,
    subsample_votes,
)

FAIL = exact_release.FAIL
"""What takes the place of a label where a mechanism fails: -1."""

__all__ = [
    "FAIL",
    "SamplingPlan",
    "SubsampleVotes",
    "distance_by_brute_force",
    "distance_needed",
    "distance_to_instability",
    "fail_probability",
    "m_samp",
    "m_samp_privacy",
    "m_samp_release_probability",
    "m_stab",
    "m_stab_privacy",
    "overuse_probability",
    "release_probability",
    "sampling_plan",
    "sampling_plan_chernoff",
    "scaled_distance",
    "stability_test",
    "stability_threshold",
    "subsample_votes",
    "subsampling_stability",
]
