r"""Audit in one run: many coins are put into the data, and guessed from one output.

For each of m canaries (examples made for this purpose) a fair coin decides whether it is in the data. The mechanism
runs once. From its output an attacker guesses r of the m coins, those it is surest of, and abstains from the others.

Theorem (Steinke, Nasr and Jagielski 2023). Let the mechanism be $(\varepsilon, \delta)$-private under add/remove of one
record, and let f(v) be the probability that $\text{Bin}(r, \frac{e^\varepsilon}{1 + e^\varepsilon}) \ge v$. Then the
number W of right guesses has

.. math:: P(W \ge v) \le f(v) + 2 m \delta \max_{1 \le i \le m} \frac{f(v - i) - f(v)}{i} .

Proof for delta = 0. Let the attacker guess the coins one after another, in any order that depends on the output. Given
the output and all other coins, the odds of a coin are its odds before, 1, times a ratio of two likelihoods of
neighbouring datasets, so within $e^{\pm\varepsilon}$: each guess is right with probability at most $e^\varepsilon/(1 +
e^\varepsilon)$ whatever the other coins are. So the number of right ones is not more likely to reach v than that of r
independent coins of this probability. For delta > 0 the theorem is cited, not proved.

Hence an $(\varepsilon, \delta)$ for which the right side is below $1 - \text{confidence}$ at the number observed is
refuted. For the same epsilon one run with many canaries says less than many runs with one: the guesses of all canaries
share one output.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import betaincc

from dpml import arguments, numerics

__all__ = ["OneRunEvidence", "one_run_lower_bound", "one_run_probability", "right_guesses"]

_LARGEST_EPSILON = 200.0


class OneRunEvidence(NamedTuple):
    """With probability `confidence` the true epsilon at `delta` is at least `epsilon_at_least`.

    `correct` of `guesses` guesses about `canaries` coins were right.

    Source: the theorem at the head of this module.
    """

    epsilon_at_least: float
    delta: float
    confidence: float
    correct: int
    guesses: int
    canaries: int


def one_run_probability(*, correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """Return how probable so many right guesses are at most, of any attack on any (epsilon, delta)-private mechanism.

    Raises:
        ValueError: if canaries is not an integer in [1, 10^6], guesses not one in [0, canaries], correct not one in
            [0, guesses], epsilon not in [0, 200] or delta not in [0, 1].

    Source: Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023, Theorem 5.2.
    """
    correct, guesses, canaries = _counts(correct, guesses, canaries)
    epsilon = arguments.real("epsilon", epsilon, 0.0, _LARGEST_EPSILON)
    return _probability(correct, guesses, canaries, epsilon, arguments.probability("delta", delta))


@np.errstate(under="ignore")
def _probability(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    wrong = 1.0 / (1.0 + math.exp(epsilon))
    # v, v - 1, ..., down to where f is 1 up to e^-50, by Hoeffding: from there on the rate falls. Never below v - m.
    certain = math.floor(guesses * (1.0 - wrong) - 5.0 * math.sqrt(guesses))
    fewer = np.arange(correct, max(0, min(certain, correct - 1)) - 1, -1.0)
    some = np.maximum(fewer, 1.0)
    reached = np.where(fewer > 0.0, betaincc(guesses - some + 1.0, some, wrong), 1.0)
    if delta == 0.0 or correct == 0:
        return float(reached[0])
    rate = float(np.max((reached[1:] - reached[0]) / np.arange(1.0, reached.size)))
    return min(1.0, float(reached[0]) + 2.0 * canaries * delta * rate)


def one_run_lower_bound(
    *, correct: int, guesses: int, canaries: int, delta: float, confidence: float
) -> OneRunEvidence:
    """Return how large epsilon must be at least, if of `guesses` guesses about `canaries` coins `correct` are right.

    The number of guesses is fixed before the coins are seen. Neighbours: add/remove. 0 where coins explain it.

    Raises:
        ValueError: as `one_run_probability`, or if confidence is not in (0, 1).

    Source: Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023, Theorem 5.2.
    """
    correct, guesses, canaries = _counts(correct, guesses, canaries)
    delta = arguments.probability("delta", delta)
    confidence = arguments.real("confidence", confidence, 0.0, 1.0, low_open=True, high_open=True)
    alarm = min(1.0 - confidence, 1.0 - 2.0**-53)  # below 1 for the smallest confidence, too

    def refuted(epsilon: float) -> float:  # above 0: such an epsilon is a bound; the largest is wanted
        return alarm - _probability(correct, guesses, canaries, epsilon, delta)

    bound = numerics.bracket(refuted, low=0.0, high=_LARGEST_EPSILON, width=1e-9)[0]
    return OneRunEvidence(bound, delta, confidence, correct, guesses, canaries)


def right_guesses(scores: object, *, included: object, guesses: int) -> int:
    """Return how many of the surest guesses are right: a high score says that a canary was in the data.

    Half of the guesses (rounded up) go to the highest scores and say "in", the others to the lowest and say "out". Of
    equal scores the first in the array counts as lower: the order of the canaries must not depend on the coins, or
    scores that tell nothing would seem to tell everything.

    Raises:
        ValueError: if scores is not a one-dimensional array of finite numbers, included not as many zeros and ones, or
            guesses not an integer in [0, number of scores].

    Source: Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023, Algorithm 1.
    """
    values = arguments.array("scores", scores, ndim=1, min_size=1)
    coins = arguments.bits("included", included)
    if coins.shape != values.shape:
        raise ValueError(f"scores must be as many as the coins in included, {coins.shape}, got {values.shape}")
    guesses = arguments.integer("guesses", guesses, 0, values.size)
    order = np.argsort(values, kind="stable")
    said_out, said_in = order[: guesses // 2], order[values.size - (guesses - guesses // 2) :]
    return int((coins[said_out] == 0).sum() + (coins[said_in] == 1).sum())


def _counts(correct: int, guesses: int, canaries: int) -> tuple[int, int, int]:
    canaries = arguments.integer("canaries", canaries, 1, 10**6)
    guesses = arguments.integer("guesses", guesses, 0, canaries)
    return arguments.integer("correct", correct, 0, guesses), guesses, canaries
