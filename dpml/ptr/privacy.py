r"""The privacy of propose-test-release: every theorem of the paper, and the exact accounts beside them.

Let $\sigma$ be the noise multiplier where the test fails, $\sigma\tau$ where it passes, b the Laplace scale of the
test and $\delta_0$ the probability that it passes by accident; everything in units of the global sensitivity. The two
worst cases are

.. math::

    \text{case 1: } N(1, \sigma^2) \text{ or, with probability } \delta_0,\ N(1, \sigma^2\tau^2), \qquad
    \text{case 2: } \mathrm{Lap}(1, b) \times N(1, \sigma^2) ,

each against the same around 0. All that follows is about these two.

| function | answers |
|---|---|
| `epsilon_bounds`, `epsilon`, `epsilon_curve`, `privacy_loss` | many steps on Poisson samples: tight, from both sides |
| `noise_multiplier`, `matching_gaussian_sigma` | sigma for a target; plain Gaussian noise of the same cost |
| `delta_cases`, `single_delta`, `single_epsilon` | one release, exactly |
| `exact_subsampled_rdp`, `exact_cases` | the exact Rényi divergence on a Poisson sample |
| `epsilon_by_rdp`, `epsilon_by_rdp_branch_in_delta` | many steps by Rényi divergences |
| `independent_pair_rdp` | two independent mechanisms on one sample |
| `theorem_4_2`, `theorem_4_3`, `theorem_4_4` | the paper's theorems, corrected, within their conditions |
| `theorem_4_2_printed`, `theorem_4_4_formula` | formulas, no guarantees: for the figures that refute them |
| `theorem_4_4_last_order` | where Theorem 4.4 may be used |
| `black_box_upper`, `black_box_lower` | Zhu and Wang's bounds for any mechanism |
| `random_choice_direct`, `random_choice_rdp` | the motivating example of section 4.2 |

Quote `epsilon`. The others are there to be compared with it.
"""

from dpml.ptr.accountant import epsilon_by_rdp, epsilon_by_rdp_branch_in_delta
from dpml.ptr.calibrate import matching_gaussian_sigma, noise_multiplier
from dpml.ptr.distribution import epsilon, epsilon_bounds, epsilon_curve, privacy_loss
from dpml.ptr.exact import Cases, exact_cases, exact_subsampled_rdp, independent_pair_rdp
from dpml.ptr.random_choice import DirectChoice, random_choice_direct, random_choice_rdp
from dpml.ptr.single_release import delta_cases, single_delta, single_epsilon
from dpml.ptr.theorem_4_4 import (
    black_box_lower,
    black_box_upper,
    theorem_4_4,
    theorem_4_4_formula,
    theorem_4_4_last_order,
)
from dpml.ptr.theorems import rdp_case_1, rdp_case_2, theorem_4_2, theorem_4_2_printed, theorem_4_3

__all__ = [
    "Cases",
    "DirectChoice",
    "black_box_lower",
    "black_box_upper",
    "delta_cases",
    "epsilon",
    "epsilon_bounds",
    "epsilon_by_rdp",
    "epsilon_by_rdp_branch_in_delta",
    "epsilon_curve",
    "exact_cases",
    "exact_subsampled_rdp",
    "independent_pair_rdp",
    "matching_gaussian_sigma",
    "noise_multiplier",
    "privacy_loss",
    "random_choice_direct",
    "random_choice_rdp",
    "rdp_case_1",
    "rdp_case_2",
    "single_delta",
    "single_epsilon",
    "theorem_4_2",
    "theorem_4_2_printed",
    "theorem_4_3",
    "theorem_4_4",
    "theorem_4_4_formula",
    "theorem_4_4_last_order",
]
