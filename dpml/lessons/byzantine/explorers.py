"""Explorers of chapter 12, Byzantine workers.

Workers are n, of whom `n_byzantine` lie; all liars send the same vector. The setting of the paper: gradients clipped to
C = 2, delta = 1e-5 in each step, d = 79,510 parameters, 60,000 records.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.byzantine import aggregation, attacks, theory
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Axis, Frame, Key, Line, Points, Role, Rule, Text
from dpml.data import grouped, recorded

Array = NDArray[np.float64]
WORKERS = 15
CLIP_NORM, DELTA, DIMENSION, RECORDS = 2.0, 1e-5, 79_510, 60_000


def rules_in_the_plane() -> Explorer:
    """Liars among 15 workers walk away from the crowd: where the answer of each rule goes.

    On the right the distance of the answer from the honest mean, for liars at every distance.
    """
    crowd = np.random.default_rng(0).normal(size=(WORKERS, 2))
    way = np.array([math.cos(0.6), math.sin(0.6)])
    names = {"krum": "Krum", "mda": "MDA", "median": "the median"}
    rules: dict[str, Callable[..., Any]] = {
        "average": aggregation.average,
        "krum": aggregation.krum,
        "mda": aggregation.mda,
        "median": aggregation.median,
        "bulyan": aggregation.bulyan,
    }
    looks: dict[str, tuple[str, Role]] = {
        "average": ("mean", "muted"),
        "krum": ("Krum", "D'"),
        "mda": ("MDA", "D"),
        "median": ("median", "guarantee"),
        "bulyan": ("Bulyan", "source"),
    }
    places = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0]

    def sent(distance: float, liars: int) -> tuple[Array, Array]:
        honest = crowd[: WORKERS - liars]
        return honest, np.tile(honest.mean(axis=0) + distance * way, (liars, 1))

    @cache
    def answer(rule: str, distance: float, liars: int) -> Array:
        return np.asarray(rules[rule](np.vstack(sent(distance, liars)), n_byzantine=liars))

    def error(rule: str, distance: float, liars: int) -> float:
        return float(np.linalg.norm(answer(rule, distance, liars) - sent(distance, liars)[0].mean(axis=0)))

    def draw(distance: float, liars: int, rule: str) -> Frame:
        honest, lies = sent(distance, liars)
        now = {name: error(name, distance, liars) for name in rules}
        middle, here = honest.mean(axis=0), answer(rule, distance, liars)
        curves = {name: [error(name, place, liars) for place in places] for name in rules}
        lying = "one liar" if liars == 1 else f"{liars} liars"
        others = ", ".join(f"{looks[name][0]} {off:.2f}" for name, off in now.items() if name not in ("average", rule))
        return Frame(
            title=f"{lying.capitalize()} at distance {distance:.3g}: the mean is {now['average']:.2f} off, "
            f"{names[rule]} {now[rule]:.2f}.",
            readout=f"Off the mean of the honest: {others}. At worst {names[rule]} is {max(curves[rule]):.2f} off, "
            f"with the liars at {places[int(np.argmax(curves[rule]))]:.3g}.",
            marks=[
                Points(honest[:, 0], honest[:, 1], "D", Key("honest", -2.2, 3.9)),
                Points(lies[:1, 0], lies[:1, 1], "D'", Key("liars", -2.2, 3.4)),
                Points(middle[:1], middle[1:], "muted", Key("mean of the honest", -2.2, -2.4)),
                Points(here[:1], here[1:], "measured", Key(f"answer of {names[rule]}", -2.2, -2.9)),
            ],
            beside=[
                *(
                    Line(places, curves[name], role, Key(name_, 0.5, 1.9 - 0.14 * i))
                    for i, (name, (name_, role)) in enumerate(looks.items())
                ),
                Points([distance], [now[rule]], "measured"),
            ],
        )

    shown = {"krum": "Krum", "mda": "MDA", "median": "median"}
    return Explorer(
        "byzantine-plane",
        draw,
        [
            Range("distance", "distance of the liars", places, 6.0, "How far from the mean of the honest they stand."),
            Range("liars", "liars", [1, 2, 3], 3, "How many of the 15 workers send the same lie."),
            Switch("rule", "rule", shown, "krum", "Whose answer is shown."),
        ],
        x=[Axis("first coordinate", -3.0, 6.0), Axis("distance of the liars", 0.0, 6.1)],
        y=[Axis("second coordinate", -3.2, 4.2), Axis("answer off the honest mean", 0.0, 2.0)],
        asked="right",
    )


def distances_under_noise() -> Explorer:
    """Nothing but noise: the distances between workers, and the scores by which Krum picks one.

    The liars send mean + z std of the honest vectors.
    """
    sizes = [2, 5, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000]
    factors = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2.0, 2.4, 2.6]

    @cache
    def noise(d: int, liars: int) -> Array:
        return np.random.default_rng(12).normal(size=(WORKERS - liars, d))

    @cache
    def among_honest(d: int, liars: int) -> Array:
        pairs = aggregation.squared_distances(noise(d, liars))[np.triu_indices(WORKERS - liars, 1)]
        return np.sort(np.sqrt(pairs / d))

    def steps(values: Array) -> tuple[Array, Array]:
        """The share of values up to each."""
        return np.repeat(values, 2), np.repeat(np.linspace(0.0, 1.0, len(values) + 1), 2)[1:-1]

    def draw(d: int, z: float, liars: str) -> Frame:
        f = int(liars)
        honest = noise(d, f)
        h = len(honest)
        vectors = np.vstack([honest, np.tile(attacks.little(honest, z=z), (f, 1))])
        scores = aggregation.krum_scores(vectors, n_byzantine=f) / (2 * d * (WORKERS - f - 2))
        kept = int(np.sum(np.asarray(aggregation.mda_subset(vectors, n_byzantine=f)) >= h))
        to_liars = np.sort(np.sqrt(aggregation.squared_distances(vectors)[-1, :h] / d))
        best = int(np.argmin(scores))
        who = "a liar" if best >= h else "an honest worker"
        limit = theory.krum_threshold(n=WORKERS, n_byzantine=f), theory.mda_threshold(n=WORKERS, n_byzantine=f)
        return Frame(
            title=f"d = {d:,}, z = {z:.3g}: Krum picks {who}, and MDA keeps {kept} of the {f} liars.",
            readout=f"In high dimension Krum picks a liar up to z = {limit[0]:.4f}, and MDA keeps all of them up to "
            f"z = {limit[1]:.4f}. Lowest score: honest {scores[:h].min():.3f}, liars {scores[h:].min():.3f}.",
            marks=[
                Line(*steps(among_honest(d, f)), "D", Key("two honest workers", 0.3, 1.24)),
                Line(*steps(to_liars), "D'", Key("an honest one and a liar", 0.3, 1.14)),
            ],
            beside=[
                Line([0.5, WORKERS + 0.5], [scores[best]] * 2, "guarantee", Text("lowest", 0.7, scores[best] - 0.12)),
                Points(np.arange(1, h + 1), scores[:h], "D", Key("honest", 1.5, 3.05)),
                Points(np.arange(h + 1, WORKERS + 1), np.minimum(scores[h:], 3.2), "D'", Key("liars", 6.5, 3.05)),
            ],
            table=(
                ["pair", "smallest distance / √d", "largest"],
                [
                    ["two honest workers", f"{among_honest(d, f)[0]:.3f}", f"{among_honest(d, f)[-1]:.3f}"],
                    ["an honest worker and a liar", f"{to_liars[0]:.3f}", f"{to_liars[-1]:.3f}"],
                    ["two liars", "0.000", "0.000"],
                ],
            ),
        )

    return Explorer(
        "byzantine-distances",
        draw,
        [
            Range("d", "d", sizes, 2, "The number of coordinates, of independent N(0, 1) noise.", "{:,}", "log"),
            Range("z", "z", factors, 2.0, "The liars send mean + z std of the honest vectors."),
            Switch("liars", "liars", {"3": "3 of 15", "6": "6 of 15"}, "3", "How many workers send that vector."),
        ],
        x=[Axis("distance / √d", 0.0, 3.2), Axis("worker", 0.0, WORKERS + 1.0)],
        y=[
            Axis("share of the pairs", 0.0, 1.3, ticks=[0.0, 0.5, 1.0]),
            Axis("Krum's score / that of the honest", 0.0, 3.2),
        ],
    )


def eta_map() -> Explorer:
    """The least error that a rule's condition leaves, for every batch size: with private noise, and without any.

    Solid what must and may be left, dash-dotted what the paper prints; above C^2 nothing is said. The deviation of a
    record's gradient is at most C.
    """
    kappas = {"mda": theory.kappa_mda, "krum": theory.kappa_krum, "median": theory.kappa_median}
    names = {"mda": "MDA", "krum": "Krum", "median": "the median"}
    batches = np.unique(np.geomspace(25, 6000, 25).astype(int)).tolist()
    trivial = CLIP_NORM**2

    @cache
    def bounds(rule: str, m: int, epsilon: float, liars: int) -> theory.EtaBounds:
        return theory.proposition_2_bounds(
            kappa=kappas[rule](n=WORKERS, n_byzantine=liars),
            clip_norm=CLIP_NORM,
            dimension=DIMENSION,
            q=m / RECORDS,
            m=m,
            epsilon=epsilon,
            delta=DELTA,
            v=CLIP_NORM,
        )

    def least_batch(rule: str, epsilon: float, liars: int) -> int | None:
        """The first batch at which less than C^2 must be left."""
        sizes = range(10, RECORDS + 1)
        at = bisect.bisect_left(sizes, True, key=lambda m: bounds(rule, m, epsilon, liars).sharp < trivial)
        return sizes[at] if at < len(sizes) else None

    def draw(epsilon: float, liars: int, rule: str) -> Frame:
        kappa = kappas[rule](n=WORKERS, n_byzantine=liars)
        rows = [bounds(rule, m, epsilon, liars) for m in batches]
        first = least_batch(rule, epsilon, liars)
        of_1000 = bounds(rule, 1000, epsilon, liars)
        says = f"η can be below C from m = {first:,} on" if first else "no batch lets η be below C"
        still = [kappa**2 * theory.batch_variance(v=CLIP_NORM, q=m / RECORDS, m=m) for m in batches]
        return Frame(
            title=f"{names[rule].capitalize() if rule == 'median' else names[rule]}, {liars} of {WORKERS} lie, "
            f"ε = {epsilon:.3g} a step: {says}.",
            readout=f"κ = {kappa:.4g}. At m = 1,000: needed η² ≥ {of_1000.sound:.4g}, enough {of_1000.enough:.4g}; "
            f"printed {of_1000.necessary:.4g} and {of_1000.sufficient:.4g}.",
            marks=[
                Rule("muted", y=trivial, label=Text("C²", 27.0, 1.6 * trivial)),
                Line(batches, [row.sufficient for row in rows], "source", Key("printed, enough", 500.0, 3.5e5)),
                Line(batches, [row.enough for row in rows], "guarantee", Key("needed and enough", 500.0, 5e4)),
                Line(batches, [row.necessary for row in rows], "D'", Key("printed, needed", 500.0, 7e3)),
            ],
            beside=[
                Rule("muted", y=trivial, label=Text("C²", 27.0, 1.6 * trivial)),
                Line(batches, [kappa**2 * CLIP_NORM**2] * len(batches), "source", Key("printed", 500.0, 3.5e5)),
                Line(batches, still, "guarantee", Key("enough", 500.0, 5e4)),
            ],
        )

    epsilons = [0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99]
    shown = {"mda": "MDA", "krum": "Krum", "median": "median"}
    return Explorer(
        "byzantine-eta",
        draw,
        [
            Range("epsilon", "ε of a step", epsilons, 0.05),
            Range("liars", "liars", [1, 2, 3, 4, 5, 6], 6, "How many of the 15 workers lie."),
            Switch("rule", "rule", shown, "mda", "Whose constant κ counts."),
        ],
        x=Axis("batch m of 60,000", 24.0, 6100.0, "log"),
        y=[Axis("η², with noise", 1e-5, 1e6, "log"), Axis("η², without noise", 1e-5, 1e6, "log")],
        asked="both",
    )


def one_step() -> Explorer:
    """The noise of Theorem 1 as printed: the delta that one step of one worker truly has, for every batch size.

    On the right that noise over the one that is just enough.
    """
    epsilons = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99]
    batches = [3, 5, 10, 25, 50, 100, 150, 300, 500, 1000, 1500, 2500]

    @cache
    def step(m: int, epsilon: float, records: int) -> tuple[float, float, float]:
        """Printed noise, its delta, and the noise that is just enough."""
        case: dict[str, Any] = {"clip_norm": CLIP_NORM, "q": m / records, "m": m, "epsilon": epsilon}
        printed = theory.theorem_1_noise(**case, delta=DELTA)
        return printed, theory.one_step_delta(**case, s=printed), theory.worker_noise(**case, delta=DELTA)

    def draw(m: int, epsilon: float, records: str) -> Frame:
        size = int(records)
        printed, found, enough = step(m, epsilon, size)
        noises, deltas, least = np.transpose([step(batch, epsilon, size) for batch in batches])
        base = math.log1p(math.expm1(epsilon) / (m / size))
        verdict = "more than the 10⁻⁵ that it promises" if found > DELTA else "within the 10⁻⁵ that it promises"
        return Frame(
            title=f"ε = {epsilon:.3g}, batches of {m:,} of {size:,}: the printed noise has δ = {found:.3g}, {verdict}.",
            readout=f"Without the sampling it would be ε′ = {base:.3g}; the lemma behind the formula asks for "
            f"less than 1. Printed s = {printed:.4g}, just enough s = {enough:.4g}: ratio {printed / enough:.3f}.",
            marks=[
                Rule("guarantee", y=DELTA, label=Text("promised", 2500.0, 1.4 * DELTA, anchor="end")),
                Line(batches, deltas, "source", Text("printed noise", 300.0, 4e-6, anchor="start")),
                Points([m], [found], "measured"),
            ],
            beside=[
                Rule("guarantee", y=1.0, label=Text("just enough", 2500.0, 1.03, anchor="end")),
                Line(batches, noises / least, "source"),
                Points([m], [printed / enough], "measured"),
            ],
        )

    records = {"10000": "10,000", "60000": "60,000", "120000": "120,000"}
    meaning = "How many records a worker draws, without replacement."
    return Explorer(
        "byzantine-one-step",
        draw,
        [
            Range("m", "batch m", batches, 1000, meaning, "{:,}", "log"),
            Range("epsilon", "ε of a step", epsilons, 0.2),
            Switch("records", "records", records, "60000", "How many records there are in all."),
        ],
        x=Axis("batch m", 2.8, 2600.0, "log"),
        y=[Axis("δ of one step", 1e-8, 1e-3, "log"), Axis("printed noise / noise that is just enough", 0.6, 1.6)],
        asked="both",
    )


def recorded_accuracy() -> Explorer:
    """Recorded runs with three liars: the largest accuracy of each rule against the batch size, under two attacks."""
    part = recorded("byzantine_figures")["cpu"]
    found = grouped(part["rows"], "epsilon", "m", "rule", "attack", "n_byzantine")
    sizes, liars, epsilon = [50, 300, 1000], 3, 0.2
    kinds = {"empire": "empire", "little, minus": "little"}
    looks: dict[str, tuple[str, Role]] = {
        "none": ("average, nobody lies", "muted"),
        "krum": ("Krum as printed", "source"),
        "multi_krum": ("Multi-Krum", "guarantee"),
        "mda": ("MDA", "D"),
        "median": ("median", "measured"),
        "bulyan_multi_krum": ("Bulyan on Multi-Krum", "D'"),
    }
    names = {rule: name for rule, (name, _) in looks.items()} | {"average": "average", "bulyan": "Bulyan as printed"}
    places = [(at, high) for high in (104.0, 98.0, 92.0) for at in (62.0, 280.0)]

    @cache
    def accuracy(rule: str, attack: str, m: int) -> float:
        """Mean over the seeds, in percent."""
        wanted = ("average", "none", 0) if rule == "none" else (rule, attack, liars)
        return 100 * float(np.mean([row["accuracy"] for row in found[epsilon, m, *wanted]]))

    def draw(m: int, attack: str) -> Frame:
        every = {rule: [accuracy(rule, attack, size) for size in sizes] for rule in names}
        now = {rule: float(np.interp(m, sizes, line)) for rule, line in every.items()}
        runs = part["settings"]
        return Frame(
            title=f"{liars} of {WORKERS} lie ({kinds[attack]}), m = {m:,}: Krum as printed {now['krum']:.0f} %, "
            f"Multi-Krum {now['multi_krum']:.0f} %, Bulyan on it {now['bulyan_multi_krum']:.0f} %.",
            readout=f"ε = {epsilon} in each of {runs['steps']} steps. The plain average has {now['average']:.1f} %, "
            f"and {now['none']:.1f} % where nobody lies; Bulyan as printed {now['bulyan']:.1f} %.",
            marks=[
                *(
                    Line(sizes, every[rule], role, Key(name, *at))
                    for (rule, (name, role)), at in zip(looks.items(), places, strict=True)
                ),
                Points([m] * len(looks), [now[rule] for rule in looks], "measured"),
            ],
            table=(
                ["rule", *(f"m = {size:,}" for size in sizes)],
                [[names[rule], *(f"{one:.1f} %" for one in line)] for rule, line in every.items()],
            ),
        )

    meaning = "Little subtracts a deviation from the mean, empire sends a tenth of the mean, turned around."
    return Explorer(
        "byzantine-recorded",
        draw,
        [
            Range("m", "batch m", sizes, 50, "How many of the images a worker draws in a step."),
            Switch("attack", "attack", kinds, "little, minus", meaning),
        ],
        x=Axis("batch m", 45.0, 1100.0, "log"),
        y=Axis("largest accuracy, %", 0.0, 110.0, ticks=[0.0, 20.0, 40.0, 60.0, 80.0]),
        asked="both",
    )
