r"""Why Rényi bounds suit propose-test-release: the paper's motivating example, and what there is to say against it.

A mechanism picks, independently of the data and in public, the first of two mechanisms with probability $1-\delta_0$
and the second, which protects less, with probability $\delta_0$. Their moments average:

.. math::

    e^{(a-1) R(a)} = (1-\delta_0)\, e^{(a-1) R_1(a)} + \delta_0\, e^{(a-1) R_2(a)} ,

with equality if one pair of neighbours attains both. From (epsilon, delta) alone one may conclude
$(\max(\varepsilon_1, \varepsilon_2),\ (1-\delta_0)\delta_1 + \delta_0\delta_2)$ or, giving up the second mechanism,
$(\varepsilon_1,\ (1-\delta_0)\delta_1 + \delta_0)$.

The example is case 1 of propose-test-release. At large orders the rare term grows like $e^{a^2}$ and takes over however
small delta0 is: then it is the Rényi bound that should give the rare branch up
(`dpml.ptr.renyi.epsilon_by_rdp_branch_in_delta`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpml import arguments
from dpml.accounting.guarantee import Guarantee
from dpml.ptr._checked import branch
from dpml.ptr._moments import mixed_log

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["DirectChoice", "random_choice_direct", "random_choice_rdp"]


class DirectChoice(NamedTuple):
    """Two guarantees of a random choice: both mechanisms kept, or the rare one given up to delta.

    Source: the PTR paper (Wang et al., NeurIPS 2022), section 4.2.
    """

    both_kept: Guarantee
    rare_given_up: Guarantee


def random_choice_direct(
    *, epsilon: float, delta: float, epsilon_other: float, delta_other: float, delta0: float
) -> DirectChoice:
    """Return what the (epsilon, delta) of two mechanisms say of a public random choice between them.

    The other mechanism, with `epsilon_other` and `delta_other`, runs with probability delta0. Neighbours: those of
    the mechanisms.

    Raises:
        ValueError: if epsilon or epsilon_other is not in [0, inf), delta or delta_other not in [0, 1], or delta0 not in
            (0, 1/2].

    Source: the PTR paper (Wang et al., NeurIPS 2022), section 4.2, motivating example (which has delta0 + delta where
    (1 - delta0) delta + delta0 will do).
    """
    epsilon = arguments.real("epsilon", epsilon, 0.0)
    delta = arguments.probability("delta", delta)
    epsilon_other = arguments.real("epsilon_other", epsilon_other, 0.0)
    delta_other = arguments.probability("delta_other", delta_other)
    delta0 = branch("delta0", delta0)
    first = (1.0 - delta0) * delta
    return DirectChoice(
        _bound(max(epsilon, epsilon_other), first + delta0 * delta_other), _bound(epsilon, first + delta0)
    )


def random_choice_rdp(order: ArrayLike, *, rdp: ArrayLike, rdp_other: ArrayLike, delta0: float) -> NDArray[np.float64]:
    """Return the Rényi divergence of a public random choice between mechanisms with divergences rdp and rdp_other.

    The other one runs with probability delta0. `order`, `rdp` and `rdp_other` broadcast.

    Raises:
        ValueError: if an order is not in (1, inf), an rdp or rdp_other not in [0, inf), delta0 not in (0, 1/2], the
            shapes do not broadcast, or an exponent exceeds the range of floats.

    Source: the PTR paper (Wang et al., NeurIPS 2022), section 4.2, motivating example.
    """
    a = arguments.array("order", order, low=1.0, low_open=True)
    usual, rare = arguments.array("rdp", rdp, low=0.0), arguments.array("rdp_other", rdp_other, low=0.0)
    delta0 = branch("delta0", delta0)
    try:
        a, usual, rare = np.broadcast_arrays(a, usual, rare)
    except ValueError:
        raise ValueError(f"rdp must broadcast with order of shape {a.shape}, got shape {usual.shape}") from None
    with np.errstate(over="ignore"):
        exponents = (a - 1.0) * usual, (a - 1.0) * rare
    if not (np.isfinite(exponents[0]).all() and np.isfinite(exponents[1]).all()):
        raise ValueError("order must keep (order - 1) rdp within the range of floats, got one that does not")
    return np.asarray(mixed_log(*exponents, delta0) / (a - 1.0))[()]


def _bound(epsilon: float, delta: float) -> Guarantee:
    return Guarantee(epsilon, delta=min(delta, 1.0), kind="upper bound", adjacency="as the mechanism's")
