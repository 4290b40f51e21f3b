r"""The checks of the exercises of chapter 12, Byzantine workers, in the order of its items; first those of its text.

Rows $g_i$, f of them Byzantine; neighbours differ in one replaced record. With k = n - f - 2 Krum's score and MDA's set
are

.. math::

    s_i = \sum_{j : i \to j} \|g_i - g_j\|^2, \qquad \arg\min_{|S| = n - f}\ \max_{i, j \in S} \|g_i - g_j\| ,

where $i \to j$ if $g_j$ is among the k rows nearest to $g_i$.
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
from dpml.lessons.dpsgd.checks import clipped

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


def check_mix(answer: Any) -> None:
    """Each row replaced by the average of the n - f nearest, itself among them."""

    def mix(
        count: Callable[[int, int], int] = lambda n, f: n - f, start: int = 0, join: Callable[..., Any] = np.mean
    ) -> Callable[..., Array]:
        """The average, or something else, of another number of rows, with or without the row itself."""

        def found(vectors: Any, *, n_byzantine: int) -> Array:
            rows, many = np.asarray(vectors), count(len(vectors), n_byzantine)
            near = aggregation.squared_distances(rows).argsort(axis=1, kind="stable")[:, start : start + many]
            return np.array([join(rows[some], axis=0) for some in near])

        return found

    def in_place(vectors: Any, *, n_byzantine: int) -> Array:
        rows = np.array(vectors)
        for at in range(len(rows)):
            rows[at] = mix()(rows, n_byzantine=n_byzantine)[at]
        return rows

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield {"vectors": np.array([[0.0], [1.0], [3.0], [100.0]]), "n_byzantine": 1}
        for i in range(9):
            n = int(rng.integers(5, 12))
            f = int(rng.integers(1, (n - 1) // 2 + 1))
            rows = rng.normal(size=(n, 3))
            rows[n - f :] *= (1.0, 9.0)[i % 2]
            yield {"vectors": rows, "n_byzantine": f}

    checks.function(
        answer,
        reference=aggregation.nearest_neighbour_mixing,
        inputs=inputs,
        name="mix",
        mistakes=[
            Mistake(mix(start=1), "it leaves the row itself out. It is one of the n - f."),
            Mistake(mix(lambda n, f: n - f - 1, start=1), "it averages the n - f - 1 others without the row itself."),
            Mistake(
                mix(lambda n, f: n - f - 2), "it averages n - f - 2 rows, as many as Krum has neighbours. Here n - f."
            ),
            Mistake(mix(lambda n, f: f), "it averages f rows. All but f are averaged."),
            Mistake(
                mix(lambda n, f: n), "it averages all rows, so that each becomes the mean, and a far liar moves it."
            ),
            Mistake(mix(join=np.median), "it takes the median of the nearest rows. They are averaged."),
            Mistake(mix(join=np.sum), "it adds the nearest rows up. They are averaged."),
            Mistake(in_place, "it puts the averages into `vectors` while later rows still need the old ones."),
            Mistake(
                lambda vectors, *, n_byzantine: mix()(vectors, n_byzantine=n_byzantine).mean(axis=0),
                "it returns one vector. Each row is replaced, and a rule comes after.",
            ),
        ],
        hint="For each row: sort all by distance to it, and average the first n - f.",
    )


def check_mda_line(answer: Any) -> None:
    """MDA of numbers: the tightest run of n - f sorted values."""

    def run(
        size: Callable[[int, int], int] = lambda n, f: n - f,
        width: Callable[[Array], Any] = np.ptp,
        join: Callable[[Array], Any] = np.mean,
        order: Callable[[Array], Array] = np.sort,
    ) -> Callable[..., float]:
        """Another number of values, measure of a run, answer, or order."""

        def found(values: Any, *, n_byzantine: int) -> float:
            line = order(np.asarray(values, dtype=float))
            many = size(len(line), n_byzantine)
            runs = [line[at : at + many] for at in range(len(line) - many + 1)]
            return float(join(min(runs, key=width)))

        return found

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield {"values": np.array([5.0, 0.0, 2.0]), "n_byzantine": 1}
        yield {"values": np.array([1.0, 9.0, 1.5, 2.5, 8.0]), "n_byzantine": 2}
        for n in (6, 7, 8, 9, 11, 40, 400):
            values = rng.normal(size=n)
            f = int(rng.integers(1, (n - 1) // 2 + 1))
            values[:f] = rng.uniform(1.5, 3.0, size=f)
            yield {"values": rng.permutation(values), "n_byzantine": f}

    def nearest(center: Callable[..., Any]) -> Callable[..., float]:
        def found(values: Any, *, n_byzantine: int) -> float:
            line = np.asarray(values, dtype=float)
            return float(line[abs(line - center(line)).argsort(kind="stable")[: len(line) - n_byzantine]].mean())

        return found

    checks.function(
        answer,
        reference=run(),
        inputs=inputs,
        name="mda_line",
        mistakes=[
            Mistake(run(order=lambda line: line), "it takes neighbours in the list. Sort the numbers first."),
            Mistake(nearest(np.mean), "it keeps the numbers nearest to the mean, and the liars move that mean."),
            Mistake(
                nearest(np.median), "it keeps the numbers nearest to the median. The tightest run may lie elsewhere."
            ),
            Mistake(
                lambda values, *, n_byzantine: float(np.sort(values)[n_byzantine : len(values) - n_byzantine].mean()),
                "this is the trimmed mean: it drops f values at either end.",
            ),
            Mistake(run(lambda n, f: n - f - 1), "its runs have n - f - 1 values, one too few."),
            Mistake(run(lambda n, f: n - f + 1), "its runs have n - f + 1 values, one too many."),
            Mistake(run(width=lambda some: -np.ptp(some)), "it takes the widest run."),
            Mistake(run(width=np.var), "it takes the run of least variance. The largest distance counts."),
            Mistake(run(join=np.median), "it takes the median of the run. MDA averages it."),
            Mistake(
                run(join=lambda some: (some[0] + some[-1]) / 2), "it takes the middle of the run. MDA averages it."
            ),
        ],
        hint="The largest distance in a run is that of its ends; try each start.",
    )


_BATCHES = [np.random.default_rng(7).normal(size=(rows, 3)) * np.geomspace(0.2, 9.0, rows)[:, None] for rows in (8, 3)]


def check_worker_vector(answer: Any) -> None:
    """What an honest worker sends: the mean of the clipped gradients, with noise."""

    def law_of(
        deviation: Callable[..., float] = lambda *, scale, m, **_: scale / m,
        center: Callable[[Array, float], Array] = lambda rows, bound: clipped(rows, bound).mean(axis=0),
        shape: Callable[[float, float], Law] = laws.normal,
    ) -> Callable[..., list[Law]]:
        """Noise of another size or kind, around another vector."""

        def law(gradients: Array, *, clip_norm: float, sigma: float, noise: float = 1.0) -> list[Law]:
            size = noise * deviation(scale=sigma * clip_norm, bound=clip_norm, m=len(gradients))
            return laws.each(center(gradients, clip_norm), lambda at: shape(at, size))

        return law

    settings: list[dict[str, Any]] = [
        {"gradients": _BATCHES[0], "clip_norm": 2.5, "sigma": 1.5},
        {"gradients": _BATCHES[1], "clip_norm": 0.6, "sigma": 0.8},
        {"gradients": 0.01 * _BATCHES[1], "clip_norm": 1.5, "sigma": 0.8},
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
            law_of(center=lambda rows, bound: clipped(rows.mean(axis=0)[None], bound)[0]),
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
        Mistake(law_of(center=lambda rows, bound: clipped(rows, bound).sum(axis=0)), "it sends the sum, not the mean."),
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

    checks.function(
        answer,
        reference=lambda *, m, records, **given: theory.worker_noise(m=m, q=m / records, **given),
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


def check_pair_distance(answer: Any) -> None:
    """The mean squared distance of what two honest workers send."""

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield {"gradients": np.array([[1.0], [-1.0]]), "m": 1, "s": 0.5}
        yield {"gradients": np.array([[0.0, 3.0], [3.0, 0.0], [0.0, 0.0]]), "m": 2, "s": 0.0}
        yield {"gradients": np.array([[2.0, 0.0], [0.0, 1.0], [4.0, 4.0], [1.0, 1.0]]), "m": 4, "s": 2.0}
        for _ in range(7):
            records = int(rng.integers(2, 8))
            m, s = int(rng.integers(1, records + 1)), float(rng.uniform(0.1, 2))
            yield {"gradients": rng.normal(size=(records, 3)), "m": m, "s": s}

    def reference(gradients: Array, *, m: int, s: float) -> float:
        """Over all pairs of batches."""
        rows = np.asarray(gradients)
        means = np.array([rows[list(batch)].mean(axis=0) for batch in itertools.combinations(range(len(rows)), m)])
        return float(aggregation.squared_distances(means).mean() + 2 * rows.shape[1] * s * s)

    def of_all(rows: Array) -> float:
        return float(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())

    def distance(
        factor: Callable[[int, int], float] = lambda N, m: (N - m) / (m * (N - 1)),
        of: Callable[[Array], float] = of_all,
        noise: Callable[[float, int], float] = lambda s, d: d * s**2,
        times: float = 2.0,
    ) -> Callable[..., float]:
        """With another variance of a batch or of a record, another noise, for other than two workers."""

        def found(gradients: Any, *, m: int, s: float) -> float:
            rows: Array = np.asarray(gradients)
            return times * (factor(len(rows), m) * of(rows) + noise(s, int(rows.shape[1])))

        return found

    checks.function(
        answer,
        reference=reference,
        inputs=inputs,
        name="pair_distance",
        rel=1e-9,
        mistakes=[
            Mistake(distance(times=1.0), "this is the variance of one worker's vector. Two of them differ by both."),
            Mistake(distance(noise=lambda s, d: s**2), "each of the d coordinates gets noise: that adds up to d s²."),
            Mistake(distance(noise=lambda s, d: d * s**2 / 2), "the noise of both workers counts."),
            Mistake(distance(noise=lambda s, d: d * s), "s is a standard deviation: its square adds up."),
            Mistake(distance(noise=lambda s, d: 0.0), "it forgets the noise."),
            Mistake(distance(lambda N, m: 0.0), "the two draw batches of their own, so that their means differ, too."),
            Mistake(
                distance(lambda N, m: 1.0),
                "it takes the variance of one record's gradient, the bound of Lemma 3. A mean of m varies less.",
            ),
            Mistake(
                distance(lambda N, m: 1 / m), "this is right with replacement. At m = N both batches are all records."
            ),
            Mistake(
                distance(lambda N, m: (N - m) / (m * N)),
                "two different records of a finite set are negatively correlated, which makes N - 1 of one N.",
            ),
            Mistake(
                distance(of=lambda rows: float((rows**2).sum(axis=1).mean())),
                "it takes squared lengths. The deviations from the mean of all records count.",
            ),
            Mistake(lambda gradients, *, m, s: math.sqrt(distance()(gradients, m=m, s=s)), "this is its root."),
        ],
        hint="Noise and batches are independent: the variances of two batches and of two noises add up.",
    )


def check_liar_limit(answer: Any) -> None:
    """Up to which z a Krum with any number of neighbours picks a liar in noise."""

    def z(
        liar: Callable[[int, int], float] = lambda k, f: k - f + 1,
        honest: Callable[[int, int], float] = lambda k, f: k,
        own: Callable[[int], float] = lambda h: 1 / h,
        root: Callable[[float], float] = lambda x: math.sqrt(max(0.0, x)),
        k_of: Callable[[int, int, int], int] = lambda n, f, k: k,
    ) -> Callable[..., float]:
        """Where the liar's score, of so many distances, equals the honest one's."""

        def found(n: int, *, n_byzantine: int, neighbours: int) -> float:
            f, k = n_byzantine, k_of(n, n_byzantine, neighbours)
            return root(2 * honest(k, f) / max(1, liar(k, f)) - 1 + own(n - f))

        return found

    cases = [(15, 3, 11), (15, 3, 10), (15, 6, 8), (7, 2, 4), (5, 1, 2), (50, 10, 20), (23, 4, 7)]
    checks.function(
        answer,
        reference=z(),
        inputs=checks.settings("n n_byzantine neighbours", *cases),
        name="liar_limit",
        mistakes=[
            Mistake(z(root=float), "this is z², and z is asked for."),
            Mistake(
                z(k_of=lambda n, f, k: n - f - 2), "this is the limit for n - f - 2 neighbours. Their number is given."
            ),
            Mistake(
                z(own=lambda h: 0.0), "the liars' mean contains g_i itself: the difference has variance 1 - 1/h, not 1."
            ),
            Mistake(z(own=lambda h: 2 / h), "1/h has the other sign: the mean lies nearer to its own members."),
            Mistake(z(liar=lambda k, f: k), "f - 1 of a liar's neighbours are the other liars, at distance 0."),
            Mistake(
                z(liar=lambda k, f: k - f),
                "a liar has f - 1 other liars beside it, not f: it is none of its own neighbours.",
            ),
            Mistake(
                z(honest=lambda k, f: k - f),
                "at the limit no liar is nearer to an honest vector than the honest ones: all k distances are 2.",
            ),
        ],
        hint="Set the two scores equal and solve for z: k distances of an honest vector, fewer of a liar.",
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
        if off > claimed * (1 + 1e-9) + 1e-12:
            return None
        allowed = f"the answer is {off:.3g} off, and the claim allows {claimed:.3g}."
        return f"{allowed} A lie must be kept, and lie beyond the honest ones."

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
