r"""The checks of the exercises of chapter 15, at scale: first those of its text, then the sheet's in order.

Neighbours differ in one added or removed record. With $\sigma(q, T)$ the least noise multiplier of T steps for the
stated (epsilon, delta), the noise on a coordinate of the mean gradient, in units of the clip norm, is
$\sigma(q, T) / B$ in a step and $\sigma(q, T) / (B \sqrt T)$ in the average of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.accounting import pld
from dpml.classroom import checks, laws
from dpml.classroom.checks import Mistake
from dpml.classroom.laws import Law

Array = NDArray[np.float64]


@cache
def _sigma(q: float, steps: int, epsilon: float, delta: float) -> float:
    return pld.noise_multiplier(q=q, steps=steps, epsilon=epsilon, delta=delta)


# ---- in the text of the chapter ----


def check_noise_240(answer: Any) -> None:
    """The noise of the mean with four times the records, at equal q."""
    checks.number(
        answer,
        expected=1.2 / 2400,
        name="noise_240",
        mistakes=[
            Mistake(1.2 / 600, "this is the noise of the first run. At equal q the batch grows with the records."),
            Mistake(1.2 / 1200, "the noise falls as 1/n; the root belongs to errors of sampling."),
            Mistake(4 * 1.2 / 600, "σ depends on q, T, ε and δ alone, and stays."),
            Mistake(1.2 / 240_000, "the sum is divided by the batch, not by all records."),
            Mistake(1.2, "this is the noise multiplier. The sum is divided by the batch."),
        ],
        hint="σ stays, and the batch is q n.",
    )


def check_formed_mib(answer: Any) -> None:
    """The memory that 4,096 gradients of 79,510 single-precision numbers take, in MiB."""
    count = 4096 * 79_510
    checks.number(
        answer,
        expected=4 * count / 2**20,
        name="formed_mib",
        rel=2e-4,
        mistakes=[
            Mistake(count / 2**20, "a number in single precision takes 4 bytes."),
            Mistake(8 * count / 2**20, "8 bytes are a number in double precision."),
            Mistake(4 * count / 1e6, "these are megabytes of a million bytes. A MiB has 2^20."),
            Mistake(4 * count / 2**30, "these are GiB."),
            Mistake(4 * 79_510 / 2**20, "this is one gradient. Each example has its own."),
            Mistake(4.0 * count, "these are bytes."),
        ],
        hint="Examples times parameters times bytes, over 2^20.",
    )


def check_left_sigma(answer: Any) -> None:
    """What is left of sigma = 2 if three of ten shares are missing."""
    checks.number(
        answer,
        expected=2 * math.sqrt(0.7),
        name="left_sigma",
        rel=1e-3,
        mistakes=[
            Mistake(2 * 0.7, "variances add up, not deviations: of the variance 7 of 10 parts are left."),
            Mistake(2.0, "the noise of the three is missing in the sum."),
            Mistake(2 * math.sqrt(0.3), "this is the noise that is lost."),
            Mistake(2 / math.sqrt(10), "this is one share. Seven arrive."),
            Mistake(2 / math.sqrt(0.7), "this is what the shares must add up to, if three may be lost."),
            Mistake(7 * 2 / math.sqrt(10), "the shares are independent: their variances add up."),
        ],
        hint="Seven independent shares of variance σ²/10 each.",
    )


# ---- the sheet ----


def _runs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Plans of runs, as accountants know them."""
    for q, steps, epsilon, delta in ((0.01, 500, 1.0, 1e-5), (0.1, 200, 3.0, 1e-6), (1.0, 50, 2.0, 1e-5)):
        yield {"q": q, "steps": steps, "epsilon": epsilon, "delta": delta}
    for _ in range(3):
        q, epsilon = (float(rng.uniform(*ends)) for ends in ((0.005, 0.3), (0.5, 6.0)))
        yield {"q": q, "steps": int(rng.integers(20, 900)), "epsilon": epsilon, "delta": 1e-6}


def check_records_needed(answer: Any) -> None:
    """The number of records at which the noise of the mean is as small as asked, not rounded."""

    def records(
        found: Callable[[float, float, float, int], float] = lambda sigma, noise, q, steps: sigma / (q * noise),
        accounted: Callable[[int], int] = lambda steps: steps,
    ) -> Callable[..., float]:
        """Another number, or the noise for another number of steps."""

        def number(noise: float, *, q: float, steps: int, epsilon: float, delta: float) -> float:
            return found(_sigma(q, accounted(steps), epsilon, delta), noise, q, steps)

        return number

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        for noise, plan in zip((0.01, 0.001, 2e-4, 0.003, 0.02, 5e-4), _runs(rng), strict=True):
            yield {"noise": noise} | plan

    checks.function(
        answer,
        reference=records(),
        inputs=inputs,
        name="records_needed",
        rel=1e-4,
        mistakes=[
            Mistake(records(lambda sigma, noise, q, steps: sigma / noise), "this is the batch. The records are B/q."),
            Mistake(records(lambda sigma, noise, q, steps: q * sigma / noise), "B = q n: divide by q."),
            Mistake(records(accounted=lambda steps: 1), "σ must do for all steps together."),
            Mistake(
                records(lambda sigma, noise, q, steps: (sigma / noise) ** 2 / q),
                "the noise of the mean falls as 1/n, not as the root of it: nothing is squared.",
            ),
            Mistake(
                records(lambda sigma, noise, q, steps: sigma / (q * noise * math.sqrt(steps))),
                "the noise of one step is asked for, not that of the average of all.",
            ),
        ],
        hint="The noise of the mean is σ/(q n), in units of C.",
    )


def check_run_noise(answer: Any) -> None:
    """The noise of the average over a run, at a number of passes over the records."""

    def noise(
        of: Callable[[float, int, int, int], float] = lambda sigma, batch, n, steps: sigma / batch / math.sqrt(steps),
        count: Callable[[int, int, int], int] = lambda passes, n, batch: math.ceil(passes * n / batch),
    ) -> Callable[..., float]:
        """Another noise, or another number of steps."""

        def found(batch: int, *, n: int, passes: int, epsilon: float, delta: float) -> float:
            steps = count(passes, n, batch)
            return of(_sigma(batch / n, steps, epsilon, delta), batch, n, steps)

        return found

    cases = [(100, 10_000, 5, 3.0, 1e-5), (1000, 10_000, 5, 3.0, 1e-5), (64, 2000, 30, 1.0, 1e-6)]
    cases += [(500, 500, 20, 2.0, 1e-5), (300, 40_000, 2, 8.0, 1e-6)]
    checks.function(
        answer,
        reference=noise(),
        inputs=checks.settings("batch n passes epsilon delta", *cases),
        name="run_noise",
        rel=1e-4,
        mistakes=[
            Mistake(noise(lambda sigma, batch, n, steps: sigma / batch), "this is the noise of one step."),
            Mistake(
                noise(lambda sigma, batch, n, steps: sigma / batch / steps),
                "the noises of the steps are independent: their average has the deviation of one over √T.",
            ),
            Mistake(
                noise(lambda sigma, batch, n, steps: sigma / batch * math.sqrt(steps)),
                "this is the noise of the sum of all steps. Their average is asked for.",
            ),
            Mistake(
                noise(lambda sigma, batch, n, steps: sigma / n / math.sqrt(steps)),
                "each step divides by its batch, not by all records.",
            ),
            Mistake(
                noise(count=lambda passes, n, batch: passes),
                "a pass over the records has n/B steps, not one.",
            ),
            Mistake(
                noise(lambda sigma, batch, n, steps: sigma / math.sqrt(steps)),
                "the sum is divided by the batch.",
            ),
        ],
        hint="T steps, σ for all of them, σ/B on each mean, and the average of T independent noises.",
    )


def _split(center: float, shape: float, scale: float, *, one_sided: bool = False) -> Law:
    """A count plus the difference of two gamma variables: Laplace noise at shape 1, two of it at shape 2."""

    def cdf(y: Array) -> Array:
        z = np.abs(y - center) / scale
        tail = np.exp(-z) * (2.0 + z) / 4.0
        return np.where(y > center, 1.0 - tail, tail)

    def draw(rng: np.random.Generator, size: int) -> Array:
        up, down = rng.gamma(shape, scale, (2, size))
        return np.asarray(center + up - (0.0 if one_sided else down))

    if one_sided or shape not in (1.0, 2.0):
        return laws.sampled(draw)
    return laws.laplace(center, scale) if shape == 1.0 else Law(draw, cdf)


def check_shared_count(answer: Any) -> None:
    """A count over processes that each add a part of Laplace noise, of which some are lost."""

    def law_of(
        shape: Callable[[int, int, int], float] = lambda k, here, most: here / (k - most),
        scale: Callable[[float], float] = lambda epsilon: 1.0 / epsilon,
        *,
        every: bool = False,
        one_sided: bool = False,
    ) -> Callable[..., Law]:
        """The total with noise of another shape or scale, or of all counts."""

        def law(counts: Any, *, lost: tuple[int, ...], at_most: int, epsilon: float, noise: float = 1.0) -> Law:
            here = [r for r in range(len(counts)) if r not in lost]
            total = float(np.sum(counts) if every else np.asarray(counts)[here].sum())
            parts = shape(len(counts), len(here), at_most)
            return _split(total, parts, noise * scale(epsilon), one_sided=one_sided)

        return law

    def of_laplace(counts: Any, *, lost: tuple[int, ...], at_most: int, epsilon: float, noise: float = 1.0) -> Law:
        """Each share is a Laplace variable of the right variance."""
        here = [r for r in range(len(counts)) if r not in lost]
        total, scale = float(np.asarray(counts)[here].sum()), noise / epsilon / math.sqrt(len(counts) - at_most)
        return laws.sampled(lambda rng, size: total + rng.laplace(0.0, scale, (size, len(here))).sum(axis=1))

    settings = checks.settings(
        "counts lost at_most epsilon",
        (np.array([5, 8, 2, 6]), (1, 2), 2, 1.0),
        (np.array([6, 8, 2, 6]), (1, 2), 2, 1.0),
        (np.array([4, 9, 1, 7]), (), 2, 0.5),
        (np.array([30, 12, 25]), (), 0, 2.0),
        (np.array([3, 11]), (0,), 1, 0.25),
    )
    name, probe = "shared_count", {**settings[0], "rng": np.random.default_rng(0)}
    f = checks.signature(answer, name=name, called=probe, returns=())
    checks.law(
        f,
        name=name,
        law=law_of(),
        settings=settings,
        neighbours=[(0, 1)],
        wrong=[
            Mistake(
                law_of(lambda k, here, most: here / k),
                "its shares have the shape 1/k: whoever is lost takes noise away, and too little is left.",
            ),
            Mistake(law_of(lambda k, here, most: here), "each process adds all of the noise. A share is enough."),
            Mistake(
                law_of(lambda k, here, most: 1.0),
                "its noise is the same whoever arrives: one process drew it all, or knew who would be lost.",
            ),
            Mistake(
                of_laplace, "sums of Laplace shares are no Laplace noise, whatever their size. Use gamma variables."
            ),
            Mistake(
                law_of(one_sided=True), "its noise is never negative: a share is the difference of two gamma variables."
            ),
            Mistake(law_of(every=True), "it counts those who are lost. Their counts never arrive."),
            Mistake(law_of(scale=lambda epsilon: epsilon), "a smaller ε needs more noise: the scale is 1/ε."),
            Mistake(
                law_of(lambda k, here, most: here / max(1, most)),
                "the shares are for those who arrive at least, k − at_most, not for those who are lost.",
            ),
        ],
    )


def check_searched_sigma(answer: Any) -> None:
    """The noise multiplier of each run, if trials and the final run are to keep one budget."""

    def sigma(
        steps_of: Callable[[int, int], int] = lambda trials, steps: (trials + 1) * steps,
        factor: Callable[[int], float] = lambda trials: 1.0,
        parts: Callable[[int], float] = lambda trials: 1.0,
    ) -> Callable[..., float]:
        """For another number of steps, times a factor, or for a part of the budget."""

        def found(trials: int, *, q: float, steps: int, epsilon: float, delta: float) -> float:
            share = parts(trials)
            return factor(trials) * _sigma(q, steps_of(trials, steps), epsilon / share, delta / share)

        return found

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        for trials, plan in zip((4, 1, 3, 2, 8, 5), _runs(rng), strict=True):
            yield {"trials": trials} | plan | {"delta": (1e-5, 1e-6)[trials % 2]}

    def one(trials: int, steps: int) -> int:
        return steps

    checks.function(
        answer,
        reference=sigma(),
        inputs=inputs,
        name="searched_sigma",
        rel=1e-4,
        mistakes=[
            Mistake(sigma(one), "this is the noise for the final run alone. The trials saw the records as well."),
            Mistake(sigma(lambda trials, steps: trials * steps), "the final run has steps, too."),
            Mistake(
                sigma(one, parts=lambda trials: trials + 1.0),
                "this is basic composition: private, with more noise than it takes. Account for all steps at once.",
            ),
            Mistake(
                sigma(one, lambda trials: math.sqrt(trials + 1)),
                "the root is right for full batches. Sampled runs need another factor: let the accountant say it.",
            ),
            Mistake(sigma(one, lambda trials: trials + 1.0), "noise need not grow as fast as the number of runs."),
        ],
        hint="Trials and final run are one long run of equal steps.",
    )


def check_mixed_delta(answer: Any) -> None:
    """A step of the proof that a smaller sampling probability needs no more noise."""

    def bound(of: Callable[[float, float, float], float]) -> Callable[..., float]:
        return lambda delta, *, t, a: of(delta, max(0.0, 1.0 - t), a)

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield {"delta": 0.3, "t": 2.0, "a": 0.5}
        yield {"delta": 0.7, "t": 0.4, "a": 0.25}
        for _ in range(8):
            t = float(rng.uniform(0.1, 3.0))
            own = max(0.0, 1.0 - t)
            yield {"delta": own + float(rng.uniform(0.1, 0.9)) * (1.0 - own), "t": t, "a": float(rng.uniform(0.1, 0.9))}

    checks.function(
        answer,
        reference=bound(lambda delta, own, a: (1.0 - a) * own + a * delta),
        inputs=inputs,
        name="mixed_delta",
        mistakes=[
            Mistake(
                bound(lambda delta, own, a: a * delta),
                "where t is below 1 even two equal laws differ by 1 − t: the part of Q counts, too.",
            ),
            Mistake(
                lambda delta, *, t, a: (1.0 - a) * (1.0 - t) + a * delta,
                "(1 − t)₊ is never negative: above t = 1 two equal laws differ by 0.",
            ),
            Mistake(bound(lambda delta, own, a: a * own + (1.0 - a) * delta), "the weights have changed places."),
            Mistake(bound(lambda delta, own, a: delta), "true, and not sharp: the weight a is not used."),
            Mistake(bound(lambda delta, own, a: own + a * delta), "the part of Q has the weight 1 − a."),
            Mistake(bound(lambda delta, own, a: 1.0 - a + a * delta), "of Q less t Q a part (1 − t)₊ is left, not 1."),
        ],
        hint="The convex function of a mixture is at most the mixture of its values.",
    )


def check_smaller_wins(answer: Any) -> None:
    """One step in which the smaller batch has less noise on its mean, at equal (epsilon, delta)."""
    names = "epsilon", "delta", "small", "large"

    def read(value: Any) -> tuple[float, ...]:
        if not isinstance(value, Mapping) or set(value) != set(names):
            raise ValueError('give a dictionary with the keys "epsilon", "delta", "small" and "large".')
        if any(isinstance(x, bool) or not isinstance(x, int | float | np.number) for x in value.values()):
            raise ValueError("the values must be numbers.")
        epsilon, delta, small, large = (float(value[name]) for name in names)
        if not (0 < epsilon <= 10 and 1e-10 <= delta < 1):
            raise ValueError("ε must be above 0 and at most 10, δ from 1e-10 to below 1.")
        if not 0.001 <= small < large <= 1:
            raise ValueError("the sampling probabilities must be from 0.001 to 1, the small one below the large one.")
        return epsilon, delta, small, large

    def noises(value: Any) -> list[float]:
        """The noise of the two means, times C/n."""
        epsilon, delta, *rates = read(value)
        return [_sigma(q, 1, epsilon, delta) / q for q in rates]

    def free(value: Any) -> bool:
        return read(value)[1] >= read(value)[2]

    def test(value: Any) -> str | None:
        if free(value):
            return "the small batch needs no noise."
        small, large = noises(value)
        if small < large * (1 - 1e-6):
            return None
        noise = f"the noise is {small:.4g} C/n in the small batch and {large:.4g} C/n in the large one."
        return f"{noise} A smaller ε helps the small batch, and so does a δ nearer to its q."

    checks.counterexample(
        answer,
        test=test,
        name="smaller_wins",
        mistakes=[
            Mistake(
                free,
                "a δ of at least the small q covers whoever is drawn, without any noise. Take δ below it.",
                example={"epsilon": 1.0, "delta": 0.3, "small": 0.2, "large": 0.5},
            ),
        ],
        shows=lambda value: "the noise is {:.4g} C/n, less than {:.4g} C/n".format(*noises(value)),
    )
