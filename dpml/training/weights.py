r"""From the norms of the per-example gradients to the weights of their sum.

.. math::

    \text{clipping: } w_i = \min\Bigl(1, \frac{C}{\|g_i\|}\Bigr), \qquad
    \text{automatic: } w_i = \frac{C}{\|g_i\| + \gamma}, \qquad
    \text{trimming: the } F \text{ largest norms are dropped.}

With the first two each weighted gradient has norm at most the clip norm C and depends on its own example only. Adding
or removing an example (add/remove neighbours) then moves the sum by at most C, up to rounding of the order of 1e-7 C
in float32. Trimming looks at all norms: removing one example may bring another one in, so the sum moves by at most
the norm of one example where the count of dropped ones is fixed, and its noise needs the analysis of `dpml.ptr`.

All functions work on the device of the norms and wait for nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dpml import arguments
from dpml.training import _light

__all__ = ["automatic", "clip", "keep_smallest"]


def clip(norms: Tensor, *, clip_norm: float) -> Tensor:
    """Return min(1, clip_norm / norm) for each norm: 1 where an example is within the clip norm.

    An infinite norm gets weight 0, NaN stays NaN: the values are not looked at.

    Raises:
        ValueError: if norms is not a floating tensor [B], or clip_norm is not in (0, inf) or beyond the range of the
            norms' dtype.

    Source: M. Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1, "clip gradient".
    """
    bound = _checked("clip_norm", clip_norm, norms)
    return _normal(norms.clamp(min=bound).div_(bound).reciprocal_())


def automatic(norms: Tensor, *, clip_norm: float, stability: float) -> Tensor:
    """Return clip_norm / (norm + stability): every example is scaled to almost the clip norm, small ones less so.

    The direction of the sum does not depend on clip_norm, which leaves one parameter less to tune. Each weighted
    gradient is shorter than clip_norm.

    Raises:
        ValueError: if norms is not a floating tensor [B], or clip_norm or stability is not in (0, inf) or beyond the
            range of the norms' dtype.

    Source: Z. Bu, Y.-X. Wang, S. Zha and G. Karypis, "Automatic clipping: differentially private deep learning made
    easier and stronger", NeurIPS 2023, the variant AUTO-S, with stability 0.01.
    """
    bound = _checked("clip_norm", clip_norm, norms)
    return _normal(bound / (norms + _checked("stability", stability, norms)))


def keep_smallest(norms: Tensor, *, trim: int | Tensor, ids: Tensor) -> Tensor:
    """Return which examples stay when the `trim` ones of largest norm are dropped: booleans [B].

    `norms` are those before clipping. Equal norms are ordered by `ids`, the examples' numbers in the dataset, so that
    the choice does not depend on the order in the batch. All are dropped if trim >= B. `trim` may be a tensor
    without dimensions on the device of the norms; negative values then count as 0. NaN counts as the largest norm.

    Raises:
        ValueError: if norms is not a floating tensor [B], ids not an integer tensor [B] on the same device, or trim
            not an integer >= 0 (its value in a tensor is not looked at).

    Source: the PTR paper (Wang et al., NeurIPS 2022), Algorithm 3; the order as in `dpml.ptr.trimmed_sum`.
    """
    check_norms(norms)
    check_ids(ids, norms)
    if isinstance(trim, Tensor):
        if trim.dim() != 0 or trim.dtype not in _INTEGERS:
            raise ValueError(f"trim must be an integer >= 0 or an integer tensor without dimensions, got {_came(trim)}")
    else:
        trim = arguments.integer("trim", trim, 0)
    dropped = _light.clip(_light.number(trim.to(torch.int64)), 0, len(norms)) if isinstance(trim, Tensor) else trim
    everyone = torch.ones(len(norms), dtype=torch.bool, device=norms.device)
    return _light.drop_largest(everyone, _light.array(norms), ids=_light.array(ids), trim=dropped)


def check_ids(ids: Any, norms: Tensor) -> None:
    """Refuse names of examples that do not fit the norms.

    Raises:
        ValueError: if ids is not an integer tensor of the shape and on the device of norms.

    Source: definition.
    """
    good = isinstance(ids, Tensor) and ids.shape == norms.shape and ids.device == norms.device
    if not good or ids.dtype not in _INTEGERS:
        raise ValueError(
            f"ids must be an integer tensor of shape {tuple(norms.shape)} on {norms.device}, got {_came(ids)}"
        )


def _normal(weights: Tensor) -> Tensor:
    """Weights too small for full precision become 0: rounded up, they could let more than the clip norm through."""
    return torch.threshold(weights, torch.finfo(weights.dtype).tiny, 0.0)


_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def _came(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)} and {value.dtype} on {value.device}"
    return repr(value)[:60]


def check_norms(norms: Any) -> None:
    """Refuse what is not a row of norms.

    Raises:
        ValueError: if norms is not a floating tensor [B].

    Source: definition.
    """
    if not isinstance(norms, Tensor) or norms.dim() != 1 or not norms.is_floating_point():
        raise ValueError(f"norms must be a floating tensor with one dimension, got {_came(norms)}")


def _checked(name: str, value: Any, norms: Any) -> float:
    """Return a positive number that the dtype of the norms can hold; rounded to 0 or inf it would give NaN."""
    check_norms(norms)
    limits = torch.finfo(norms.dtype)
    if type(value) is float and limits.tiny <= value <= limits.max:
        return value  # in every step of a training run: the full check below costs as much as several layers' norms
    number = arguments.real(name, value, 0.0, low_open=True)
    if not limits.tiny <= number <= limits.max:
        raise ValueError(f"{name} must be in [{limits.tiny:.3g}, {limits.max:.3g}] for {norms.dtype}, got {number!r}")
    return number
