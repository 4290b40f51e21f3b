r"""Private trimmed SGD: leave out the longest gradients, with or without propose-test-release.

A step draws a Poisson sample, clips each gradient to the norm R (`clip_norm`) and orders the examples by their norms
*before* clipping, ties by the example's number. With F (`trim`) fixed before the batch is seen,

.. math::

    \text{SUM} = \sum_{i} \bar g_i, \qquad
    \text{TSUM}_F = \sum_{\text{all but the } F \text{ longest}} \bar g_i, \qquad
    \Delta = \max\bigl(0,\ F - \#\{i : \|g_i\| > \tau R\}\bigr).

| mechanism | released |
|---|---|
| trimmed SGD with Gaussian noise | $\text{TSUM}_F + N(0, \sigma^2 R^2 I)$ |
| the same with propose-test-release, test passed | $\text{TSUM}_F + N(0, \sigma^2 \tau^2 R^2 I)$ |
| test failed | $\text{SUM} + N(0, \sigma^2 R^2 I)$ |

The test passes if $\Delta + \mathrm{Lap}(b) > b \log(1/(2\delta_0))$. Delta is the number of records by which the batch
may change before the local sensitivity exceeds tau R (`dpml.ptr.trimmed_sum`): a count, of sensitivity 1, so that the
whole rule needs the norms and one weighted sum, as DP-SGD does.

Privacy. Adding or removing an example moves SUM and TSUM by at most R, so trimmed SGD with Gaussian noise is exactly as
private as DP-SGD at the same sigma. With propose-test-release `dpml.ptr.privacy` accounts for all steps without
conditions; F of the next step depends on the outcome of the test only, which is released with the step. Neighbours:
add/remove, Poisson samples.

Traps, each of them a test: F comes from the *expected* batch size (a quarter of the realised one moves the sum by 2R);
the order is that of unclipped norms (clipped ones tie up to rounding, and one record then reorders the rest); an empty
batch still draws both noises; where at least F gradients are longer than tau R the margin is 0 and the test passes
with probability delta0 only.

The rules themselves, and what moves F, are in `dpml.training.trimming`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from dpml import arguments
from dpml.accounting.guarantee import Guarantee
from dpml.ptr import privacy
from dpml.training._ready import LossFunction
from dpml.training.loop import Corrupt, train
from dpml.training.sampling import Poisson, Sampler, sampler
from dpml.training.trace import Run
from dpml.training.trimming import NextTrim, next_trim, testing_rule, trimming_rule

__all__ = ["tsgd", "tsgd_ptr"]

Pair = tuple[torch.Tensor, torch.Tensor]


def tsgd(
    model: torch.nn.Module,
    loss_fn: LossFunction,
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    sampling: Sampler,
    sigma: float,
    clip_norm: float,
    trim: int,
    steps: int,
    optimizer: torch.optim.Optimizer,
    delta: float,
    generator: torch.Generator,
    expected_batch: float | None = None,
    micro_batch: int | None = None,
    trace_every: int | None = None,
    test: Pair | None = None,
    checkpoint: str | Path | None = None,
    corrupt: Corrupt | None = None,
) -> Run:
    """Train `model` in place by trimmed SGD with Gaussian noise, and return it with its trace and its guarantee.

    `trim` gradients are left out in every step, the longest ones; it must have been chosen without looking at the data,
    and is at most the expected batch size. The other arguments, and the neighbours, are those of
    `dpml.training.dpsgd.dp_sgd`, and so is the guarantee.

    Raises:
        ValueError: as `dp_sgd`; if trim is not an integer in [0, expected batch size].
        Interrupted: as `dp_sgd`.
        Diverged: as `dp_sgd`.

    Source: the PTR paper (Wang et al., NeurIPS 2022), section 5.1, "TSGD + Gaussian".
    """
    drawn = sampler("sampling", sampling)
    trim = _trim("trim", trim, drawn, x)

    def account(counts: Sequence[int]) -> list[Guarantee]:
        found: list[Guarantee] = drawn.guarantees(counts, n=len(x), sigma=sigma, delta=delta)
        return found

    settings = {"sigma": sigma, "clip norm": clip_norm, "trim": trim, "delta": delta}
    return train(
        model,
        loss_fn,
        x,
        y,
        rule=trimming_rule(sigma=sigma, clip_norm=clip_norm, trim=trim),
        account=account,
        settings={"mechanism": "tsgd", **settings},
        sampling=sampling,
        steps=steps,
        optimizer=optimizer,
        generator=generator,
        expected_batch=expected_batch,
        micro_batch=micro_batch,
        trace_every=trace_every,
        test=test,
        checkpoint=checkpoint,
        corrupt=corrupt,
    )


def tsgd_ptr(
    model: torch.nn.Module,
    loss_fn: LossFunction,
    x: torch.Tensor,
    y: torch.Tensor,
    *,
    sampling: Poisson,
    sigma: float,
    clip_norm: float,
    tau: float,
    scale: float,
    delta0: float,
    trim: int,
    change: int | None = None,
    rule: NextTrim | None = None,
    steps: int,
    optimizer: torch.optim.Optimizer,
    delta: float,
    generator: torch.Generator,
    expected_batch: float | None = None,
    micro_batch: int | None = None,
    trace_every: int | None = None,
    test: Pair | None = None,
    checkpoint: str | Path | None = None,
    corrupt: Corrupt | None = None,
) -> Run:
    """Train `model` in place by trimmed SGD with propose-test-release; return it with its trace and its guarantee.

    `tau` is the proposed sensitivity in units of `clip_norm`, `scale` the Laplace scale of the test, `delta0` the
    probability that it passes at margin 0. `trim` is the first F, and F moves by `change` after each step (None: 2 % of
    the expected batch size, at least 1) as `rule` says. The other arguments are those of `dpml.training.dpsgd.dp_sgd`.
    The trace's `other` adds means over the steps between its points: "passed" (the fraction of passed tests), "trim"
    (F), "trimmed" (the fraction of each batch that was left out), "margin".

    Raises:
        ValueError: as `dp_sgd`; if sampling is not `Poisson`, for which alone the steps can be accounted; if sigma is
            not in [0.04, 1e4], tau not in (0, 1), scale not in [0.01, 1e6], delta0 not in (0, 1/2), trim not an integer
            in [0, expected batch size], or change not an integer >= 0.
        Interrupted: as `dp_sgd`.
        Diverged: as `dp_sgd`.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Algorithms 2 and 3; the accountant is `dpml.ptr.privacy`.
    """
    if not isinstance(sampling, Poisson):
        raise ValueError(f"sampling must be Poisson: no bound for other samples is known, got {sampling!r}")
    first = _trim("trim", trim, sampling, x)
    most = math.floor(sampling.expected(len(x)))
    change = max(1, round(0.02 * most)) if change is None else change
    ptr = testing_rule(
        sigma=sigma,
        clip_norm=clip_norm,
        tau=tau,
        scale=scale,
        delta0=delta0,
        trim=first,
        change=change,
        most=most,
        rule=rule,
    )
    spends = {"q": sampling.q, "sigma": sigma, "tau": tau, "scale": scale, "delta0": delta0}

    def account(counts: Sequence[int]) -> list[Guarantee]:
        curve = privacy.epsilon_curve(**spends, steps=list(counts), delta=delta)
        return [
            Guarantee(float(value), delta=delta, kind="upper bound", adjacency="add/remove", sampling="Poisson")
            for value in curve
        ]

    settings = {
        **spends,
        "clip norm": clip_norm,
        "trim": first,
        "change": change,
        "rule": (rule or next_trim).__name__,
        "delta": delta,
    }
    return train(
        model,
        loss_fn,
        x,
        y,
        rule=ptr,
        account=account,
        settings={"mechanism": "tsgd_ptr", **settings},
        sampling=sampling,
        steps=steps,
        optimizer=optimizer,
        generator=generator,
        expected_batch=expected_batch,
        micro_batch=micro_batch,
        trace_every=trace_every,
        test=test,
        checkpoint=checkpoint,
        corrupt=corrupt,
    )


def _trim(name: str, trim: int, drawn: Any, x: Any) -> int:
    size = len(x) if isinstance(x, torch.Tensor) and x.dim() > 0 else 0
    if size == 0:
        return arguments.integer(name, trim, 0)  # the loop refuses x
    most = math.floor(drawn.expected(size))
    try:
        return arguments.integer(name, trim, 0, most)
    except ValueError as error:
        raise ValueError(f"{error}: it must be fixed before the batch is seen, from its expected size {most}") from None
