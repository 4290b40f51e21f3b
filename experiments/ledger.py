"""The ledger: what each mechanism of the package claims, and what an audit of its running code measures.

    python3 -m experiments.ledger                          # the quick setting, about a minute; prints the tables
    python3 -m experiments.ledger --preset thorough --into dpml/datasets/recorded/ledger.json  # its record

Each row runs a mechanism on two neighbouring datasets, some thousand times each, and turns an output into one number.
`dpml.audit` makes a lower bound on epsilon of these numbers. It must lie below the claim of a sound mechanism; above it
for the broken ones, whose number of runs is doubled until it does. All bounds of a table hold together except with
probability 1e-6: a row's own is 1e-6 divided by the number of rows (and, where runs are doubled, of looks).

`missing` says which mechanisms of the package have no row.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import inspect
import json
import math
import pkgutil
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

import dpml
from dpml import data, mechanisms
from dpml.accounting import pld
from dpml.accounting.guarantee import Guarantee
from dpml.audit import gaussian_scores, known_losses, samples
from dpml.byzantine import theory
from dpml.certified.stobatch import budget, local, noise
from dpml.command_line import any_console
from dpml.data import records
from dpml.mechanisms import discrete_noise, floating_point
from dpml.pate import m_samp, m_stab, publish_cost, sparse_vector, voting
from dpml.pate.sparse_vector import broken as broken_vector
from dpml.ptr import broken_trimmed_sum, medians, propose_test_release, single_release, theorems
from dpml.training import broken, dpsgd, leakage, loop, models, trimming
from dpml.training.sampling import FixedSize, FullBatch, Poisson
from experiments.printing import Table, show

RESULTS = records.FOLDER / "ledger.json"
Array = NDArray[np.float64]
Draw = Callable[[bool, int, np.random.Generator], Any]
ALARM = 1e-6  # of the whole table
LOOKS = 17  # a broken mechanism is looked at so often at most
RUNS = {"quick": 40_000, "thorough": 400_000}
D = 1e-5  # delta of many claims
SHOWN = 0.01  # delta at which samples can show most of a Gaussian claim: at D its decisive outputs are too rare


class Row(NamedTuple):
    """A mechanism and two neighbours.

    Attributes:
        mechanism: its name below ``dpml``.
        about: which neighbours, or what is wrong.
        claim: what it says of itself.
        draw: of (on the neighbour?, runs, rng): one number for each run, large where D is likely.
        cost: time of a run, as a multiple of the cheapest: so many runs fewer are made.
        method: "events" for any mechanism; "Gaussian" for one that is known to be of that form; "losses" where `draw`
            returns privacy losses on D.
        broken: whether the claim is false.
        q: probability of the batches that `draw` runs on, those with the record; the others have the same law on both.
    """

    mechanism: str
    about: str
    claim: Guarantee
    draw: Draw
    cost: int = 1
    method: str = "events"
    broken: bool = False
    q: float = 1.0


def claim(epsilon: float, delta: float = 0.0, adjacency: str = "add/remove", kind: str = "exact") -> Guarantee:
    """A guarantee without sampling, as the mechanisms' docstrings state it."""
    return Guarantee(epsilon, delta=delta, kind=kind, adjacency=adjacency)  # type: ignore[arg-type]


def each(run: Callable[[bool, np.random.Generator], float]) -> Draw:
    """For mechanisms that answer once a call."""
    return lambda other, runs, rng: np.array([run(other, rng) for _ in range(runs)], dtype=np.float64)


# ---- training: the loss of example i is w x_i, so that each step is a run of the one-step mechanism ----


class _Steps(torch.optim.SGD):
    """An optimizer that only writes down what it is given."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.seen = [*getattr(self, "seen", []), self.param_groups[0]["params"][0].grad.reshape(-1)[0].clone()]


def training(mechanism: Any, sampling: Any, *, long: int = 0, records: tuple[float, ...] = (1000.0,)) -> Draw:
    """The steps of a run on `long` gradients of -1000, zeros, and the first of `records`; on the neighbour the next."""

    def draw(other: bool, runs: int, rng: np.random.Generator) -> Array:
        values = [-1000.0] * long + [0.0] * (20 - long) + list(records[other : other + 1])
        x = torch.tensor(values, dtype=torch.float64)[:, None]
        model = torch.nn.Linear(1, 1, bias=False, dtype=torch.float64)
        optimizer = _Steps(model.parameters(), lr=1.0)
        loop.train(
            model,
            lambda outputs, y: outputs[:, 0],
            x,
            torch.zeros(len(x)),
            mechanism=mechanism,
            sampling=sampling,
            steps=runs,
            optimizer=optimizer,
            delta=D,
            generator=torch.Generator().manual_seed(int(rng.integers(2**31))),
            trace_every=runs,
        )
        return torch.stack(optimizer.seen).numpy()

    return draw


def one_step(mechanism: Any, sampling: Any, n: int = 20, delta: float = SHOWN) -> Guarantee:
    found: Guarantee = mechanism.guarantee(sampling=sampling, n=n, steps=1, delta=delta)
    return found


def printed_update(step: Any, clip_norm: float, learning_rate: float, others: int, record: float) -> Draw:
    """A printed form of the update of DP-SGD, on zeros with and without one record."""

    def draw(other: bool, runs: int, rng: np.random.Generator) -> Array:
        rows = [[0.0, 0.0]] * others + ([] if other else [[record, 0.0]])
        after = step(
            torch.zeros(runs, 2, dtype=torch.float64),
            gradients=torch.tensor(rows, dtype=torch.float64).expand(runs, -1, -1),
            sigma=4.0,
            clip_norm=clip_norm,
            learning_rate=learning_rate,
            expected_batch=float(others + 1),
            generator=torch.Generator().manual_seed(int(rng.integers(2**31))),
        )
        moved: Array = after[:, 0].numpy() * -math.copysign(1.0, record)
        return moved

    return draw


# ---- what the rows need ----


def any_one(data: Array, members: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Whether a part holds a one: a function that a single record decides."""
    return np.asarray(members @ data > 0.0, dtype=np.int64)


@functools.cache
def reordered() -> tuple[float, float]:
    """Two sums that leave out by clipped norms, of 24 vectors and of 23 of them in another order, far apart."""
    rng, found = np.random.default_rng(0), []
    for _ in range(200):
        rows = rng.choice([-3.0, 3.0], size=(24, 1))  # of length 3, clipped to 1
        rest = rows[rng.permutation(23) + 1]
        pair = (broken_trimmed_sum.by_clipped_norms(some, trim=8, bound=1.0)[0] for some in (rows, rest))
        found.append(tuple(float(total) for total in pair))
    return max(found, key=lambda pair: abs(pair[0] - pair[1]))


def noisy_sum_of_kept(other: bool, runs: int, rng: np.random.Generator) -> Array:
    """Their sum, with noise for one bound."""
    return reordered()[other] + rng.normal(size=runs)


def half_of_the_records(other: bool, runs: int, rng: np.random.Generator) -> Array:
    """Privacy losses of sums over half of the records, without replacement: zeros and a record of 1, or of -1."""
    total = (rng.random(runs) < 0.5) + rng.normal(scale=2.0, size=runs)
    odds = np.exp([(2.0 * total - 1.0) / 8.0, (-2.0 * total - 1.0) / 8.0])  # of the record in the batch, either way
    ratio: Array = np.log1p(odds[0]) - np.log1p(odds[1])
    return ratio


def spread(other: bool, runs: int, rng: np.random.Generator) -> Array:
    """A sum of zeros divided by the data's own q n, in 20,000 coordinates: only the size of the noise differs."""
    n, coordinates, q, sigma = 100 - other, 20_000, 0.05, 20.0
    squares = np.array([rng.chisquare(coordinates) for _ in range(runs)])
    return squares * (sigma / (q * n)) ** 2 * -1.0


def released_by(policy: Any, score: Callable[[Any], float]) -> Draw:
    """The score of what is released of two examples; the first is ink of label 1, or paper of label 0."""

    def run(other: bool, rng: np.random.Generator) -> float:
        x = np.full((2, 2), -1.0)
        x[0] = -1.0 if other else 1.0
        sizes = noise.Sizes(dimension=2, beta=2, hidden=2, classes=2, m=2)
        return score(policy.release(x, np.array([not other, 1], dtype=np.int64), sizes=sizes, rng=rng))

    return each(run)


def impossible(other: bool, runs: int, rng: np.random.Generator) -> Array:
    y = mechanisms.laplace(np.full(runs, float(other)), scale=1.0, rng=rng)
    return 1.0 - floating_point.laplace_can_return(np.clip(y, -25.0, 25.0), center=1.0, scale=1.0)


def batches_of_fixed_size(sampling: Any) -> Draw:
    """Half of the records at a time; the record has the gradient 1000, on the neighbour -1000."""
    return training(dpsgd.dp_sgd(sigma=1.4, clip_norm=0.5), sampling, records=(1000.0, -1000.0))


def test_of_stability(given: dict[str, float], margin: float) -> Draw:
    """Propose-test-release with both local sensitivities small: the privacy loss of its two outputs."""

    def run(other: bool, rng: np.random.Generator) -> float:
        f = given["tau"] * other
        out = propose_test_release.propose_test_release(f, f2=f, margin=margin - other, bound=1.0, rng=rng, **given)
        nearer = abs(out.noisy_margin - margin + 1.0) - abs(out.noisy_margin - margin)
        return float(nearer / given["scale"] - (out.value / given["tau"] - 0.5) / given["sigma"] ** 2)

    return each(run)


SIGMA, TEST_SIGMA, TAU = 2.0, 3.0, 0.5
PTR = {"sigma": 1.1, "scale": 1.0, "delta0": 1e-3}
CORNER = {"clip_norm": 2.0, "q": 25 / 120_000, "m": 25}
MNIST = {"q": 256 / 60_000, "sigma": 1.1, "tau": 0.5, "scale": 1.0, "delta0": 1e-8}
DG = discrete_noise.discrete_gaussian_delta(sigma=1.0, epsilon=2.0)


def of_mechanisms() -> Iterator[Row]:
    """The mechanisms that everything else is made of."""

    def noisy(mechanism: Any, **given: float) -> Draw:
        return lambda other, runs, rng: -1.0 * mechanism(np.full(runs, int(other)), rng=rng, **given)

    def choice(other: bool, rng: np.random.Generator) -> float:
        first, second = [1.0] + [0.0] * 9, [0.0] + [1.0] * 9
        return -float(mechanisms.exponential(second if other else first, epsilon=1.0, rng=rng))

    gaussian = claim(mechanisms.gaussian_epsilon(sigma=1.0, delta=D), D)
    yield Row("mechanisms.laplace", "answers 0 and 1", claim(1.0), noisy(mechanisms.laplace, scale=1.0))
    yield Row("mechanisms.gaussian", "answers 0 and 1", gaussian, noisy(mechanisms.gaussian, sigma=1.0), 1, "Gaussian")
    yield Row(
        "mechanisms.discrete_noise.discrete_laplace",
        "counts 0 and 1",
        claim(1.0),
        noisy(discrete_noise.discrete_laplace, scale=1.0),
        4,
    )
    yield Row(
        "mechanisms.discrete_noise.discrete_gaussian",
        "counts 0 and 1",
        claim(2.0, DG),
        noisy(discrete_noise.discrete_gaussian, sigma=1.0),
        8,
    )
    yield Row("mechanisms.exponential", "scores 1, nine 0, and 0, nine 1", claim(1.0), each(choice), 4)
    yield Row(
        "mechanisms.randomized_response",
        "bits 0 and 1",
        claim(1.0, adjacency="replace-one"),
        noisy(mechanisms.randomized_response, epsilon=1.0),
    )


def of_votes() -> Iterator[Row]:
    """One record moves one vote, or the distance to instability by one."""

    def count(ballots: Callable[..., Any], first: list[int], second: list[int], answer: int, **given: float) -> Draw:
        return lambda other, runs, rng: (
            1.0 * (np.asarray(ballots(np.tile(second if other else first, (runs, 1)), rng=rng, **given)) == answer)
        )

    def published(other: bool, rng: np.random.Generator) -> float:
        cost = publish_cost.publish_gnmax_cost(
            [5, 1] if other else [6, 0], order=4.0, sigma=2.0, epsilon=1.0, delta=1e-3, confidence=0.5, rng=rng
        )
        return -cost.rdp

    def parts(other: bool, rng: np.random.Generator) -> float:
        data = np.array([1.0, float(other)] + [0.0] * 18)
        return float(m_samp.m_samp(data, epsilon=6.0, delta=0.2, n=20, classes=2, train=any_one, rng=rng) == 0)

    def stable(other: bool, runs: int, rng: np.random.Generator) -> Array:
        return 1.0 * m_stab.stability_test(np.full(runs, 3.0 - other), epsilon=1.0, delta=0.1, rng=rng)

    replace = {"adjacency": "replace-one", "kind": "upper bound"}
    argmax = mechanisms.gaussian_epsilon(sigma=SIGMA / math.sqrt(2.0), delta=SHOWN)
    both = mechanisms.gaussian_epsilon(sigma=1.0 / math.sqrt(1.0 / TEST_SIGMA**2 + 2.0 / SIGMA**2), delta=SHOWN)
    confident = {"threshold": 6.0, "sigma_threshold": TEST_SIGMA, "sigma": SIGMA}
    yield Row(
        "pate.voting.noisy_argmax",
        "votes 3:7 and 4:6",
        claim(1.0, **replace),
        count(voting.noisy_argmax, [3, 7], [4, 6], 1, scale=2.0),
    )
    yield Row(
        "pate.voting.gnmax",
        "votes 3:7 and 4:6",
        claim(argmax, SHOWN, **replace),
        count(voting.gnmax, [3, 7], [4, 6], 1, sigma=SIGMA),
    )
    yield Row(
        "pate.voting.confident_gnmax",
        "votes 3:7 and 4:6",
        claim(both, SHOWN, **replace),
        count(voting.confident_gnmax, [3, 7], [4, 6], 0, **confident),
    )
    yield Row(
        "pate.publish_cost.publish_gnmax_cost",
        "votes 6:0 and 5:1",
        claim(1.0, 1e-3, **replace),
        each(published),
        20,
    )
    yield Row(
        "pate.m_stab.m_stab",
        "votes 5:4 and 4:5",
        claim(1.0, 0.05, **replace),
        count(m_stab.m_stab, [9, 4], [8, 5], 0, epsilon=1.0, delta=0.1),
    )
    yield Row("pate.m_stab.stability_test", "distances 3 and 2", claim(1.0, 0.05, **replace), stable)
    yield Row("pate.m_samp.m_samp", "is there a one: one or two in 20", claim(6.0, 0.1, **replace), each(parts), 20)


def of_streams() -> Iterator[Row]:
    """The sparse vector technique, on six answers below and one above, or the other way round.

    The event is that the seventh is the first above. The more answers come before it, the nearer its odds come to the
    claim, and the rarer it is; six is best for so many runs.
    """
    late, early = [0.0] * 6 + [1.0], [1.0] * 6 + [0.0]

    def first(other: bool, rng: np.random.Generator) -> float:
        at = sparse_vector.above_threshold(early if other else late, threshold=0.5, epsilon=3.0, rng=rng)
        return float(at == 6)

    def bits(other: bool, rng: np.random.Generator) -> float:
        stream = sparse_vector.sparse(
            early if other else late, threshold=0.5, cutoff=1, epsilon=3.0, delta=0.0, rng=rng
        )
        return float(next((i for i, above in enumerate(stream) if above), 7) == 6)

    def value(other: bool, rng: np.random.Generator) -> float:
        stream = sparse_vector.numeric_sparse(
            early if other else late, threshold=0.5, cutoff=1, epsilon=3.0, delta=0.0, rng=rng
        )
        return next((x if i == 6 else -99.0 for i, x in enumerate(stream) if x is not None), -99.0)

    def labels(other: bool, rng: np.random.Generator) -> float:
        distances = [6] * 4 if other else [7] * 4
        out = sparse_vector.m_svec([0] * 4, distances=distances, cutoff=1, epsilon=3.0, delta=0.01, rng=rng)
        return float(sum(label is not None for label in out.labels))

    yield Row("pate.sparse_vector.above_threshold", "0000001 and 1111110", claim(3.0), each(first), 4)
    yield Row("pate.sparse_vector.sparse", "0000001 and 1111110", claim(3.0), each(bits), 4)
    yield Row("pate.sparse_vector.numeric_sparse", "0000001 and 1111110", claim(3.0), each(value), 4)
    yield Row("pate.sparse_vector.m_svec", "distances 7 and 6", claim(3.0, 0.01, "replace-one"), each(labels), 8)


def of_tests() -> Iterator[Row]:
    """Propose-test-release: both local sensitivities large, and both small."""

    def middle(other: bool, rng: np.random.Generator) -> float:
        values = [0.0] * (5 - other) + [1.0] * 5
        return -float(medians.private_median(values, low=0.0, high=1.0, tau=TAU / 2.0, rng=rng, **PTR).value)

    known = single_release.single_epsilon(tau=TAU, **PTR, delta=SHOWN)
    small = test_of_stability({"tau": TAU, **PTR}, 12.0)
    yield Row("ptr.medians.private_median", "medians 1/2 and 1", known, each(middle), 20)
    yield Row("ptr.propose_test_release.propose_test_release", "margins 12 and 11", known, small, 20)


def of_training() -> Iterator[Row]:
    """One step, by the trainer itself."""
    half, whole = Poisson(q=0.5, expected_batch=20.0), FullBatch(expected_batch=20.0)
    for mechanism, sampling, long in (
        (dpsgd.dp_sgd(sigma=0.7, clip_norm=0.5), whole, 0),
        (dpsgd.dp_sgd(sigma=0.7, clip_norm=0.5), half, 0),
        (dpsgd.dp_sgd_automatic(sigma=0.7), half, 0),
        (trimming.tsgd(sigma=0.7, clip_norm=0.5, trim=1), whole, 1),
        (trimming.tsgd_ptr(sigma=0.7, clip_norm=0.5, tau=0.5, scale=1.0, delta0=1e-3, trim=4, change=0), half, 0),
    ):
        room = "trimming" if mechanism.name.startswith("tsgd") else "dpsgd"
        about = f"a gradient of 1000 or none, {type(sampling).__name__}"
        yield Row(
            f"training.{room}.{mechanism.name}",
            about,
            one_step(mechanism, sampling),
            training(mechanism, sampling, long=long),
            20,
        )
    fixed, sampling = dpsgd.dp_sgd(sigma=1.4, clip_norm=0.5), FixedSize(m=11)
    yield Row(
        "training.dpsgd.dp_sgd",
        "1000 and -1000, FixedSize",
        one_step(fixed, sampling, 21),
        batches_of_fixed_size(sampling),
        20,
    )


def of_certified() -> Iterator[Row]:
    """StoBatch made sound, by fresh noise and randomized labels."""
    fresh = local.Local(epsilon_x=2.0, epsilon_2=1.0)

    def loss(out: Any) -> float:
        return float(np.clip(out.x[0], -1.0, 1.0).sum() + (out.y[0] - 0.5))

    def labels(other: bool, runs: int, rng: np.random.Generator) -> Array:
        given = budget.randomized_labels(np.full(runs, int(other)), epsilon=1.0, classes=10, rng=rng)
        return 1.0 * (given == 0) - 1.0 * (given == 1)

    yield Row(
        "certified.stobatch.budget.randomized_labels", "labels 0 and 1", claim(1.0, adjacency="replace-one"), labels
    )
    ink = "an image of ink or of paper, and its label"
    yield Row("certified.stobatch.local.Local", ink, fresh.guarantee(), released_by(fresh, loss), 20)


def of_broken() -> Iterator[Row]:
    """What has been printed or programmed, with the claim that was made for it."""
    step = claim(pld.epsilon(q=1.0, sigma=4.0, steps=1, delta=D).epsilon, D)
    spread_claim = one_step(dpsgd.dp_sgd(sigma=20.0, clip_norm=1.0), Poisson(q=0.05, expected_batch=5.0), 100, D)

    def many(
        mechanism: Any, first: list[float], second: list[float], score: Callable[[list[bool]], float], **given: Any
    ) -> Draw:
        return each(
            lambda other, rng: score(
                mechanism(second if other else first, threshold=0.5, epsilon=1.0, rng=rng, **given)
            )
        )

    def half_noise(other: bool, runs: int, rng: np.random.Generator) -> Array:
        return 1.0 * (voting.noisy_argmax(np.tile([4, 6] if other else [3, 7], (runs, 1)), scale=1.0, rng=rng) == 1)

    def one_query(other: bool, rng: np.random.Generator) -> float:
        bits = broken_vector.printed_sparse([-1.0 * other], threshold=0.0, cutoff=1, epsilon=0.1, delta=D, rng=rng)
        return float(bits[0])

    printed_s = theory.theorem_1_noise(epsilon=0.2, delta=D, **CORNER)
    far = theorems.paper_claim(**MNIST, steps=1, delta=D).epsilon

    def at_corner(other: bool, runs: int, rng: np.random.Generator) -> Array:
        """The averages that a worker sends, of batches with the record: the others have gradient -C."""
        m, c = CORNER["m"], CORNER["clip_norm"]
        return (c * (1.0 if not other else -1.0) - (m - 1) * c) / m + rng.normal(scale=printed_s, size=runs)

    rows: list[tuple[Any, ...]] = [
        ("mechanisms.laplace", "in floating point: outputs that 1 cannot give", claim(1.0), impossible, 20, "events"),
        ("pate.voting.noisy_argmax", "claims 1/scale", claim(1.0), half_noise, 1, "events"),
        (
            "pate.sparse_vector.broken.no_threshold_noise",
            "eight answers of -1/4 and of 3/4, all said to be below 1/2",
            claim(1.0),
            many(broken_vector.no_threshold_noise, [-0.25] * 8, [0.75] * 8, lambda bits: float(not any(bits))),
            8,
            "events",
        ),
        (
            "pate.sparse_vector.broken.no_query_noise",
            "01 and 10",
            claim(1.0),
            many(broken_vector.no_query_noise, [0.0, 1.0], [1.0, 0.0], lambda bits: float(bits[1]) - float(bits[0])),
            8,
            "events",
        ),
        ("pate.sparse_vector.broken.printed_sparse", "answers 0 and -1", claim(0.1, D), each(one_query), 8, "events"),
        (
            "ptr.broken_trimmed_sum.by_clipped_norms",
            "24 vectors of length 3, or 23",
            claim(mechanisms.gaussian_epsilon(sigma=1.0, delta=D), D),
            noisy_sum_of_kept,
            1,
            "events",
        ),
        (
            "training.broken.update_clipping_each_coordinate",
            "a gradient of -5",
            step,
            printed_update(broken.update_clipping_each_coordinate, 0.1, 1.0, 9, -5.0),
            1,
            "events",
        ),
        (
            "training.broken.update_clipping_the_mean",
            "a gradient of 1000 among 99 zeros",
            step,
            printed_update(broken.update_clipping_the_mean, 1.0, 1.0, 99, 1000.0),
            4,
            "events",
        ),
        (
            "training.broken.update_noise_outside_learning_rate",
            "learning rate 10",
            step,
            printed_update(broken.update_noise_outside_learning_rate, 1.0, 10.0, 9, 3.0),
            1,
            "events",
        ),
        (
            "training.sampling.Poisson",
            "divides by the data's own q n, in 20,000 coordinates",
            spread_claim,
            spread,
            4,
            "events",
        ),
        (
            "training.sampling.FixedSize",
            "with the guarantee of Poisson samples",
            one_step(dpsgd.dp_sgd(sigma=2.0, clip_norm=1.0), Poisson(q=0.5, expected_batch=10.0), delta=D),
            half_of_the_records,
            1,
            "losses",
        ),
        (
            "certified.stobatch.noise.AsPrinted",
            "one noise for all images",
            claim(0.1, adjacency="replace-one"),
            released_by(noise.AsPrinted(epsilon_1=0.1, epsilon_2=0.1), lambda out: float((out.x[0] - out.x[1]).sum())),
            20,
            "events",
        ),
        (
            "byzantine.theory.theorem_1_noise",
            "25 of 120,000 records, C = 2",
            claim(0.2, D, "replace-one"),
            at_corner,
            1,
            "events",
            CORNER["q"],
        ),
        (
            "ptr.theorems.theorem_4_4_formula",
            "one step, outside its conditions",
            claim(far, D),
            test_of_stability({name: MNIST[name] for name in ("sigma", "tau", "scale", "delta0")}, 30.0),
            20,
            "events",
            MNIST["q"],
        ),
    ]
    yield from (Row(*row[:6], broken=True, q=row[6] if len(row) > 6 else 1.0) for row in rows)


def all_rows() -> tuple[Row, ...]:
    """The sound mechanisms first."""
    groups = (of_mechanisms, of_votes, of_streams, of_tests, of_training, of_certified, of_broken)
    return tuple(row for group in groups for row in group())


# ---- measuring ----


def epsilon_at_least(row: Row, runs: int, *, alarm: float, rng: np.random.Generator) -> float:
    """Return the lower bound of one look, wrong with probability at most `alarm`.

    Where `draw` runs on the batches with the record alone, of probability q: with base bounds b at delta/q, the sampled
    mechanism has at least log(1 + q (e^b - 1)) at delta, since P(E) - e^eps P'(E) on D and D' is q times what it is on
    these batches at log(1 + (e^eps - 1)/q). In one direction; the pairs here are their own mirror images.
    """
    return math.log1p(row.q * math.expm1(base_epsilon_at_least(row, runs, alarm=alarm, rng=rng)))


def base_epsilon_at_least(row: Row, runs: int, *, alarm: float, rng: np.random.Generator) -> float:
    """Return the lower bound for the runs that `draw` makes, at delta/q."""
    delta = row.claim.delta / row.q
    scores = row.draw(False, runs, rng)
    if row.method == "losses":
        return known_losses.epsilon_lower_bound_from_losses(
            scores, delta=delta, confidence=1.0 - alarm, rng=rng
        ).epsilon_at_least
    others = row.draw(True, runs, rng)
    given: dict[str, Any] = {
        "scores_neighbour": others,
        "confidence": 1.0 - alarm,
        "rng": rng,
        "delta": delta,
    }
    if row.method == "Gaussian":
        return gaussian_scores.gaussian_lower_bound_from_scores(scores, **given).epsilon_at_least
    return samples.epsilon_lower_bound_from_scores(scores, **given).epsilon_at_least


def measured(row: Row, *, rows: int, preset: str, seed: int, first: int = 1000) -> dict[str, Any]:
    """One line of the ledger; `first` runs are the first look at a broken mechanism."""
    alarm, rng = ALARM / rows, np.random.default_rng(seed)
    if row.broken:
        runs, found = first // 2, 0.0
        while found <= row.claim.epsilon and runs < 2 ** (LOOKS - 1) * 500:
            runs *= 2
            found = epsilon_at_least(row, runs, alarm=alarm / LOOKS, rng=rng)
    else:
        runs = max(1000, RUNS[preset] // row.cost)
        found = epsilon_at_least(row, runs, alarm=alarm, rng=rng)
    return {
        "mechanism": row.mechanism,
        "about": row.about,
        "broken": row.broken,
        "claim": str(row.claim),
        "kind": row.claim.kind,
        "adjacency": row.claim.adjacency,
        "delta": row.claim.delta,
        "claimed": row.claim.epsilon,
        "at_least": found,
        "method": row.method,
        "runs": runs,
    }


def ledger(preset: str, *, seed: int = 0) -> list[dict[str, Any]]:
    """All lines."""
    rows = all_rows()
    return [measured(row, rows=len(rows), preset=preset, seed=seed + i) for i, row in enumerate(rows)]


def one_run(epsilon: float, *, seed: int) -> float:
    """What one training run with 1,000 canaries shows of its epsilon, with 95 % confidence.

    DP-SGD on the shipped images, 30 steps on half of them each; the canaries move weights that no image moves.
    """
    images = data.fashion_mnist_subset()
    model = models.mlp(generator=torch.Generator().manual_seed(0), hidden=16)
    with torch.no_grad():
        model[1].bias[:2] = -1000.0  # units that never fire: their weights are the canaries' places
    sampling = Poisson(q=0.5, expected_batch=5000.0)
    run: dict[str, Any] = {"sampling": sampling, "steps": 30, "delta": D}
    sigma = dpsgd.dp_sgd(sigma=1.0, clip_norm=1.0).noise_multiplier(n=10_000, epsilon=epsilon, **run)
    found = leakage.dirac_audit(
        model,
        lambda outputs, labels: cross_entropy(outputs, labels, reduction="none"),
        models.to_tensors(images.train_images),
        models.to_labels(images.train_labels),
        mechanism=dpsgd.dp_sgd(sigma=sigma, clip_norm=1.0),
        learning_rate=2.0,
        places=torch.arange(1000),
        clip_norm=1.0,
        guesses=100,
        confidence=0.95,
        generator=torch.Generator().manual_seed(seed),
        **run,
    )
    return found.evidence.epsilon_at_least


def one_run_lines(*, seeds: int) -> list[dict[str, Any]]:
    """The median of so many runs, the best of them, and the processor time of one."""
    lines = []
    for epsilon in (1.0, 4.0):
        start = time.process_time()
        shown = [one_run(epsilon, seed=seed) for seed in range(seeds)]
        seconds = (time.process_time() - start) / seeds
        line = {"claimed": epsilon, "runs": seeds, "median": float(np.median(shown)), "most": max(shown)}
        lines.append({**line, "seconds": seconds})
    return lines


NO_MECHANISM = {
    "arguments": "checks an argument",
    "audit": "splits samples",
    "byzantine.simulation.simulate": "its workers run a mechanism of training",
    "certified.attacks.pgd": "an attack",
    "certified.smoothing.certify": "noise for robustness, no claim about data",
    "certified.stobatch.baselines": "noise for robustness, no claim about data",
    "certified.stobatch.central": "runs a mechanism of training",
    "certified.stobatch.distributed": "trains on what a policy of noise released",
    "certified.stobatch.inference.infer": "noise for robustness, no claim about data",
    "certified.stobatch.training": "trains on what a policy of noise released",
    "pate.m_samp.subsample_votes": "its votes are not released",
    "training.corruption": "corrupts data",
    "training.dpsgd.sgd": "claims nothing",
    "training.dpsgd.update": "the step of dp_sgd, for one batch",
    "training.ensemble": "trains teachers and students, releases nothing",
    "training.leakage": "attacks and audits",
    "training.loop.train": "runs a mechanism",
    "training.mechanism": "makes mechanisms",
    "training.models": "makes networks",
    "training.sampling": "draws batches",
}
"""Functions that take randomness or make a mechanism, and have no row: a room, a module or a function, and why."""


def mechanisms_of_the_package() -> list[str]:
    """Public functions that take a source of randomness or return a mechanism, found by walking the package."""
    found = []
    for _, name, _ in pkgutil.walk_packages(dpml.__path__, "dpml."):
        if "._" in name or name.split(".")[1] in {"classroom", "lessons", "datasets", "command_line", "__main__"}:
            continue
        module = importlib.import_module(name)
        for attribute in getattr(module, "__all__", ()):
            value = getattr(module, attribute)
            if inspect.isfunction(value) and value.__module__ == name:
                signature = inspect.signature(value)
                returns = str(signature.return_annotation) == "Mechanism"
                if returns or {"rng", "generator"} & set(signature.parameters):
                    found.append(f"{name}.{attribute}".removeprefix("dpml."))
    return found


def missing() -> list[str]:
    """Mechanisms of the package without a row, and without a word why."""
    named = {row.mechanism for row in all_rows()}

    def known(name: str) -> bool:
        short = name.split(".")[0] + "." + name.split(".")[-1]  # mechanisms.laplace stands for its module's
        return name in named or short in named or any(f"{name}.".startswith(f"{word}.") for word in NO_MECHANISM)

    return [name for name in mechanisms_of_the_package() if not known(name)]


def tables(record: dict[str, Any]) -> list[Table]:
    """Sound and broken mechanisms, as tables of text."""
    head = ["Mechanism", "Neighbours", "δ", "ε claimed", "ε at least", "Runs", "By"]
    notes = {
        "Sound": "Every lower bound lies below its claim. A gap is no slack in the claim: it is what so many runs, and "
        "this event, do not show. 0 says that nothing was shown.",
        "Broken": "Each was made by somebody in good faith, and each is caught. The runs were doubled until the bound "
        "passed the claim.",
    }
    found: list[Table] = []
    for title, note in notes.items():
        lines = [line for line in record["rows"] if line["broken"] is (title == "Broken")]
        body = [
            [
                f"`{line['mechanism'].split('.')[-1]}` ({line['mechanism'].split('.')[0]})",
                line["about"],
                f"{line['delta']:.2g}",
                f"{line['claimed']:.4g}",
                f"{line['at_least']:.3g}",
                f"{line['runs']:,}",
                line["method"],
            ]
            for line in lines
        ]
        found.append((title, note, head, body))
    note = (
        "DP-SGD with 1,000 canaries among 10,000 images, of which 100 are guessed, at confidence 0.95 for each run: "
        "what a single run shows. One in twenty may show more than is true. Processor time of one core."
    )
    body = [
        [f"{line[key]:{form}}" for key, form in (("claimed", "g"), ("median", ".2f"), ("most", ".2f"), ("runs", "d"))]
        + [f"{line['seconds']:.1f} s"]
        for line in record["one_run"]
    ]
    found.append(("One training run", note, ["ε claimed", "ε at least, median", "most", "Runs", "Time of one"], body))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="What the mechanisms claim, and what an audit measures.")
    parser.add_argument("--preset", choices=tuple(RUNS), default="quick")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--into", type=Path, help="file for the record, JSON")
    options = parser.parse_args()
    record = {
        "command": f"python3 -m experiments.ledger --preset {options.preset} --seed {options.seed}",
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"python": platform.python_version(), "numpy": np.__version__, "torch": torch.__version__},
        "alarm": ALARM,
        "rows": ledger(options.preset, seed=options.seed),
        "one_run": one_run_lines(seeds=20),
    }
    show(tables(record))
    if options.into:
        options.into.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    any_console()
    main()
