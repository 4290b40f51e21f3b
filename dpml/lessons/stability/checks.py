"""The checks of the questions and exercises of chapter 07, Privacy by stability.

Neighbours differ in one vote, or one record, that is replaced. Ties go to the lowest label.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpml import arguments
from dpml.classroom import checks, laws
from dpml.classroom.checks import Mistake
from dpml.classroom.laws import Law
from dpml.pate import m_samp, m_stab, stability, voting

_EPSILON, _DELTA, _N = 1.0, 1e-5, 50_000


def check_distance(answer: Any) -> None:
    """How many votes can change without changing the winner; ties go to the lowest label."""

    def gaps(counts: Any) -> list[tuple[int, bool]]:
        """The lead over each other label, and whether that label wins ties."""
        votes = [int(c) for c in counts]
        winner = votes.index(max(votes))
        return [(votes[winner] - c, k < winner) for k, c in enumerate(votes) if k != winner]

    def drawn(rng: np.random.Generator) -> list[Any]:
        fixed = [(5, 2), (3, 4), (4, 3), (3, 3), (7, 0), (0, 7), (3, 5, 3), (2, 2, 5), (9, 0, 0), (4, 4, 1), (1, 8, 5)]
        return [*fixed, *(tuple(int(v) for v in rng.integers(0, 40, size=rng.integers(2, 7))) for _ in range(40))]

    checks.function(
        answer,
        name="distance",
        reference=lambda counts: int(stability.distance_to_instability(counts)),
        inputs=lambda rng: [(counts,) for counts in drawn(rng) if sum(counts) > 0],
        mistakes=[
            Mistake(
                lambda counts: min((g + 1) // 2 if low else g // 2 + 1 for g, low in gaps(counts)),
                "this is the distance to the nearest dataset with another answer. The answer is safe for one change "
                "less.",
            ),
            Mistake(
                lambda counts: min(g for g, _ in gaps(counts)), "this is the lead. One moved vote changes it by two."
            ),
            Mistake(
                lambda counts: min(g for g, _ in gaps(counts)) / 2,
                "this is half the lead, and may be no whole number. A vote moves as a whole.",
            ),
            Mistake(
                lambda counts: min(g // 2 for g, _ in gaps(counts)),
                "a label below the winner wins ties, so it has to catch up only, not to get ahead.",
            ),
            Mistake(
                lambda counts: min((g + 1) // 2 - 1 for g, _ in gaps(counts)),
                "a label above the winner loses ties, so it has to get ahead, not only to catch up.",
            ),
            Mistake(
                lambda counts: max(1, int(stability.distance_to_instability(counts))),
                "where one vote changes the winner the distance is 0, not 1: the maximum is over 0, ..., n.",
            ),
            Mistake(
                lambda counts: max((g + 1) // 2 - 1 if low else g // 2 for g, low in gaps(counts)),
                "the smallest of the distances counts: one label is enough to overtake.",
            ),
            Mistake(
                lambda counts: _gap_to_the_second(counts),
                "the nearest rival need not be the one with most votes: how ties fall counts too.",
            ),
        ],
        hint="Move votes from the winner to one rival and count how many moves leave the winner where it is.",
    )


def _gap_to_the_second(counts: Any) -> int:
    """The right formula, but for the first of the labels that are second."""
    votes = [int(c) for c in counts]
    winner = votes.index(max(votes))
    second = max((k for k in range(len(votes)) if k != winner), key=lambda k: (votes[k], k))
    gap = votes[winner] - votes[second]
    return (gap + 1) // 2 - 1 if second < winner else gap // 2


def check_release_at_one(answer: Any) -> None:
    """P(release) of M_stab at distance 1, epsilon = 1, delta = 1e-5."""
    half = _DELTA / 2
    checks.number(
        answer,
        name="release_at_one",
        expected=float(m_stab.release_probability(1, epsilon=_EPSILON, delta=_DELTA)),
        rel=1e-3,
        mistakes=[
            Mistake(1.0, "no record can change the answer, but a release needs more than that. Look at T."),
            Mistake(half, "this is the value at distance 0, where the noise has to bridge all of T."),
            Mistake(_DELTA, "that is the tail of the noise on both sides, and at distance 0."),
            Mistake(
                _DELTA * math.e, "a factor 2 is missing: the noise exceeds a positive number with half the probability."
            ),
            Mistake(half / math.e, "the distance helps: the noise must exceed T - 1, not T + 1."),
        ],
        hint="The noise must exceed T - 1. Half of the mass of a Laplace variable is on each side of 0.",
    )


def check_least_delta(answer: Any) -> None:
    """The least delta of M_stab at its own epsilon, for epsilon = 1 and delta = 1e-5."""
    checks.number(
        answer,
        name="least_delta",
        expected=m_stab.m_stab_privacy(epsilon=_EPSILON, delta=_DELTA).delta,
        rel=1e-3,
        mistakes=[
            Mistake(_DELTA, "that is the delta of the threshold: enough, but not needed. What is P(release) at 0?"),
            Mistake(
                _DELTA * math.e / 2,
                "that is P(release) at distance 1. If the answers of two neighbours differ, both distances are 0.",
            ),
            Mistake(0.0, "f(D) is possible under D and impossible under D': no epsilon pays for that."),
            Mistake(_DELTA / 4, "the probability is halved once too often."),
            Mistake(2 * _DELTA, "the two neighbours are not added up: each event is compared on its own."),
        ],
        hint="Look at two neighbours with different answers, and at the event that the answer of one of them comes.",
    )


def check_sharp_test(answer: Any) -> None:
    """Two neighbouring votes of 100 that "release if 90 agree" tells apart although the winner is the same."""

    def test(pair: Any) -> str | None:
        try:
            one, other = pair
        except (TypeError, ValueError):
            raise ValueError("give two lists of votes, (counts, counts_prime).") from None
        rows = [arguments.whole_numbers("votes", row, ndim=1, min_size=2).tolist() for row in (one, other)]
        if len(rows[0]) != len(rows[1]):
            raise ValueError("both lists need as many labels, at least two.")
        if any(sum(row) != 100 for row in rows):
            raise ValueError(f"each list must have 100 votes, and these have {sum(rows[0]):g} and {sum(rows[1]):g}.")
        moved = sum(abs(a - b) for a, b in zip(*rows, strict=True))
        if moved == 0:
            return "the two are the same dataset."
        if moved > 2:
            return f"they are no neighbours: {moved // 2:g} votes differ, and one may."
        answered = [max(row) >= 90 for row in rows]
        if answered[0] == answered[1]:
            return f"the rule {'answers' if answered[0] else 'is silent'} on both. Where does its decision change?"
        return None

    checks.counterexample(
        answer,
        name="sharp_test",
        test=test,
        shows=lambda pair: "the rule answers on one of them and is silent on the other, and the winner is the same",
    )


def check_stable_release(answer: Any) -> None:
    """M_stab for votes: private with (epsilon, delta/2), and released as often as the formula says."""

    def test(distance: float, *, threshold: float, scale: float) -> float:
        """The probability that the distance plus Laplace noise of this scale, 0 for none, exceeds the threshold."""
        above = distance - threshold
        if scale == 0:
            return float(above > 0)
        tail = math.exp(-abs(above) / scale) / 2
        return 1 - tail if above > 0 else tail

    def stab(of: Any = stability.distance_to_instability, *, bar: Any = _threshold, scale: Any = None) -> Any:
        """The law of M_stab with another distance, another threshold, or another scale of the noise."""

        def law(counts: Any, *, epsilon: float, delta: float, noise: float = 1.0) -> Law:
            b = noise * (1 / epsilon if scale is None else scale(epsilon))
            p = test(float(of(counts)), threshold=bar(epsilon, delta), scale=b)
            return laws.discrete({int(np.argmax(counts)): p, m_stab.FAIL: 1 - p})

        return law

    def noisy_vote(counts: Any, *, epsilon: float, delta: float, noise: float = 1.0) -> Law:
        return laws.labels(voting.argmax_probabilities(counts, scale=noise / epsilon))

    checks.law(
        answer,
        name="stable_release",
        law=stab(),
        settings=checks.settings(
            "counts epsilon delta",
            (np.array([5, 4, 0]), 1.6, 0.05),
            (np.array([4, 5, 0]), 1.6, 0.05),
            (np.array([4, 6, 0]), 1.6, 0.05),  # the second may win a tie
            (np.array([6, 3, 0]), 1.6, 0.05),
            (np.array([3, 3, 12, 2]), 0.7, 0.1),
            (np.array([20, 9, 1]), 0.7, 0.1),
            (np.array([9, 1, 0]), 0.9, 0.04),
            (np.array([1, 3, 3]), 1.0, 0.2),
            (np.array([4, 4, 1]), 2.0, 1e-15),  # never a label
        ),
        neighbours=[(0, 1)],
        runs=8000,
        wrong=[
            Mistake(
                stab(scale=lambda epsilon: 0.0),
                "the distance meets the threshold without noise: whether it answers tells two neighbours apart.",
            ),
            Mistake(
                stab(scale=lambda epsilon: 0.0, bar=lambda epsilon, delta: 0.5),
                "it answers wherever one vote cannot change the answer. Whether it answers is an output too.",
            ),
            Mistake(
                lambda counts, **_: laws.certain(int(np.argmax(counts))),
                "the winner is always released. At the border one vote changes it.",
            ),
            Mistake(
                stab(lambda counts: stability.distance_to_instability(counts) + 1),
                "the distance is one too large: at the border it must be 0.",
            ),
            Mistake(
                stab(lambda counts: _lead(counts) // 2),
                "the distance is half the lead here. Where the second label wins ties it is one less for an even lead.",
            ),
            Mistake(
                stab(lambda counts: _lead(counts) / 2),
                "half the lead takes the place of the distance, which is a whole number.",
            ),
            Mistake(stab(_lead), "the lead takes the place of the distance. One moved vote changes the lead by two."),
            Mistake(
                stab(scale=lambda epsilon: epsilon), "the scale of the noise is epsilon and should be its inverse."
            ),
            Mistake(noisy_vote, "this is a noisy vote: noise on the counts. Here the noise belongs into the test."),
            *(
                Mistake(stab(bar=bar), diagnosis)
                for bar, diagnosis in (
                    (lambda e, d: math.log(1 / d) * e, "the threshold is multiplied by epsilon; it must be divided."),
                    (lambda e, d: math.log(1 / d), "the threshold is not divided by epsilon."),
                    (
                        lambda e, d: math.log(1 / (2 * d)) / e,
                        "the threshold log(1/(2 delta))/epsilon gives (epsilon, delta); asked for is half of that "
                        "delta.",
                    ),
                    (lambda e, d: 2 * _threshold(e, d), "the threshold is twice as high as it has to be."),
                    (lambda e, d: 0.8 * _threshold(e, d), "the threshold is too low: it spends a larger delta."),
                )
            ),
        ],
    )


def _threshold(epsilon: float, delta: float) -> float:
    return math.log(1 / delta) / epsilon


def _lead(counts: Any) -> float:
    return float(np.ptp(np.sort(counts)[-2:]))


def _about(value: float, diagnosis: str, *, within: float = 0.0) -> Mistake:
    """A mistake that gives this value, rounded to a whole number or not."""
    return Mistake(lambda a: abs(a - value) < max(within, 1.5), diagnosis, example=value)


def _rounded_down(models: int) -> Mistake:
    return Mistake(
        lambda a: models - 1.5 < a < models - 0.3, "a number of models is whole: round up.", example=models - 1
    )


def check_models_printed(answer: Any) -> None:
    """n_T of the definition at epsilon = 1, delta = 1e-5, n = 5e4."""
    plan = m_samp.sampling_plan(epsilon=_EPSILON, delta=_DELTA, n=_N)
    log = math.log(_N / _DELTA)
    checks.number(
        answer,
        name="models_printed",
        expected=plan.n_models,
        rel=0.0,
        abs=0.25,
        mistakes=[
            _about(log, "this is for q = 1. Here q is epsilon / (32 log(1/delta)).", within=1.0),
            _rounded_down(plan.n_models),
            _about(log / plan.q, "q is squared in Hoeffding's exponent."),
            _about(
                math.log(1 / _DELTA) / plan.q**2, "the union over all n records is missing: n stands in the logarithm."
            ),
            _about(
                log * (32 * math.log(_N / _DELTA)) ** 2,
                "the logarithm in q is that of 1/delta; n comes in with n_T only.",
            ),
        ],
        hint="First q = epsilon / (32 log(1/delta)), natural logarithm, then n_T.",
    )


def check_models_chernoff(answer: Any) -> None:
    """The count by the multiplicative Chernoff bound with exponent (2 log 2 - 1) q n_T."""
    plan = m_samp.sampling_plan_chernoff(epsilon=_EPSILON, delta=_DELTA, n=_N)
    log = math.log(_N / _DELTA)
    checks.number(
        answer,
        name="models_chernoff",
        expected=plan.n_models,
        rel=0.0,
        abs=0.25,
        mistakes=[
            _about(
                3 * log / plan.q,
                "this comes from the simpler exponent q n_T / 3, which is right but gives more models.",
            ),
            Mistake(
                m_samp.sampling_plan(epsilon=_EPSILON, delta=_DELTA, n=_N).n_models,
                "this is the count by Hoeffding's inequality again.",
            ),
            _about(math.log(1 / _DELTA) / (plan.q * (2 * math.log(2) - 1)), "the union over all n records is missing."),
            _about(log / plan.q, "the factor 2 log 2 - 1 of the exponent is missing."),
            _rounded_down(plan.n_models),
        ],
        hint="Solve n e^{-(2 log 2 - 1) q n_T} = delta for n_T.",
    )


def check_scaled(answer: Any) -> None:
    """What M_samp adds its noise to, or minus infinity where it must fail whatever the votes are."""

    def made(
        units: float, less: float = 1.0, guard: float | None = 2.0, reverse: bool = False, strict: bool = False
    ) -> Any:
        def scaled(counts: Any, *, most_used: int, q: float, n_models: int) -> float:
            limit = math.inf if guard is None else guard * q * n_models
            if most_used > limit or (strict and most_used == limit):
                return -math.inf
            top = sorted(int(c) for c in counts)
            return (top[-1] - (top[0] if reverse else top[-2])) / (units * q * n_models) - less

        return scaled

    cases = checks.settings(
        "counts most_used q n_models",
        ((90, 10), 20, 0.1, 100),
        ((90, 10), 21, 0.1, 100),
        ((10, 90), 8, 0.1, 100),
        ((50, 50), 8, 0.1, 100),
        ((5, 70, 25), 12, 0.1, 100),
        ((0, 0, 1000), 60, 0.05, 1000),
        ((100, 650, 250), 99, 0.05, 1000),
        ((100, 650, 250), 101, 0.05, 1000),
    )
    checks.function(
        answer,
        name="scaled",
        reference=made(4.0),
        inputs=cases,
        mistakes=[
            Mistake(
                made(2.0, guard=None),
                "two things are missing: a record in more than 2 q n_T parts must lead to a failure, and each moved "
                "vote changes the lead by two.",
            ),
            Mistake(made(2.0), "one record moves up to 2 q n_T votes, and each moved vote changes the lead by two."),
            Mistake(
                made(4.0, less=0.0),
                "1 must be subtracted: where the winner changes the lead may still be 4 q n_T, and there the result "
                "must not be above 0.",
            ),
            Mistake(
                made(4.0, guard=None),
                "a record in more than 2 q n_T parts moves more votes than the noise is made for: fail then.",
            ),
            Mistake(made(4.0, guard=1.0), "q n_T parts are what a record has in the mean; fail above twice that only."),
            Mistake(made(4.0, strict=True), "exactly 2 q n_T parts are still allowed: fail only above."),
            Mistake(made(4.0, reverse=True), "the second largest count matters, not the smallest."),
        ],
        hint="Fail if most_used > 2 q n_T. Otherwise the lead of the first over the second count, in units of what one "
        "record can change, less one.",
    )


def check_samp_claims(answer: Any) -> None:
    """Eight statements on M_stab and M_samp, each true or false."""
    checks.statements(
        answer,
        name="claims",
        expected={
            "a": (True, "the output is a function of the noisy distance and of the common answer: post-processing."),
            "b": (False, "at distance 1 a release has probability delta e^epsilon / 2: the threshold is far away."),
            "c": (False, "each run is a mechanism with (epsilon, delta/2), and failing is an output like any other."),
            "d": (True, "the coins do not look at the data, so the event is the same for both neighbours."),
            "e": (
                False,
                "under add/remove n differs between neighbours, and so do the number of parts and what is too often.",
            ),
            "f": (True, "the proof uses only that no record is in more than 2 q n_T parts; the count serves utility."),
            "g": (False, "the votes differ between neighbours, and they are released without any noise."),
            "h": (False, "in PATE a record is in one part and moves one vote; here it may move 2 q n_T."),
        },
    )


def check_coins(answer: Any) -> None:
    """Two or three sentences: why the event that a record is in too many parts costs no delta."""
    checks.argument(
        answer,
        name="coins",
        rubric=[
            "Which parts a record is in is decided by coins that do not depend on the data.",
            "Use the same coins for D and D': the bad event then happens for both or for neither.",
            "In the bad event both outputs are “fail”, so nothing is lost there; outside of it the bound on the number "
            "of moved votes holds. Averaging over the coins keeps (epsilon, delta/2).",
        ],
        question="If the coins of D' were thrown anew, could the bad event happen for D and not for D'?",
    )
