r"""Private trimmed SGD: leave out the longest gradients, with or without propose-test-release.

A step draws a Poisson sample, clips each gradient to the norm R (`clip_norm`) and orders the examples by their norms
*before* clipping, ties by the example's number. With F (`trim`) fixed before the batch is seen,

.. math::

    \text{SUM} = \sum_{i} \bar g_i, \qquad
    \text{TSUM}_F = \sum_{\text{all but the } F \text{ longest}} \bar g_i, \qquad
    \Delta = \max\bigl(0,\ F - \#\{i : \|g_i\| > \tau R\}\bigr).

| mechanism | released |
|---|---|
| `tsgd`: trimmed SGD with Gaussian noise | $\text{TSUM}_F + N(0, \sigma^2 R^2 I)$ |
| `tsgd_ptr`: propose-test-release, test passed | $\text{TSUM}_F + N(0, \sigma^2 \tau^2 R^2 I)$ |
| `tsgd_ptr`: test failed | $\text{SUM} + N(0, \sigma^2 R^2 I)$ |

The test passes if $\Delta + \mathrm{Lap}(b) > b \log(1/(2\delta_0))$. Delta is the number of records by which the batch
may change before the local sensitivity exceeds tau R (`dpml.ptr.trimmed_sum`): a count, of sensitivity 1, so that the
whole rule needs the norms and one weighted sum, as DP-SGD does.

Privacy. Adding or removing an example moves SUM and TSUM by at most R, so trimmed SGD with Gaussian noise has the
guarantee of DP-SGD at the same sigma. With propose-test-release `dpml.ptr.privacy` accounts for all steps without
conditions; F of the next step depends on the outcome of the test only, which is released with the step. Neighbours:
add/remove, Poisson samples. The first F and its limit are numbers fixed without the data: the limit is the sampler's
expected batch size B, so give it as `expected_batch`; if it is q n, the guarantee says "with n taken as public".

Traps, each of them a test: F comes from the *expected* batch size (a quarter of the realised one moves the sum by 2R,
and so does a quarter of q n with the data's own n: round(qn/4) at q = 1/4 is 4 for n = 72 and 5 for n = 73);
the order is that of unclipped norms (clipped ones tie up to rounding, and one record then reorders the rest); an empty
batch still draws both noises; where at least F gradients are longer than tau R the margin is 0 and the test passes
with probability delta0 only.

What moves F. Algorithm 2 raises F after a failed test and lowers it after a passed one, which settles (`next_trim`);
the text of appendix B.1.3 says the opposite, which runs away: `upside_down_trim` keeps it for the chapter.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from dpml import arguments
from dpml.accounting.guarantee import Guarantee
from dpml.accounting.pld import losses
from dpml.ptr import privacy
from dpml.ptr.propose_test_release import threshold
from dpml.ptr.trimmed_sum import places
from dpml.training._run_state import name_of
from dpml.training.dpsgd import clip, in_range_of_norms
from dpml.training.mechanism import Accountant, Decision, Mechanism, State, gaussian, whole_batch
from dpml.training.sampling import Poisson, Sampler

__all__ = ["NextTrim", "kept", "next_trim", "tsgd", "tsgd_ptr", "upside_down_trim"]

Count = int | Tensor
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

NextTrim = Callable[..., Count]
"""How F moves after a step: a function such as `next_trim`, of an int and a bool as well as of tensors.

Its privacy is that of any other: F depends on outcomes only. F outside [0, most] is taken as the nearer end.
"""


def tsgd(*, sigma: float, clip_norm: float, trim: int) -> Mechanism:
    """Return trimmed SGD with Gaussian noise: the `trim` longest gradients are left out in every step.

    `trim` must have been chosen without looking at the data, and is at most the expected batch size. The guarantee is
    that of `dpml.training.dpsgd.dp_sgd` at the same sigma, for the same neighbours.

    Raises:
        ValueError: if sigma is not in [0, inf), clip_norm not in [1e-16, 1e16], or trim not an integer >= 0.

    Source: the PTR paper (Wang et al., NeurIPS 2022), section 5.1, "TSGD + Gaussian".
    """
    sigma = arguments.real("sigma", sigma, 0.0)
    clip_norm = in_range_of_norms("clip_norm", clip_norm)
    trim = arguments.integer("trim", trim, 0)

    def decide(norms: Tensor, *, ids: Tensor, state: State, generator: torch.Generator) -> Decision:
        weights = _trimmed(norms, trim=trim, ids=ids, clip_norm=clip_norm)
        return Decision(weights, sigma * clip_norm, state, {"trimmed": min(trim, len(norms)) / max(1, len(norms))})

    def start(sampling: Sampler, n: int) -> State:
        _most(trim, sampling, n)
        return {}

    settings = {"sigma": sigma, "clip_norm": clip_norm, "trim": trim}
    return whole_batch("tsgd", settings=settings, decide=decide, accountant=gaussian(sigma), start=start)


def tsgd_ptr(
    *,
    sigma: float,
    clip_norm: float,
    tau: float,
    scale: float,
    delta0: float,
    trim: int,
    change: int | None = None,
    rule: NextTrim | None = None,
) -> Mechanism:
    """Return trimmed SGD with propose-test-release.

    `tau` is the proposed sensitivity in units of `clip_norm`, `scale` the Laplace scale of the test, `delta0` the
    probability that it passes at margin 0. `trim` is the first F, at most the expected batch size, and F moves by
    `change` after each step (None: 2 % of the expected batch size, at least 1) as `rule` says (None: `next_trim`).
    The trace's `other` adds means over the steps between its points: "passed" (the fraction of passed tests), "trim"
    (F), "trimmed" (the fraction of each batch that was left out), "margin".

    Neighbours: add/remove, for Poisson samples; other samplers are refused, since no bound for them is known.

    Raises:
        ValueError: if sigma is not in [0.04, 1e4], clip_norm not in [1e-16, 1e16], tau not in (0, 1), scale not in
            [0.01, 1e6], delta0 not in (0, 1/2), or trim or change not an integer >= 0.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Algorithms 2 and 3; the accountant is `dpml.ptr.privacy`.
    """
    sigma = arguments.real("sigma", sigma, 0.04, 1e4)
    clip_norm = in_range_of_norms("clip_norm", clip_norm)
    tau = arguments.real("tau", tau, 0.0, 1.0, low_open=True, high_open=True)
    scale = arguments.real("scale", scale, 0.01, 1e6)
    delta0 = arguments.real("delta0", delta0, 0.0, 0.5, low_open=True, high_open=True)
    trim = arguments.integer("trim", trim, 0)
    change = change if change is None else arguments.integer("change", change, 0)
    move = next_trim if rule is None else rule
    arguments.function("rule", move)
    level, bound = threshold(scale=scale, delta0=delta0), tau * clip_norm

    def decide(norms: Tensor, *, ids: Tensor, state: State, generator: torch.Generator) -> Decision:
        now, step, most = cast("tuple[Any, int, int]", (state["trim"], state["change"], state["most"]))
        gap = now - (_local(norms) > bound).sum()
        margin = gap * (gap > 0)
        noisy = margin + _laplace(scale, norms.device, generator)
        passed = noisy > level
        yes, dropped = passed + 0.0 * noisy, now * passed  # the first in double precision, in a tensor too
        weights = _trimmed(norms, trim=dropped, ids=ids, clip_norm=clip_norm)
        left = _within(dropped, len(norms)) / max(1, len(norms))
        moved = _within(move(now, passed=passed, change=step, most=most), most)
        log = {"passed": yes, "trim": 1.0 * now, "trimmed": left, "margin": 1.0 * margin}
        return Decision(weights, sigma * (bound * yes + clip_norm * (1.0 - yes)), {**state, "trim": moved}, log)

    def start(sampling: Sampler, n: int) -> State:
        if not isinstance(sampling, Poisson):
            raise ValueError(f"sampling must be Poisson: no bound for other samples is known, got {sampling!r}")
        most = _most(trim, sampling, n)
        return {"trim": trim, "change": max(1, round(0.02 * most)) if change is None else change, "most": most}

    test: dict[str, Any] = {"tau": tau, "scale": scale, "delta0": delta0}
    moves = {"trim": trim, "change": change, "rule": getattr(move, "__name__", name_of(move))}
    settings = {"sigma": sigma, "clip_norm": clip_norm, **test, **moves}
    return whole_batch("tsgd_ptr", settings=settings, decide=decide, accountant=_tested(sigma, test), start=start)


def _tested(sigma: float, test: dict[str, Any]) -> Accountant:
    """The accountant of propose-test-release on Poisson samples."""

    def guarantees(counts: Sequence[int], *, sampling: Any, n: int, delta: float) -> list[Guarantee]:
        curve = privacy.epsilon_curve(q=sampling.q, sigma=sigma, **test, steps=list(counts), delta=delta)
        label: dict[str, Any] = {"kind": "upper bound", "adjacency": "add/remove", "sampling": "Poisson"}
        return [Guarantee(float(epsilon), delta=delta, **label) for epsilon in curve]

    def loss(*, sampling: Poisson, n: int) -> losses.Loss:
        return sampling.of(privacy.privacy_loss(sigma=sigma, **test))

    def noise_multiplier(*, sampling: Poisson, n: int, **target: Any) -> float:
        return privacy.noise_multiplier(q=sampling.q, **test, **target)

    return Accountant(guarantees, loss, noise_multiplier)


def next_trim(trim: Count, *, passed: bool | Tensor, change: int, most: int) -> Count:
    """Return the F of the next step: `change` less after a passed test, `change` more after a failed one, in [0, most].

    `trim` is an integer and `passed` a boolean, or both are tensors without dimensions; nothing waits for their device.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Algorithm 2 and Remark 5.3.
    """
    return _within(trim + change - 2 * change * passed, most)


def upside_down_trim(trim: Count, *, passed: bool | Tensor, change: int, most: int) -> Count:
    """Return the F of the next step by the rule of the appendix: `change` *more* after a passed test. It runs away.

    Failing lowers F, which makes the next test fail: F falls to 0, and the test never passes again; or F rises until
    everything is trimmed. The privacy is that of `next_trim`.

    Source: the PTR paper (Wang et al., NeurIPS 2022), appendix B.1.3.
    Printed: "If sensitivity test is passed, we increase F by 0.02 x batchsize, and if sensitivity test is failed, we
        decrease F by the same amount."
    Implemented: so here; `next_trim` is the rule of Algorithm 2 and Remark 5.3, which is the opposite.

    Counterexample: ten tests that 40 long gradients pass only if F is above 60: both rules, from F = 50.

    >>> from dpml.training import trimming
    >>> for rule in (trimming.next_trim, trimming.upside_down_trim):
    ...     trim, seen = 50, []
    ...     for _ in range(10):
    ...         trim = rule(trim, passed=trim > 60, change=8, most=100)
    ...         seen.append(trim)
    ...     print(seen)
    [58, 66, 58, 66, 58, 66, 58, 66, 58, 66]
    [42, 34, 26, 18, 10, 2, 0, 0, 0, 0]
    """
    return _within(trim - change + 2 * change * passed, most)


def kept(norms: Tensor, *, trim: Count, ids: Tensor) -> Tensor:
    """Return which examples stay when the `trim` ones of largest norm are dropped: booleans [B].

    `norms` are those before clipping. Equal norms are ordered by `ids`, the examples' numbers in the dataset, so that
    the choice does not depend on the order in the batch. All are dropped if trim >= B. `trim` may be a tensor
    without dimensions on the device of the norms; negative values then count as 0. NaN counts as the largest norm.

    Raises:
        ValueError: if norms is not a floating tensor [B], ids not an integer tensor [B] on the same device, or trim
            not an integer >= 0 (its value in a tensor is not looked at).

    Source: the PTR paper (Wang et al., NeurIPS 2022), Algorithm 3; the order as in `dpml.ptr.trimmed_sum`.
    """
    if not isinstance(norms, Tensor) or norms.dim() != 1 or not norms.is_floating_point():
        arguments.refuse("norms", "a floating tensor with one dimension", norms)
    good = isinstance(ids, Tensor) and ids.shape == norms.shape and ids.device == norms.device
    if not good or ids.dtype not in _INTEGERS:
        arguments.refuse("ids", f"an integer tensor of shape {tuple(norms.shape)} on {norms.device}", ids)
    if not isinstance(trim, Tensor):
        trim = arguments.integer("trim", trim, 0)
    elif trim.dim() != 0 or trim.dtype not in _INTEGERS:
        arguments.refuse("trim", "an integer >= 0 or an integer tensor without dimensions", trim)
    else:
        trim = _local(trim)
    stays: Tensor = torch.as_tensor(places(_local(norms), ids=_local(ids)) < len(norms) - trim)
    return stays


def _trimmed(norms: Tensor, *, trim: Any, ids: Tensor, clip_norm: float) -> Tensor:
    """The weights of the clipped gradients, 0 for the longest, in single precision at least."""
    norms = norms.detach().to(torch.promote_types(norms.dtype, torch.float32))
    weights: Tensor = clip(norms, clip_norm=clip_norm)
    if isinstance(trim, Tensor) or trim > 0:
        _local(weights)[places(_local(norms), ids=_local(ids)) >= len(norms) - trim] = 0.0  # in place
    return weights


def _laplace(scale: float, device: torch.device, generator: torch.Generator) -> Any:
    """Laplace noise, from one coin."""
    coin = _local(torch.rand((), generator=generator, device=device, dtype=torch.float64)) - 0.5
    if isinstance(coin, Tensor):
        return coin.sign() * (-2.0 * coin.abs()).clamp(min=2.0**-53 - 1.0).log1p() * -scale
    return -math.copysign(scale, coin) * math.log1p(max(-2.0 * abs(coin), 2.0**-53 - 1.0))


def _local(values: Tensor) -> Any:
    """On the CPU an array of NumPy, with which a decision costs a tenth; elsewhere they stay, and nothing waits."""
    if values.device.type != "cpu":
        return values
    values = values.detach().resolve_neg()
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()  # bfloat16: unknown to NumPy


def _within(value: Any, most: int) -> Count:
    """A whole number limited to [0, most], which every checkpoint can hold; in a tensor it stays on its device.

    Raises:
        ValueError: if it is neither.
    """
    if isinstance(value, Tensor):
        return value.clamp(0, most)
    try:
        return min(max(operator.index(value), 0), most)
    except TypeError:
        raise ValueError(f"rule must return a whole number or a tensor of one, got {value!r}") from None


def _most(trim: int, sampling: Sampler, n: int) -> int:
    """The largest F: the sampler's expected batch size.

    Raises:
        ValueError: if trim is larger.
    """
    most = math.floor(sampling.expected(n))
    arguments.integer("trim", trim, 0, most)
    return most
