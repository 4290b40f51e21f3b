r"""The checks of the exercises of chapter 12, Byzantine workers, in the order of its items; first those of its text.

Rows $g_i$, f of them Byzantine; neighbours differ in one replaced record. Krum's score and MDA's set are

.. math::

    s_i = \sum_{j : i \to j} \|g_i - g_j\|^2, \qquad \arg\min_{|S| = n - f}\ \max_{i, j \in S} \|g_i - g_j\| ,

where $i \to j$ if $g_j$ is among the n - f - 2 rows nearest to $g_i$.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml import mechanisms
from dpml.byzantine import aggregation, theory
from dpml.classroom import checks, laws
from dpml.classroom.checks import Mistake
from dpml.classroom.laws import Law
from dpml.classroom.verdict import shown

Array = NDArray[np.float64]


# ---- in the text of the chapter ----


def check_lie(answer: Any) -> None:
    """What the fifteenth sends, so that the mean of fourteen ones and it is -1."""
    checks.number(
        answer,
        expected=-29.0,
        name="lie",
        mistakes=[
            Mistake(-1.0, "with this the mean is 13/15: fourteen others vote for 1."),
            Mistake(-15.0, "this is the sum that all fifteen must have; the fourteen honest ones are part of it."),
            Mistake(-14.0, "this only cancels the others: the mean is 0."),
            Mistake(-28.0, "the sum is then -14. It must be 15 times the wish."),
            Mistake(29.0, "the sign is the other one."),
        ],
        hint="The mean is the sum of all fifteen, over 15.",
    )


def check_least_n(answer: Any) -> None:
    """The fewest workers for which three liars leave MDA a constant below 0.08."""
    least = next(n for n in range(7, 1000) if theory.kappa_mda(n=n, n_byzantine=3) < 0.08)
    checks.number(
        answer,
        expected=least,
        name="least_n",
        rel=1e-9,
        mistakes=[
            Mistake(least - 1, "with one worker less than needed the constant is still above 0.08."),
            Mistake(least + 1, "one worker fewer is enough, too."),
            Mistake(math.sqrt(8) * 3 / 0.08 + 3, "the number of workers is whole: round up."),
            Mistake(least - 3, "these are the honest ones, n - f. The liars count among the n workers."),
            Mistake(37, "so many are needed for one liar."),
            Mistake(219, "so many are needed for six liars."),
        ],
        hint="Solve for n - f, then add f; n is whole.",
    )


# ---- the sheet ----


def _crowds(rng: np.random.Generator, *, n: tuple[int, int], slope: int, spare: int) -> Iterator[dict[str, Any]]:
    """Rows with liars that are near, far and equal to each other."""
    hand = [[0, 0], [1, 0], [0, 1], [1, 1], [2, 1], [1, 2], [2, 2], [100, 100], [100, 100]]
    yield {"vectors": np.array(hand, dtype=float), "n_byzantine": 2}
    for i in range(11):
        size = int(rng.integers(*n))
        f = int(rng.integers(0 if i > 8 else 1, (size - spare) // slope + 1))
        rows = rng.normal(size=(size, 3))
        if i % 3 == 0:
            rows[size - f :] = rows[: size - f].mean(axis=0) + 0.7  # one lie for all
        elif i % 3 == 1:
            rows[size - f :] *= 9.0
        yield {"vectors": rows, "n_byzantine": f}


def check_krum_scores(answer: Any) -> None:
    """Krum's score of each row."""

    def scores(
        neighbours: Callable[[int, int], int] = lambda n, f: n - f - 2,
        start: int = 1,
        of: Callable[[Array], Array] = lambda squares: squares,
        sign: float = 1.0,
        join: Callable[..., Any] = np.sum,
    ) -> Callable[..., Array]:
        """Scores with another number of neighbours, with the row itself, of other distances, averaged."""

        def found(vectors: Any, *, n_byzantine: int) -> Array:
            near = sign * np.sort(sign * of(aggregation.squared_distances(vectors)), axis=1)
            count = neighbours(len(vectors), n_byzantine)
            return np.asarray(join(near[:, start : start + count], axis=1))

        return found

    checks.function(
        answer,
        reference=aggregation.krum_scores,
        inputs=lambda rng: _crowds(rng, n=(7, 14), slope=2, spare=3),
        name="krum_scores",
        mistakes=[
            Mistake(scores(of=np.sqrt), "it adds up distances. The score is the sum of their squares."),
            Mistake(
                scores(lambda n, f: n - f - 1),
                "it takes n - f - 1 neighbours, one more than Krum's n - f - 2.",
            ),
            Mistake(
                scores(start=0),
                "it counts the distance 0 of a row to itself. Only others are neighbours.",
            ),
            Mistake(scores(lambda n, f: n - 1), "it adds up all distances, so that a far liar spoils every score."),
            Mistake(scores(join=np.mean), "it is the mean over the neighbours. Krum adds up."),
            Mistake(
                scores(start=0, sign=-1.0),
                "it adds up the largest distances. The n - f - 2 nearest count.",
            ),
        ],
        hint="Add up the n - f - 2 smallest squared distances to others.",
    )


def check_mda(answer: Any) -> None:
    """The average of the n - f rows of least diameter."""

    def choose(
        measure: Callable[[Array], float] = lambda squares: float(squares.max()),
        size: Callable[[int, int], int] = lambda n, f: n - f,
        best: Callable[..., Any] = min,
        join: Callable[..., Any] = np.mean,
    ) -> Callable[..., Array]:
        """The rule with another measure of a set, of another size, the worst set, or another answer."""

        def found(vectors: Any, *, n_byzantine: int) -> Array:
            squares = aggregation.squared_distances(vectors)
            sets = itertools.combinations(range(len(vectors)), size(len(vectors), n_byzantine))
            chosen = best(sets, key=lambda s: measure(squares[np.ix_(s, s)]))
            return np.asarray(join(np.asarray(vectors)[list(chosen)], axis=0))

        return found

    def around_the_mean(vectors: Any, *, n_byzantine: int) -> Array:
        rows = np.asarray(vectors)
        far = np.linalg.norm(rows - rows.mean(axis=0), axis=1).argsort(kind="stable")
        return np.asarray(rows[far[: len(rows) - n_byzantine]].mean(axis=0))

    checks.function(
        answer,
        reference=aggregation.mda,
        inputs=lambda rng: _crowds(rng, n=(5, 11), slope=2, spare=1),
        name="mda",
        mistakes=[
            Mistake(around_the_mean, "it keeps the rows nearest to the mean, and the liars move that mean."),
            Mistake(choose(lambda squares: float(squares.sum())), "it adds up all distances. The largest one counts."),
            Mistake(choose(size=lambda n, f: n - f - 1), "its sets have n - f - 1 rows, one too few."),
            Mistake(choose(best=max), "it takes the set of largest diameter."),
            Mistake(choose(join=np.sum), "it adds up the rows of the set. MDA averages them."),
            Mistake(choose(join=np.median), "it takes the median of the set. MDA averages it."),
            Mistake(lambda vectors, *, n_byzantine: np.asarray(vectors).mean(axis=0), "it is the mean of all rows."),
        ],
        hint="Try all sets of n - f rows; of those with equal diameter the first counts.",
    )


_BATCHES = [np.random.default_rng(7).normal(size=(rows, 3)) * np.geomspace(0.2, 9.0, rows)[:, None] for rows in (8, 3)]


def check_worker_vector(answer: Any) -> None:
    """What an honest worker sends: the mean of the clipped gradients, with noise."""

    def each(rows: Array, bound: float) -> Array:
        shorter: Array = rows * np.minimum(1.0, bound / np.linalg.norm(rows, axis=1))[:, None]
        return shorter

    def law_of(
        deviation: Callable[..., float] = lambda *, scale, m, **_: scale / m,
        center: Callable[[Array, float], Array] = lambda rows, bound: each(rows, bound).mean(axis=0),
        shape: Callable[[float, float], Law] = laws.normal,
    ) -> Callable[..., list[Law]]:
        """Noise of another size or kind, around another vector."""

        def law(gradients: Array, *, clip_norm: float, sigma: float, noise: float = 1.0) -> list[Law]:
            size = noise * deviation(scale=sigma * clip_norm, bound=clip_norm, m=len(gradients))
            return [shape(float(at), size) for at in center(gradients, clip_norm)]

        return law

    settings: list[dict[str, Any]] = [
        {"gradients": _BATCHES[0], "clip_norm": 2.5, "sigma": 1.5},
        {"gradients": _BATCHES[1], "clip_norm": 0.6, "sigma": 0.8},
    ]
    wrong = [
        Mistake(
            law_of(lambda *, scale, **_: scale),
            "its noise is that of the sum. The mean is the sum over m, and the noise is divided with it.",
        ),
        Mistake(
            law_of(lambda *, scale, m, **_: scale / math.sqrt(m)),
            "it adds noise to each gradient before averaging: that is more than is asked for. Add it once.",
        ),
        Mistake(
            law_of(lambda *, scale, bound, m, **_: scale / bound / m),
            "its noise forgets the clip norm. σ counts in units of it.",
        ),
        Mistake(
            law_of(lambda *, scale, m, **_: 2 * scale / m),
            "it doubles the noise for replaced records. σ is over C here, and the accountant knows of the 2.",
        ),
        Mistake(
            law_of(center=lambda rows, bound: each(rows.mean(axis=0)[None], bound)[0]),
            "it clips the mean of the batch. One long gradient then turns all of it: clip each gradient by itself.",
        ),
        Mistake(
            law_of(center=lambda rows, bound: rows.mean(axis=0)),
            "nothing is clipped: one gradient can move the mean anywhere.",
        ),
        Mistake(
            law_of(center=lambda rows, bound: np.clip(rows, -bound, bound).mean(axis=0)),
            "it clips each coordinate. The Euclidean length of a gradient must be at most C.",
        ),
        Mistake(
            law_of(center=lambda rows, bound: bound * (rows / np.linalg.norm(rows, axis=1)[:, None]).mean(axis=0)),
            "it stretches short gradients to length C. Clipping only shortens.",
        ),
        Mistake(law_of(center=lambda rows, bound: each(rows, bound).sum(axis=0)), "it sends the sum, not the mean."),
        Mistake(
            law_of(lambda *, scale, m, **_: scale / m / math.sqrt(2), shape=laws.laplace),
            "it is Laplace noise. σ is the multiplier of Gaussian noise.",
        ),
    ]
    name, probe = "worker_vector", {**settings[0], "rng": np.random.default_rng(0)}
    f = checks.signature(answer, name=name, called=probe, returns=(3,))
    checks.law(f, name=name, law=law_of(), settings=settings, wrong=wrong)


def check_least_noise(answer: Any) -> None:
    """The least noise for which one step of one worker is private."""

    def base(epsilon: float, q: float) -> float:
        return math.log1p(math.expm1(epsilon) / q)

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield {"clip_norm": 2.0, "m": 25, "records": 120_000, "epsilon": 0.2, "delta": 1e-5}
        yield {"clip_norm": 2.0, "m": 1000, "records": 60_000, "epsilon": 0.2, "delta": 1e-5}
        yield {"clip_norm": 1.0, "m": 500, "records": 500, "epsilon": 1.5, "delta": 1e-6}
        for _ in range(6):
            m = int(rng.integers(20, 400))
            records = int(m * rng.integers(3, 60))
            yield {"clip_norm": 3.0, "m": m, "records": records, "epsilon": float(rng.uniform(0.1, 2)), "delta": 1e-5}

    def noise(
        step: Callable[[float, int], float] = lambda clip_norm, m: 2 * clip_norm / m,
        epsilon_of: Callable[[float, float], float] = base,
        delta_of: Callable[[float, float], float] = lambda delta, q: delta / q,
        exact: bool = True,
    ) -> Callable[..., float]:
        """The noise with another sensitivity, ε or δ, or by the classical formula."""

        def found(clip_norm: float, *, m: int, records: int, epsilon: float, delta: float) -> float:
            inner, slack = epsilon_of(epsilon, m / records), delta_of(delta, m / records)
            if exact:
                return step(clip_norm, m) * mechanisms.gaussian_sigma(epsilon=inner, delta=slack)
            return step(clip_norm, m) * math.sqrt(2 * math.log(1.25 / slack)) / inner

        return found

    def reference(clip_norm: float, *, m: int, records: int, epsilon: float, delta: float) -> float:
        return theory.worker_noise(clip_norm=clip_norm, q=m / records, m=m, epsilon=epsilon, delta=delta)

    checks.function(
        answer,
        reference=reference,
        inputs=inputs,
        name="least_noise",
        rel=1e-5,
        mistakes=[
            Mistake(
                noise(exact=False),
                "this is the printed formula of Theorem 1. It is too small in some settings and too large in others: "
                "use the exact δ of Gaussian noise.",
            ),
            Mistake(
                noise(lambda clip_norm, m: clip_norm / m),
                "a replaced record takes one gradient away and puts another: it moves the mean by 2C/m.",
            ),
            Mistake(noise(lambda clip_norm, m: 2 * clip_norm), "this is the noise for the sum. The mean is over m."),
            Mistake(
                noise(lambda clip_norm, m: 1.0), "this is a noise multiplier: times how far a record moves the mean."
            ),
            Mistake(
                noise(epsilon_of=lambda epsilon, q: epsilon, delta_of=lambda delta, q: delta),
                "it forgets that the batch is a secret sample: ε and δ before the sampling may be larger.",
            ),
            Mistake(noise(delta_of=lambda delta, q: delta), "δ, too, is divided by the share q that is drawn."),
            Mistake(noise(epsilon_of=lambda epsilon, q: epsilon), "ε is amplified as well, not δ alone."),
            Mistake(
                noise(epsilon_of=lambda epsilon, q: epsilon / q),
                "ε/q is the amplification for small ε only, and too large here: invert log(1 + q(e^ε - 1)).",
            ),
            Mistake(
                noise(
                    epsilon_of=lambda epsilon, q: math.log1p(q * math.expm1(epsilon)),
                    delta_of=lambda delta, q: q * delta,
                ),
                "it amplifies in the wrong direction: it computes the ε after another round of sampling.",
            ),
        ],
        hint="A multiplier for the ε and δ that may hold without the sampling, times the 2C/m of a replaced record.",
    )


def check_refuted(answer: Any) -> None:
    """A setting, with the 10,000 images of the course, at which Theorem 1's noise is not enough."""

    def read(value: Any) -> tuple[int, float, float]:
        if not isinstance(value, dict) or set(value) != {"m", "epsilon", "delta"}:
            raise ValueError('give a dictionary with the keys "m", "epsilon" and "delta".')
        if any(isinstance(x, bool) or not isinstance(x, int | float | np.number) for x in value.values()):
            raise ValueError("the values must be numbers.")
        m, epsilon, delta = value["m"], float(value["epsilon"]), float(value["delta"])
        if m != int(m) or not 1 <= m <= 10_000:
            raise ValueError("m must be a whole number from 1 to 10,000.")
        if not 0 < epsilon < 1 or not 0 < delta < 1:
            raise ValueError("ε and δ must be above 0 and below 1: there the theorem speaks.")
        if delta >= m / 10_000:
            raise ValueError("δ must be below q = m/10,000: from there on no noise is needed.")
        return int(m), epsilon, delta

    def true_delta(value: Any) -> float:
        m, epsilon, delta = read(value)
        case: dict[str, Any] = {"clip_norm": 1.0, "q": m / 10_000, "m": m, "epsilon": epsilon}
        return theory.one_step_delta(**case, s=theory.theorem_1_noise(**case, delta=delta))

    def inner(value: Any) -> float:
        m, epsilon, _ = read(value)
        return math.log1p(math.expm1(epsilon) * 10_000 / m)

    def test(value: Any) -> str | None:
        delta, found = read(value)[2], true_delta(value)
        return None if found > delta else f"the true δ is {found:.3g}, and {delta:.3g} is allowed. Make ε′ larger."

    checks.counterexample(
        answer,
        test=test,
        name="refuted",
        mistakes=[
            Mistake(
                lambda value: inner(value) < 1,
                "has ε′ below 1: there the lemma of the proof holds, and the theorem with it.",
                example={"m": 5000, "epsilon": 0.2, "delta": 1e-5},
            ),
            Mistake(
                lambda value: inner(value) >= 1 and true_delta(value) <= read(value)[2] and read(value)[0] >= 100,
                "has too large a batch: ε′ = log(1 + (e^ε - 1)/q) grows as the share q shrinks.",
                example={"m": 1000, "epsilon": 0.5, "delta": 1e-5},
            ),
        ],
        shows=lambda value: f"the true δ is {true_delta(value):.4g}, more than {shown(read(value)[2])}",
    )


def check_batch_variance(answer: Any) -> None:
    """The variance of the mean of a batch that is drawn without replacement."""

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield {"gradients": np.array([[1.0], [-1.0]]), "m": 1}
        yield {"gradients": np.array([[0.0, 3.0], [3.0, 0.0], [0.0, 0.0]]), "m": 2}
        yield {"gradients": np.array([[2.0, 0.0], [0.0, 1.0], [4.0, 4.0], [1.0, 1.0]]), "m": 4}
        for _ in range(7):
            records = int(rng.integers(2, 8))
            yield {"gradients": rng.normal(size=(records, 3)), "m": int(rng.integers(1, records + 1))}

    def reference(gradients: Array, *, m: int) -> float:
        """Over all batches."""
        rows = np.asarray(gradients)
        means = np.array([rows[list(batch)].mean(axis=0) for batch in itertools.combinations(range(len(rows)), m)])
        return float(((means - rows.mean(axis=0)) ** 2).sum(axis=1).mean())

    def variance(
        factor: Callable[[int, int], float] = lambda N, m: (N - m) / (m * (N - 1)),
        of: Callable[[Array], float] = lambda rows: float(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean()),
    ) -> Callable[..., float]:
        return lambda gradients, *, m: factor(len(gradients), m) * of(np.asarray(gradients))

    def unbiased(rows: Array) -> float:
        return float(rows.var(axis=0, ddof=1).sum())

    checks.function(
        answer,
        reference=reference,
        inputs=inputs,
        name="batch_variance",
        rel=1e-9,
        mistakes=[
            Mistake(
                variance(lambda N, m: 1.0),
                "this is the variance of one record's gradient, the bound of Lemma 3. A mean of m varies less.",
            ),
            Mistake(variance(lambda N, m: 1 / m), "this is right with replacement. At m = N the batch is all records."),
            Mistake(
                variance(lambda N, m: (N - m) / (m * N)),
                "one record less: two different records of a finite set are negatively correlated, which makes N - 1.",
            ),
            Mistake(
                variance(of=unbiased),
                "the variance of a record is over all N records, the average of the squares, not over N - 1.",
            ),
            Mistake(
                variance(of=lambda rows: float((rows**2).sum(axis=1).mean())),
                "it takes squared lengths. The deviations from the mean of all records count.",
            ),
            Mistake(
                variance(of=lambda rows: float(((rows - rows.mean(axis=0)) ** 2).mean())),
                "it averages over the coordinates. The variance of a vector is the sum over them.",
            ),
            Mistake(
                lambda gradients, *, m: math.sqrt(variance()(gradients, m=m)),
                "this is its root, a standard deviation.",
            ),
        ],
        hint="At m = N it is 0, at m = 1 the variance of a record; between, try all batches of a small case.",
    )


def check_krum_threshold(answer: Any) -> None:
    """Up to which z Krum picks a liar in noise."""

    def z(
        liar: Callable[[int, int], float] = lambda n, f: n - 2 * f - 1,
        honest: Callable[[int, int], float] = lambda n, f: n - f - 2,
        own: Callable[[int, int], float] = lambda n, f: 1 / (n - f),
        root: Callable[[float], float] = lambda x: math.sqrt(max(0.0, x)),
    ) -> Callable[..., float]:
        """Where the liar's score, of so many distances, equals the honest one's."""
        return lambda n, *, n_byzantine: root(
            2 * honest(n, n_byzantine) / max(1, liar(n, n_byzantine)) - 1 + own(n, n_byzantine)
        )

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        for n, f in ((15, 3), (15, 6), (7, 2), (5, 1), (50, 10), (23, 4), (100, 40)):
            yield {"n": n, "n_byzantine": f}

    checks.function(
        answer,
        reference=lambda n, *, n_byzantine: theory.krum_threshold(n=n, n_byzantine=n_byzantine),
        inputs=inputs,
        name="krum_threshold",
        mistakes=[
            Mistake(z(root=float), "this is z², and z is asked for."),
            Mistake(
                z(own=lambda n, f: 0.0),
                "the liars' mean contains g_i itself: the difference has variance 1 - 1/h, not 1.",
            ),
            Mistake(
                z(own=lambda n, f: 2 / (n - f)), "1/h has the other sign: the mean lies nearer to its own members."
            ),
            Mistake(
                z(liar=lambda n, f: n - f - 2),
                "f - 1 of a liar's nearest others are the other liars, at distance 0.",
            ),
            Mistake(
                z(liar=lambda n, f: n - 2 * f - 2),
                "a liar has f - 1 other liars beside it, not f: it is none of its own neighbours.",
            ),
            Mistake(
                z(honest=lambda n, f: n - f - 1),
                "Krum adds up n - f - 2 distances of an honest vector.",
            ),
        ],
        hint="Set the two scores equal and solve for z: n - 2f - 1 distances of a liar, n - f - 2 of an honest vector.",
    )


def check_beyond(answer: Any) -> None:
    """Honest rows and lies for which MDA's answer is off by more than f/(n - f) diameters."""

    def read(value: Any) -> tuple[Array, Array]:
        if not isinstance(value, dict) or set(value) != {"honest", "lies"}:
            raise ValueError('give a dictionary with the keys "honest" and "lies".')
        parts = [np.asarray(value[key], dtype=float) for key in ("honest", "lies")]
        honest, lies = (part[:, None] if part.ndim == 1 else part for part in parts)
        if honest.ndim != 2 or lies.ndim != 2 or honest.shape[1] != lies.shape[1] or len(lies) == 0:
            raise ValueError("both must be lists of numbers, or of vectors of one length, and one lie at least.")
        if not (np.isfinite(honest).all() and np.isfinite(lies).all() and max(len(honest), len(lies)) < 12):
            raise ValueError("all numbers must be finite, and at most eleven workers be of a kind.")
        if len(honest) <= len(lies):
            raise ValueError("more workers must be honest than lie: MDA needs n ≥ 2f + 1.")
        return honest, lies

    def measured(value: Any) -> tuple[float, float]:
        """How far the answer is off, and f/(n - f) diameters."""
        honest, lies = read(value)
        answer = aggregation.mda(np.vstack([honest, lies]), n_byzantine=len(lies))
        diameter = math.sqrt(aggregation.squared_distances(honest).max())
        return float(np.linalg.norm(answer - honest.mean(axis=0))), len(lies) / len(honest) * diameter

    def test(value: Any) -> str | None:
        off, claimed = measured(value)
        return (
            None
            if off > claimed * (1 + 1e-9) + 1e-12
            else (
                f"the answer is {off:.3g} off, and the claim allows {claimed:.3g}. A lie must be kept, and lie "
                "beyond the honest ones."
            )
        )

    checks.counterexample(
        answer,
        test=test,
        name="beyond",
        mistakes=[
            Mistake(
                lambda value: measured(value)[1] == 0,
                "has equal honest vectors: then the claim allows no error, and MDA makes none.",
                example={"honest": [1.0, 1.0, 1.0], "lies": [2.0]},
            ),
            Mistake(
                lambda value: measured(value)[0] < 1e-12,
                "moves nothing: MDA throws the lies out, or they agree with the honest mean.",
                example={"honest": [0.0, 1.0, 2.0], "lies": [50.0]},
            ),
        ],
        shows=lambda value: "the answer is {:.3g} off, more than {:.3g}".format(*measured(value)),
    )
