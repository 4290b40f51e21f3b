r"""The rules of trimmed SGD: which gradients of a batch stay, how much noise their sum gets, and how F moves.

.. math::

    \Delta = \max\bigl(0,\ F - \#\{i : \|g_i\| > \tau R\}\bigr), \qquad
    \text{passed if } \Delta + \mathrm{Lap}(b) > b \log(1/(2\delta_0)) .

`trimming_rule` leaves out the F longest gradients in every step. `testing_rule` leaves them out, and adds noise for
$\tau R$ in place of R, only where the test passes. Both are rules for `dpml.training.rules.weighted_sum`;
`dpml.training.tsgd` trains with them and says what they cost. All tensors stay on the device of the norms, and nothing
waits for it.

What moves F. Algorithm 2 raises F after a failed test and lowers it after a passed one, which settles; the text of
appendix B.1.3 says the opposite, which runs away: `upside_down_trim` keeps it for the chapter.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from dpml import arguments
from dpml.training import weights
from dpml.training.rules import Decision, LogicalBatchRule, State

__all__ = ["NextTrim", "next_trim", "testing_rule", "trimming_rule", "upside_down_trim"]

NextTrim = Callable[..., torch.Tensor]
"""How F moves after a step: a function such as `next_trim`."""


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

    Source: the PTR paper (Wang et al., NeurIPS 2022), section 5.1, "TSGD + Gaussian".
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
