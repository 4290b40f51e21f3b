r"""The rules of trimmed SGD: which gradients of a batch stay, how much noise their sum gets, and how F moves.

.. math::

    \Delta = \max\bigl(0,\ F - \#\{i : \|g_i\| > \tau R\}\bigr), \qquad
    \text{passed if } \Delta + \mathrm{Lap}(b) > b \log(1/(2\delta_0)) .

`trimming_rule` leaves out the F longest gradients in every step. `testing_rule` leaves them out, and adds noise for
$\tau R$ in place of R, only where the test passes. Both are rules for `dpml.training.rules.weighted_sum`;
`dpml.training.tsgd` trains with them and says what they cost. On a GPU all numbers stay there and nothing waits for
them; on a CPU they are Python numbers, and the decision costs a few percent of a step.

What moves F. Algorithm 2 raises F after a failed test and lowers it after a passed one, which settles; the text of
appendix B.1.3 says the opposite, which runs away: `upside_down_trim` keeps it for the chapter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from dpml import arguments
from dpml.training import _light, weights
from dpml.training.rules import Decision, LogicalBatchRule, State

__all__ = ["NextTrim", "next_trim", "testing_rule", "trimming_rule", "upside_down_trim"]

Count = int | torch.Tensor
Outcome = bool | torch.Tensor

NextTrim = Callable[..., Count]
"""How F moves after a step: a function such as `next_trim`, of an int and a bool as well as of tensors.

Its privacy is that of any other: F depends on outcomes only. F outside [0, most] is taken as the nearer end.
"""


def next_trim(trim: Count, *, passed: Outcome, change: int, most: int) -> Count:
    """Return the F of the next step: `change` less after a passed test, `change` more after a failed one, in [0, most].

    `trim` is an integer and `passed` a boolean, or both are tensors without dimensions; nothing waits for their device.

    Source: the PTR paper (Wang et al., NeurIPS 2022), Algorithm 2 and Remark 5.3.
    """
    moved: Count = _light.clip(trim + change - 2 * change * passed, 0, most)
    return moved


def upside_down_trim(trim: Count, *, passed: Outcome, change: int, most: int) -> Count:
    """Return the F of the next step by the rule of the appendix: `change` *more* after a passed test. It runs away.

    Failing lowers F, which makes the next test fail: F falls to 0, and the test never passes again; or F rises until
    everything is trimmed. The privacy is that of `next_trim`.

    Source: the PTR paper (Wang et al., NeurIPS 2022), appendix B.1.3.
    Printed: "If sensitivity test is passed, we increase F by 0.02 x batchsize, and if sensitivity test is failed, we
        decrease F by the same amount."
    Implemented: so here; `next_trim` is the rule of Algorithm 2 and Remark 5.3, which is the opposite.

    Counterexample: `tests/training/test_tsgd.py::test_one_rule_for_trim_settles_and_the_other_runs_away`.
    """
    moved: Count = _light.clip(trim - change + 2 * change * passed, 0, most)
    return moved


def trimming_rule(*, sigma: float, clip_norm: float, trim: int) -> LogicalBatchRule:
    """Return the rule of trimmed SGD with Gaussian noise, for `dpml.training.rules.weighted_sum`.

    Raises:
        ValueError: if sigma is not in [0, inf), clip_norm not in (0, inf), or trim not an integer >= 0.

    Source: the PTR paper (Wang et al., NeurIPS 2022), section 5.1, "TSGD + Gaussian".
    """
    sigma = arguments.real("sigma", sigma, 0.0)
    clip_norm = arguments.real("clip_norm", clip_norm, 0.0, low_open=True)
    trim = arguments.integer("trim", trim, 0)

    def decide(norms: torch.Tensor, *, ids: torch.Tensor, state: State, generator: torch.Generator) -> Decision:
        norms = _plain(norms, ids)
        clipped = weights.clip(norms, clip_norm=clip_norm)
        kept = _light.drop_largest(clipped, _light.array(norms), ids=_light.array(ids), trim=trim)
        left = min(trim, len(norms)) / max(1, len(norms))
        return Decision(kept, sigma * clip_norm, state, {"trimmed": left})

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
        norms = _plain(norms, ids)
        now: Any = _light.clip(state["trim"], 0, most)
        sizes = _light.array(norms)
        margin = _light.clip(now - _light.count(sizes > bound), 0, most)
        coin = _light.number(torch.rand((), generator=generator, device=norms.device, dtype=torch.float64)) - 0.5
        side = 1 - 2 * (coin < 0)
        passed = margin - side * (scale * _light.log1p(-2.0 * abs(coin))) > level
        yes = _light.double(passed)
        dropped = now * passed
        left = _light.clip(dropped, 0, len(norms)) / max(1, len(norms))
        seen = {"passed": yes, "trim": now, "trimmed": left, "margin": margin}
        clipped = weights.clip(norms, clip_norm=clip_norm)
        return Decision(
            _light.drop_largest(clipped, sizes, ids=_light.array(ids), trim=dropped),
            sigma * (bound * yes + clip_norm * (1.0 - yes)),
            {"trim": _light.whole(move(now, passed=passed, change=change, most=most))},
            {name: _light.double(value) for name, value in seen.items()},
        )

    return LogicalBatchRule(decide, {"trim": trim})


def _plain(norms: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """The norms without a graph, in single precision at least.

    Raises:
        ValueError: if norms is not a floating tensor [B], or ids do not fit.
    """
    weights.check_norms(norms)
    weights.check_ids(ids, norms)
    return norms.detach().to(torch.promote_types(norms.dtype, torch.float32))


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
