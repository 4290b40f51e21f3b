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
private as DP-SGD at the same sigma. With propose-test-release `dpml.ptr.distribution` accounts for all steps without
conditions; F of the next step depends on the outcome of the test only, which is released with the step. Neighbours:
add/remove, Poisson samples.

Traps, each of them a test: F comes from the *expected* batch size (a quarter of the realised one moves the sum by 2R);
the order is that of unclipped norms (clipped ones tie up to rounding, and one record then reorders the rest); an empty
batch still draws both noises; where at least F gradients are longer than tau R the margin is 0 and the test passes
with probability delta0 only.

What moves F. Algorithm 2 raises F after a failed test and lowers it after a passed one, which settles; the text of
appendix B.1.3 says the opposite, which runs away: `upside_down_trim` keeps it for the chapter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from dpml import arguments
from dpml.accounting.guarantee import Guarantee
from dpml.ptr import distribution, theorem_4_4
from dpml.training import weights
from dpml.training._ready import LossFunction
from dpml.training.loop import Corrupt, train
from dpml.training.rules import Decision, LogicalBatchRule, State
from dpml.training.sampling import Poisson, Sampler, sampler
from dpml.training.trace import Run

__all__ = [
    "Claim",
    "next_trim",
    "paper_claim",
    "testing_rule",
    "trimming_rule",
    "tsgd",
    "tsgd_ptr",
    "upside_down_trim",
]

Pair = tuple[torch.Tensor, torch.Tensor]
NextTrim = Callable[..., torch.Tensor]


def next_trim(trim: torch.Tensor, *, passed: torch.Tensor, change: int, most: int) -> torch.Tensor:
    """Return the F of the next step: `change` less after a passed test, `change` more after a failed one, in [0, most].

    All are tensors without dimensions on one device (`change` and `most` are integers); nothing waits for it.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Algorithm 2 and Remark 5.3.
    """
    return (trim + torch.where(passed, -change, change)).clamp(0, most)


def upside_down_trim(trim: torch.Tensor, *, passed: torch.Tensor, change: int, most: int) -> torch.Tensor:
    """Return the F of the next step by the rule of the appendix: `change` *more* after a passed test. It runs away.

    Failing lowers F, which makes the next test fail: F falls to 0, and the test never passes again; or F rises until
    everything is trimmed. The privacy is that of `next_trim`.

    Source: the PTR paper (Wang et al., NeurIPS 2022), appendix B.1.3.
    Printed: "If sensitivity test is passed, we increase F by 0.02 x batchsize, and if sensitivity test is failed, we
        decrease F by the same amount."
    Implemented: so here; `next_trim` is the rule of Algorithm 2 and Remark 5.3, which is the opposite.
    """
    return (trim + torch.where(passed, change, -change)).clamp(0, most)


def trimming_rule(*, sigma: float, clip_norm: float, trim: int) -> LogicalBatchRule:
    """Return the rule of trimmed SGD with Gaussian noise, for `dpml.training.rules.weighted_sum`.

    Raises:
        ValueError: if sigma is not in [0, inf), clip_norm not in (0, inf), or trim not an integer >= 0.

    Source: the PTR paper (Wang et al., NeurIPS 2022), section 6, "TSGD + Gaussian".
    """
    sigma = arguments.real("sigma", sigma, 0.0)
    clip_norm = arguments.real("clip_norm", clip_norm, 0.0, low_open=True)
    trim = arguments.integer("trim", trim, 0)

    def decide(norms: torch.Tensor, *, ids: torch.Tensor, state: State, generator: torch.Generator) -> Decision:
        keep = weights.keep_smallest(norms, trim=trim, ids=ids)
        left = (~keep).sum() / max(1, len(norms))
        return Decision(weights.clip(norms, clip_norm=clip_norm) * keep, sigma * clip_norm, state, {"trimmed": left})

    return LogicalBatchRule(decide)


def testing_rule(
    *,
    sigma: float,
    clip_norm: float,
    tau: float,
    scale: float,
    delta0: float,
    trim: int,
    change: int,
    most: int,
    rule: NextTrim | None = None,
) -> LogicalBatchRule:
    """Return the rule of trimmed SGD with propose-test-release, for `dpml.training.rules.weighted_sum`.

    Its state holds "trim", the F of the next step, in [0, most]; `rule` moves it (None: `next_trim`).

    Raises:
        ValueError: if sigma is not in [0.04, 1e4], clip_norm not in (0, inf), tau not in (0, 1), scale not in
            [0.01, 1e6], delta0 not in (0, 1/2), or trim, change or most not an integer >= 0, trim at most `most`.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Algorithm 3.
    """
    sigma = arguments.real("sigma", sigma, 0.04, 1e4)
    clip_norm = arguments.real("clip_norm", clip_norm, 0.0, low_open=True)
    bound = _tau(tau) * clip_norm
    scale = arguments.real("scale", scale, 0.01, 1e6)
    level = scale * math.log(1.0 / (2.0 * _delta0(delta0)))
    change, most = arguments.integer("change", change, 0), arguments.integer("most", most, 0)
    trim = arguments.integer("trim", trim, 0, most)
    move = next_trim if rule is None else rule

    def decide(norms: torch.Tensor, *, ids: torch.Tensor, state: State, generator: torch.Generator) -> Decision:
        now = state["trim"].to(norms.device)
        margin = (now - (norms > bound).sum()).clamp(min=0)
        coin = torch.rand((), generator=generator, device=norms.device, dtype=torch.float64) - 0.5
        noisy = margin - scale * coin.sign() * torch.log1p(-2.0 * coin.abs())
        passed = noisy > level
        keep = weights.keep_smallest(norms, trim=now, ids=ids) | ~passed
        left = (~keep).sum() / max(1, len(norms))
        seen = {"passed": passed, "trim": now, "trimmed": left, "margin": margin}
        return Decision(
            weights.clip(norms, clip_norm=clip_norm) * keep,
            torch.where(passed, sigma * bound, sigma * clip_norm),
            {"trim": move(now, passed=passed, change=change, most=most)},
            {name: value.to(torch.float64) for name, value in seen.items()},
        )

    return LogicalBatchRule(decide, {"trim": torch.tensor(trim)})


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

    Source: the PTR paper (Wang et al., NeurIPS 2022), section 6, "TSGD + Gaussian".
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

    Source: the PTR paper (Wang et al., NeurIPS 2022), Algorithms 2 and 3; the accountant is `dpml.ptr.distribution`.
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
        curve = distribution.epsilon_curve(**spends, steps=list(counts), delta=delta)
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


class Claim(NamedTuple):
    """What the paper's formula gives for a run: a number, the order that gave it, and the condition that it breaks.

    `broken` is None where Theorem 4.4 may be used at this order; otherwise epsilon is no guarantee.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.4.
    """

    epsilon: float
    order: float
    broken: str | None


def paper_claim(*, q: float, sigma: float, tau: float, scale: float, delta0: float, steps: int, delta: float) -> Claim:
    """Return what Theorem 4.4's formula would claim for `steps` steps, whether or not its conditions hold.

    Integer orders 2 to 200 as in the paper, with the improved conversion. For the trace of an experiment, beside the
    guarantee; never to be quoted where `broken` says something.

    Raises:
        ValueError: if q is not in (0, 1), sigma not in (0, inf), tau not in (0, 1], scale not in [0.01, 1e6], delta0
            not in (0, 1/2], steps not an integer >= 1 or delta not in (0, 1).

    Source: the PTR paper (Wang et al., NeurIPS 2022), Theorem 4.4 and section 6; Canonne, Kamath and Steinke 2020.
    """
    from dpml.accounting.rdp import conversion_improved

    steps = arguments.integer("steps", steps, 1)
    delta = arguments.real("delta", delta, 0.0, 1.0, low_open=True, high_open=True)
    given = {"q": arguments.real("q", q, 0.0, 1.0, low_open=True, high_open=True), "sigma": sigma, "tau": tau}
    orders = np.arange(2.0, min(200.0, 1e6 * scale) + 1.0)
    curve = theorem_4_4.theorem_4_4_formula(orders, **given, scale=scale, delta0=delta0)
    epsilons = np.atleast_1d(conversion_improved(orders, rdp=steps * curve, delta=delta))
    best = int(np.argmin(epsilons))
    try:
        theorem_4_4.theorem_4_4(float(orders[best]), **given, scale=scale, delta0=delta0)
        broken = None
    except ValueError as error:
        broken = str(error)
    return Claim(float(epsilons[best]), float(orders[best]), broken)


def _tau(tau: float) -> float:
    try:
        return arguments.real("tau", tau, 0.0, 1.0, low_open=True, high_open=True)
    except ValueError as error:
        more = (
            "it is in units of the clip norm, and from 1 on the proposal is the global sensitivity, which needs no test"
        )
        raise ValueError(f"{error}: {more}") from None


def _delta0(delta0: float) -> float:
    try:
        return arguments.real("delta0", delta0, 0.0, 0.5, low_open=True, high_open=True)
    except ValueError as error:
        raise ValueError(f"{error}: it is the probability that the test passes at margin 0") from None


def _trim(name: str, trim: int, drawn: Any, x: Any) -> int:
    size = len(x) if isinstance(x, torch.Tensor) and x.dim() > 0 else 0
    if size == 0:
        return arguments.integer(name, trim, 0)  # the loop refuses x
    most = math.floor(drawn.expected(size))
    try:
        return arguments.integer(name, trim, 0, most)
    except ValueError as error:
        raise ValueError(f"{error}: it must be fixed before the batch is seen, from its expected size {most}") from None
