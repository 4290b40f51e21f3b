r"""Graded exercises of chapter 05: clipping by parts, how far a sum moves, a noisy step, rules that do not bound what they
should, batches and steps for the accountant, how long the noise is, statements, an argument.

A sum of vectors that are clipped to C moves by C when an example is added or removed, and by 2C when one is replaced.
Parts clipped to C_1, ..., C_k make vectors of length at most the root of the sum of their squares. Noise of standard
deviation s in each of d coordinates has length s times root d, in the root mean square.
"""

from __future__ import annotations

import numpy as np

from assignments.item import Argued, Graded, Sheet
from assignments.items import drawing
from assignments.items.drawing import code, counterexample, function, mechanism, number, statements, tex
from dpml.accounting import rdp

IMPORTS = drawing.imports("from dpml.accounting import rdp")


def make(rng: np.random.Generator) -> Sheet:
    """Draw the sheet."""
    clipped = clip_parts(rng) if rng.random() < 0.5 else shortened(rng)
    step = two_norms(rng) if rng.random() < 0.5 else micro_batches(rng)
    claim = (per_coordinate, realised_size, factor_of_one)[rng.integers(3)]
    run = accumulated(rng) if rng.random() < 0.5 else epochs_within(rng)
    argued = batch_norm() if rng.random() < 0.5 else best_of_many(rng)
    items = (clipped, moves(rng), step, claim(rng), run, noise_length(rng), statements(rng, BANK), argued)
    return Sheet("Graded exercises 05: DP-SGD", IMPORTS, items)


def drawn_gradients(rng: np.random.Generator, rows: int, columns: int, size: float) -> np.ndarray:
    """Rows of all lengths from about a fifth of `size` to five times it, in turn, in random directions."""
    directions = rng.normal(size=(rows, columns))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    lengths = size * np.resize([0.3, 2.0, 0.6, 4.0], rows) * rng.uniform(0.8, 1.2, size=rows)
    return (directions * lengths[:, None]).round(3)


def clip_parts(rng: np.random.Generator) -> Graded:
    inputs = []
    for rows, columns in ((1, 4), (4, 4), (3, 5), (5, 6)):
        first, second = (float(x) for x in rng.choice([0.4, 0.7, 1.0, 1.5, 2.5], size=2, replace=False))
        inputs.append({
            "gradients": drawn_gradients(rng, rows, columns, first + second),
            "split": int(rng.integers(1, columns)), "norms": (first, second),
        })  # fmt: skip
    inputs.append({"gradients": np.array([[0.0, 0.0, 3.0], [3.0, 4.0, 0.0]]), "split": 2, "norms": (1.0, 0.5)})
    return function(
        "clip_parts",
        title="Clip two layers, each by itself",
        asked=r"""
            A model has two layers. `gradients` is a NumPy array with one row for each example; the first `split` numbers of a
            row belong to the first layer, the others to the second.

            Write `clip_parts(gradients, *, split, norms)`. It returns an array of the same shape in which, for each example, the
            part of the first layer is shortened to the Euclidean length `norms[0]` if it is longer, and the part of the second
            to `norms[1]`, each in its own direction. Parts that are short enough stay as they are, zeros too.
        """,
        takes="gradients, *, split, norms",
        right="""
            result = []
            for part, norm in zip((gradients[:, :split], gradients[:, split:]), norms):
                lengths = {lengths}
                result.append(part * {factor})
            return np.concatenate(result, axis=1)
        """,
        parts={
            "lengths": "np.linalg.norm(part, axis=1, keepdims=True)",
            "factor": "(norm / np.maximum(lengths, norm))",
        },
        inputs=inputs,
        cases={
            "leaves short parts as they are": "np.allclose(f(np.array([[0.3, 0.4, 0.2]]), split=2, norms=(1.0, 1.0)), "
            "[[0.3, 0.4, 0.2]])",
            "has the shape of the gradients": "np.shape(f(np.ones((3, 4)), split=1, norms=(1.0, 2.0))) == (3, 4)",
        },
        mistakes={
            "the whole row is shortened by one factor; each part has its own norm and its own factor.": """
                lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
                norm = np.sqrt(norms[0] ** 2 + norms[1] ** 2)
                return gradients * (norm / np.maximum(lengths, norm))
            """,
            "short parts are made longer: this gives every part the same length.": {
                "factor": "(norm / np.where(lengths == 0, np.inf, lengths))"
            },
            "each number is clipped by itself, which changes the direction.": """
                first = np.clip(gradients[:, :split], -norms[0], norms[0])
                return np.concatenate([first, np.clip(gradients[:, split:], -norms[1], norms[1])], axis=1)
            """,
            "the length is taken over all examples; each example has its own.": {"lengths": "np.linalg.norm(part)"},
        },
        hint="Take the two parts apart: for each example and each part one length, and one factor of at most 1.",
    )


def shortened(rng: np.random.Generator) -> Graded:
    inputs = [
        {"gradients": drawn_gradients(rng, rows, columns, 1.5), "clip_norm": float(c), "gamma": float(g)}
        for rows, columns, c, g in zip(
            (1, 3, 4, 5), (2, 3, 2, 4), rng.choice([0.5, 1.5, 2.0, 3.0], size=4, replace=False),
            rng.choice([0.01, 0.1, 0.5], size=4), strict=True,
        )
    ]  # fmt: skip
    inputs.append({"gradients": np.array([[0.0, 0.0], [3.0, 4.0]]), "clip_norm": 1.5, "gamma": 0.1})
    lengths = "np.linalg.norm(gradients, axis=1, keepdims=True)"
    return function(
        "normalised",
        title="Normalise in place of clipping",
        asked=r"""
            Some programs do not clip: they replace the gradient $g$ of each example by $C\,g/(\lVert g\rVert + \gamma)$, with a
            small $\gamma > 0$, so that every vector is shorter than $C$, and nearly that long.

            Write `normalised(gradients, *, clip_norm, gamma)`, with $C$ and $\gamma$. `gradients` is a NumPy array with one row for
            each example; the result has the same shape. Rows of zeros stay zeros.
        """,
        takes="gradients, *, clip_norm, gamma",
        right="gradients * (clip_norm / {below})",
        parts={"below": f"({lengths} + gamma)"},
        inputs=inputs,
        cases={
            "leaves zeros as they are": "np.allclose(f(np.zeros((2, 3)), clip_norm=1.0, gamma=0.1), 0.0)",
            "makes every row shorter than the clip norm": "np.linalg.norm(f(np.array([[30.0, 40.0]]), clip_norm=2.0, "
            "gamma=0.1)) < 2",
        },
        mistakes={
            "this clips: rows that are short must grow here.": {"below": f"np.maximum({lengths}, clip_norm)"},
            "gamma is added to each number before the length is taken, not to the length.": {
                "below": "np.linalg.norm(gradients + gamma, axis=1, keepdims=True)"
            },
            "the length is taken over all examples; each example has its own.": {
                "below": "(np.linalg.norm(gradients) + gamma)"
            },
            "this is the sum of absolute values; the length is Euclidean.": {
                "below": "(np.abs(gradients).sum(axis=1, keepdims=True) + gamma)"
            },
        },
        hint="One length for each row, and one factor.",
    )


# What is released: its description, and how far one example moves it, by added or removed.
RULES = {
    "layers": ("For each example, the gradient of each layer is clipped to its own norm $C_j$, the entries of `norms`. The sum "
               "over the examples, of all layers together, is released", "np.sqrt(np.sum(np.square(norms)))"),
    "coordinates": ("For each example, number $j$ of the gradient is clipped to $[-c_j, c_j]$, where the $c_j$ are the entries of "
                    "`norms`. The sum over the examples is released", "np.sqrt(np.sum(np.square(norms)))"),
    "phases": ("The gradient of each example is clipped to the norm $C_j$, and the sum over the examples is released, for "
               "several losses, $j = 1, 2, \\dots$, with their own norms, the entries of `norms`. All sums are released as one "
               "long vector", "np.sqrt(np.sum(np.square(norms)))"),
}  # fmt: skip


def moves(rng: np.random.Generator) -> Graded:
    words, length = list(RULES.values())[rng.integers(3)]
    replaced = bool(rng.random() < 0.5)
    mean = bool(rng.random() < 0.5)
    inputs = [
        {
            "norms": rng.choice([0.2, 0.5, 1.0, 1.5, 2.0, 4.0], size=n, replace=False),
            "divisor": float(rng.integers(20, 500)),
        }
        for n in (2, 3, 5, 4)
    ]

    def answer(size: str, *, twice: bool = replaced, divided: bool = mean) -> str:
        return f"{'2 * ' * twice}{size}{' / divisor' * divided}"

    relation = "replaced by any other (replace-one)" if replaced else "added or removed (add/remove)"
    after = ", divided by the public number `divisor`" if mean else ", not divided by anything"
    other = "a replaced example can turn from one end to the other: twice as far."
    if not replaced:
        other = "twice this length is for a replaced example; one that is added or removed moves the sum once."
    scaled = "the public divisor makes the move smaller." if mean else "nothing is divided here."
    return function(
        "moved_by",
        title="How far can one example move it?",
        asked=rf"""
            {words}{after}. Nothing else is known of the gradients.

            Write `moved_by(norms, *, divisor)`: the largest Euclidean length by which what is released can move when one example
            is {relation}. `norms` is a NumPy array. Not every argument has to play a part.
        """,
        takes="norms, *, divisor",
        right=answer(length),
        inputs=inputs,
        cases={
            "is in proportion to the norms": "abs(f(np.array([2.0, 4.0]), divisor=10.0) / f(np.array([1.0, 2.0]), divisor=10.0) "
            "- 2) < 1e-9",
        },
        mistakes={
            other: answer(length, twice=not replaced),
            "lengths of parts at right angles add up in squares.": answer("np.sum(norms)"),
            "all parts can move at once, not the largest alone.": answer("np.max(norms)"),
            scaled: answer(length, divided=not mean),
        },
        hint="Put together the worst gradient of one example: what is its length, and what takes its place?",
    )


STEP_LAW = """
    def clipped(rows, norm):
        return rows * (norm / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), norm))

    return [laws.normal(center, noise * {deviation}) for center in {center}]
"""
STEP = """
    def clipped(rows, norm):
        return rows * (norm / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), norm))

    center = {center}
    return center + rng.normal(scale={deviation}{each})
"""


def two_norms(rng: np.random.Generator) -> Graded:
    first, second = (float(x) for x in rng.choice([0.5, 1.0, 2.0, 3.0], size=2, replace=False))
    sigma = float(rng.choice([0.5, 0.7, 0.9]))
    columns, split = 4, int(rng.integers(1, 4))
    gradients = drawn_gradients(rng, 4, columns, first + second)
    more = np.vstack([gradients, 30 * np.sign(gradients[:1])])
    common = {"split": split, "norms": (first, second), "sigma": sigma, "expected_batch": float(rng.integers(2, 6))}
    other = {"split": 2, "norms": (1.5, 0.6), "sigma": round(1.7 * sigma, 2), "expected_batch": 7.0}
    parts = "np.concatenate([clipped(gradients[:, :split], norms[0]), clipped(gradients[:, split:], norms[1])], axis=1)"
    return mechanism(
        "noisy_mean",
        title="A step with two clip norms",
        asked=r"""
            `gradients` is a NumPy array with a row for each example of a batch, at least one. The first `split` numbers of a row
            belong to the first layer, the others to the second. Neighbours have one example more or less (add/remove).

            Write `noisy_mean(gradients, *, split, norms, sigma, expected_batch, rng)`: shorten, for each example, the part of the
            first layer to the Euclidean length `norms[0]` where it is longer, and the part of the second to `norms[1]`; add up over
            the examples; add independent Gaussian noise, of the same standard deviation in each coordinate; divide by
            `expected_batch`, a public number. The noise multiplier `sigma` is the standard deviation of the noise on the sum, over
            the largest Euclidean length by which one example can move the whole sum. Return an array, and take all randomness from
            `rng`.
        """,
        takes="gradients, *, split, norms, sigma, expected_batch",
        right=STEP,
        law=STEP_LAW,
        parts={
            "center": f"{parts}.sum(axis=0) / expected_batch",
            "deviation": "sigma * np.sqrt(norms[0] ** 2 + norms[1] ** 2) / expected_batch",
            "each": ", size=len(center)",
        },
        called={"gradients": np.array([[1.0, 2.0, 0.5], [0.1, 0.3, 0.2]]), "split": 1, "norms": (1.0, 0.5), "sigma": 1.0,
                "expected_batch": 2.0},
        returns=(3,),
        settings=[
            {"gradients": gradients} | common,
            {"gradients": more} | common,
            {"gradients": drawn_gradients(rng, 3, 5, 1.0)} | other,
        ],
        neighbours=[],
        mistakes={
            "the lengths of the two parts add up in squares.": {
                "deviation": "sigma * (norms[0] + norms[1]) / expected_batch",
            },
            "one example moves both parts at once; the noise must cover their length together.": {
                "deviation": "sigma * max(norms) / expected_batch",
            },
            "the divisor goes for the noise as well.": {"deviation": "sigma * np.sqrt(norms[0] ** 2 + norms[1] ** 2)"},
            "the divisor must be the public number, not the number of rows.": {"center": f"{parts}.mean(axis=0)"},
        },
        unexplained={"one noise for all": {"each": ""}},
    )  # fmt: skip


def micro_batches(rng: np.random.Generator) -> Graded:
    clip_norm, sigma = float(rng.choice([0.5, 1.5, 2.0])), float(rng.choice([0.5, 0.7, 0.9]))
    size = int(rng.choice([4, 8, 16]))
    means = drawn_gradients(rng, 4, 3, clip_norm)
    changed = means.copy()
    changed[0] = 20 * np.sign(means[0])
    common = {"clip_norm": clip_norm, "sigma": sigma}
    return mechanism(
        "noisy_sum",
        title="Micro-batches: means that are clipped",
        asked=rf"""
            To save time, a program clips not each example but the mean gradient of each micro-batch of {size} examples. The
            micro-batches are fixed: when one example is removed, a blank with the gradient 0 takes its place, so that only the mean
            of its own micro-batch changes, and this mean can become any vector.

            Write `noisy_sum(means, *, clip_norm, sigma, rng)`. `means` is a NumPy array with a row for each micro-batch, its mean
            gradient. Shorten each row to the Euclidean length `clip_norm` where it is longer, add up over the rows, and return the
            sum with independent Gaussian noise in each coordinate. The noise multiplier `sigma` is the standard deviation of the
            noise over the largest length by which one example can move the sum. Take all randomness from `rng`.
        """,
        takes="means, *, clip_norm, sigma",
        right=STEP,
        law=STEP_LAW,
        parts={
            "center": "clipped(means, clip_norm).sum(axis=0)", "deviation": "2 * sigma * clip_norm",
            "each": ", size=len(center)",
        },
        called={"means": np.array([[1.0, 2.0], [0.1, 0.3]]), "clip_norm": 1.0, "sigma": 1.0},
        returns=(2,),
        settings=[
            {"means": means} | common,
            {"means": changed} | common,
            {"means": 4 * np.abs(drawn_gradients(rng, 5, 2, 3.0)), "clip_norm": 3.0, "sigma": round(1.6 * sigma, 2)},
        ],
        neighbours=[],
        mistakes={
            "this is for rows that appear or vanish; here one example turns a row from one end to the other.": {
                "deviation": "sigma * clip_norm",
            },
            f"the mean of {size} examples that is clipped afterwards does not move {size} times less: one example can rule it.": {
                "deviation": f"2 * sigma * clip_norm / {size}",
            },
            "the rows are added up first; each row must be clipped by itself.": {
                "center": "clipped(means.sum(axis=0, keepdims=True), clip_norm)[0]",
            },
            "sigma counts in units of what one example can move.": {"deviation": "2 * sigma"},
        },
        unexplained={"one noise for all": {"each": ""}},
    )  # fmt: skip


def per_coordinate(rng: np.random.Generator) -> Graded:
    d, clip_norm = int(rng.integers(4, 40)), float(rng.choice([0.1, 0.5, 2.0, 3.0]))
    least = 0.8 * float(np.sqrt(d))
    return counterexample(
        "gradient",
        title="Refute it: each number is clipped",
        asked=rf"""
            A colleague clips each number of a gradient to $[-C, C]$ and says: "No number is larger than $C$, so noise for the
            sensitivity $C$ is enough: the clipped gradient has a Euclidean length of about $C$ at most."

            Refute it for $C = {clip_norm:g}$: set `gradient` to a list of {d} numbers that has, after this clipping, a length of at
            least ${least:.1f}\,C$.
        """,
        right=[f"[{10 * clip_norm}] * {d}"],
        formed=f"""
            numbers = np.asarray(answer, dtype=float)
            return None if numbers.shape == ({d},) and np.isfinite(numbers).all() else "it must hold {d} finite numbers."
        """,
        refutes=f"""
            length = np.linalg.norm(np.clip(np.asarray(answer, dtype=float), -{clip_norm}, {clip_norm}))
            if length < {round(least, 1)} * {clip_norm}:
                return "after the clipping it is shorter than that. Which gradients are hit in every coordinate?"
            return None
        """,
        wrong={
            "one large number": [f"[1000.0] + [0.0] * {d - 1}"],
            "numbers that are never clipped": [f"[{clip_norm / 2}] * {d}"],
        },
    )


def realised_size(rng: np.random.Generator) -> Graded:
    n, clip_norm = int(rng.integers(5, 30)), float(rng.choice([0.5, 1.0, 2.0]))
    share = 1.6
    return counterexample(
        "gradients",
        title="Refute it: divided by what came",
        asked=rf"""
            A program clips each gradient to the length $C$ and divides their sum by the number of examples that happen to be in the
            batch. Its author says: "Each example has a share of $1/{n}$ in a batch of {n}. So removing one moves the mean by at most
            $C/{n}$, up to rounding."

            Refute it for $C = {clip_norm:g}$. Every gradient is a single number, so it is clipped to $[-C, C]$. Set `gradients` to a
            list of {n} numbers, such that the clipped mean moves by at least ${share:g}\,C/{n}$ when the **first** of them is removed
            and the other {n - 1} are divided by {n - 1}.
        """,
        right=[f"[{-clip_norm}] + [{clip_norm}] * {n - 1}"],
        formed=f"""
            numbers = np.asarray(answer, dtype=float)
            return None if numbers.shape == ({n},) and np.isfinite(numbers).all() else "it must hold {n} finite numbers."
        """,
        refutes=f"""
            numbers = np.clip(np.asarray(answer, dtype=float), -{clip_norm}, {clip_norm})
            if abs(numbers.mean() - numbers[1:].mean()) < {share} * {clip_norm} / {n}:
                return "it moves by less. The divisor changes as well: what does that do to the terms of the others?"
            return None
        """,
        wrong={
            "the others are zero": [f"[1000.0] + [0.0] * {n - 1}"],
            "all alike": [f"[{clip_norm}] * {n}"],
            "half and half": [f"[{clip_norm}] * {n // 2} + [{-clip_norm}] * {n - n // 2}"],
        },
    )


def factor_of_one(rng: np.random.Generator) -> Graded:
    clip_norm, times = float(rng.choice([0.1, 0.2, 0.5])), float(rng.choice([1.5, 2.0, 2.5]))
    d = int(rng.integers(3, 8))
    return counterexample(
        "gradient",
        title="Refute it: a clipping rule with a slip",
        asked=rf"""
            A program replaces the gradient $g$ of an example by $g \cdot \min(1, C/\lVert g\rVert_\infty)$, where
            $\lVert g\rVert_\infty$ is the largest absolute value of its numbers, and 0 by 0. Its author says: "So every gradient
            has at most the Euclidean length $C$."

            Refute it for $C = {clip_norm:g}$: set `gradient` to a list of {d} numbers whose replacement is longer than
            ${times if times**2 < d else 1.5:g}\,C$.
        """,
        right=[f"[{3 * clip_norm}] * {d}"],
        formed=f"""
            numbers = np.asarray(answer, dtype=float)
            return None if numbers.shape == ({d},) and np.isfinite(numbers).all() else "it must hold {d} finite numbers."
        """,
        refutes=f"""
            numbers = np.asarray(answer, dtype=float)
            largest = max(np.abs(numbers).max(), 1e-300)
            length = np.linalg.norm(numbers * min(1.0, {clip_norm} / largest))
            if length <= {times if times**2 < d else 1.5} * {clip_norm}:
                return "its replacement is not so long. Which vectors are much longer than their largest number?"
            return None
        """,
        wrong={
            "one large number": [f"[1000.0] + [0.0] * {d - 1}"],
            "a short gradient": [f"[{clip_norm / 10}] * {d}"],
        },
    )


def accumulated(rng: np.random.Generator) -> Graded:
    n, pieces, piece = int(rng.choice([20_000, 30_000, 50_000])), int(rng.choice([4, 8])), int(rng.choice([25, 50]))
    batch = pieces * piece
    n, epochs, sigma = batch * (n // batch), int(rng.integers(5, 30)), float(rng.choice([0.9, 1.1, 1.4]))
    delta = 1e-5
    return number(
        "total_epsilon",
        title="Accumulated gradients",
        asked=rf"""
            A program trains with DP-SGD on {n:,} examples; this number is public. Batches are Poisson samples of expected size
            {batch}. Since so many do not fit into memory, each batch is handled in {pieces} pieces of about {piece} examples: the
            clipped gradients of the pieces are added up, and noise is added once for each batch, of multiplier
            $\sigma = {sigma:g}$ for the sum of the whole batch. The program runs for {epochs} epochs, that is, {epochs} times {n:,}
            examples are drawn in expectation.

            Set `total_epsilon`, to at least four digits, to what `rdp.epsilon(q=..., sigma=..., steps=..., delta=...).epsilon` says
            of this training, for add/remove and $\delta = {tex(delta)}$.
        """,
        right="rdp.epsilon(q={q}, sigma={sigma}, steps={steps}, delta=1e-5).epsilon",
        parts={"q": f"{batch} / {n}", "sigma": sigma, "steps": epochs * n // batch},
        mistakes={
            "a piece is no step: the noise comes once for each batch.": {
                "q": f"{piece} / {n}",
                "steps": pieces * epochs * n // batch,
            },
            "an epoch has many steps.": {"steps": epochs},
            "the examples of a whole batch are sampled, not those of a piece.": {"q": f"{piece} / {n}"},
            "noise is drawn once for the batch, not once for each piece.": {"sigma": f"{sigma} * math.sqrt({pieces})"},
        },
        rel=1e-3,
    )


def epochs_within(rng: np.random.Generator) -> Graded:
    batch, sigma = int(rng.choice([100, 200, 250])), float(rng.choice([1.0, 1.2, 1.5]))
    per_epoch = int(rng.choice([100, 200, 240]))
    n, about = batch * per_epoch, int(rng.integers(8, 40))
    total = round(rdp.epsilon(q=batch / n, sigma=sigma, steps=about * per_epoch, delta=1e-5).epsilon + 0.03, 2)
    call = "rdp.epsilon(q={q}, sigma={sigma}, steps={steps}, delta=1e-5).epsilon <= {total}"
    within = call.format(q=f"{batch} / {n}", sigma=sigma, steps=f"e * {per_epoch}", total=total)
    alone = call.format(q=f"{batch} / {n}", sigma=sigma, steps="e", total=total)
    one = f"rdp.epsilon(q={batch} / {n}, sigma={sigma}, steps={per_epoch}, delta=1e-5).epsilon"
    return number(
        "epochs",
        title="How many epochs are within the budget?",
        asked=rf"""
            DP-SGD on {n:,} examples, a public number, with Poisson samples of expected size {batch} and noise multiplier
            $\sigma = {sigma:g}$. An epoch is as many steps as draw {n:,} examples in expectation.

            Set `epochs` to the largest whole number of epochs for which
            `rdp.epsilon(q=..., sigma=..., steps=..., delta=...).epsilon` is at most ${total:g}$ at $\delta = 10^{{-5}}$
            (add/remove).
        """,
        setup=f"""
            e = 1
            while {within.replace("e * ", "(e + 1) * ")}:
                e += 1
        """,
        right="e",
        mistakes={
            "with one epoch more the budget is exceeded.": "e + 1",
            "these are steps; an epoch has many of them.": f"e * {per_epoch}",
            "epsilon is not in proportion to the number of epochs.": f"math.floor({total} / {one})",
            "without sampling: the accountant needs the expected size over the number of examples.": "max([0] + [e for e in "
            f"range(1, 60) if {alone.replace(f'q={batch} / {n}', 'q=1.0')}])",
        },
        rel=0.0,
    )


def noise_length(rng: np.random.Generator) -> Graded:
    inputs = [
        {"sigma": float(s), "clip_norm": float(c), "dimension": int(d), "length": float(r)}
        for s, c, d, r in zip(
            rng.choice([0.8, 1.1, 1.5, 4.0], size=5), rng.choice([0.1, 0.5, 2.0], size=5),
            rng.integers(50, 90_000, size=5), rng.choice([0.05, 0.2, 0.7], size=5), strict=True,
        )
    ]  # fmt: skip
    batch = bool(rng.random() < 0.5)
    if batch:
        name, asked, takes = "needed_batch", r"the smallest divisor $B$ (not rounded) for which", "dimension"
        right = "sigma * clip_norm * math.sqrt(dimension) / length"
        wrong = {
            "noise in d coordinates is root d times as long, not d times.": "sigma * clip_norm * dimension / length",
            "this is the noise of one coordinate.": "sigma * clip_norm / length",
            "the noise counts in units of the clip norm.": "sigma * math.sqrt(dimension) / length",
        }
    else:
        name, asked, takes = "largest_dimension", r"the largest dimension $d$ (not rounded) for which", "batch"
        inputs = [
            {key: item for key, item in one.items() if key != "dimension"} | {"batch": float(b)}
            for one, b in zip(inputs, rng.integers(50, 4000, size=5), strict=True)
        ]
        right = "(length * batch / (sigma * clip_norm)) ** 2"
        wrong = {
            "noise in d coordinates is root d times as long, not d times.": "length * batch / (sigma * clip_norm)",
            "the divisor makes the noise shorter, too.": "(length / (sigma * clip_norm)) ** 2",
            "the noise counts in units of the clip norm.": "(length * batch / sigma) ** 2",
        }
    example = f"sigma=1.0, clip_norm=1.0, {takes}={{}}, length=0.5"
    more, less = ("4", "1") if batch else ("2.0", "1.0")
    ratio = 2 if batch else 4
    return function(
        name,
        title="How long is the noise?",
        asked=rf"""
            DP-SGD adds Gaussian noise of standard deviation $\sigma C$ in each of $d$ coordinates to the sum of the clipped
            gradients, and divides by $B$. The length of the noise in the result is measured by the root of the mean of its squared
            Euclidean length.

            Write `{name}(*, sigma, clip_norm, {takes}, length)`: {asked} this length is at most `length`. Here `clip_norm` is $C$,
            and `{takes}` is ${"d" if batch else "B"}$.
        """,
        takes=f"*, sigma, clip_norm, {takes}, length",
        right=right,
        inputs=inputs,
        cases={
            f"grows by a factor of {ratio} if `{takes}` grows by a factor of {more[0]}": f"abs(f({example.format(more)}) / "
            f"f({example.format(less)}) - {ratio}) < 1e-9",
        },
        mistakes=wrong,
        hint="The squares of the coordinates add up.",
    )


BANK = [
    ("Clipping each example to $C$ bounds what one example adds to the sum, whatever its loss is.", True,
     "the bound is on the vector that is added, not on how it came about."),
    ("With BatchNorm in training mode, the gradient of one example depends on that example alone.", False,
     "the mean and the variance of the batch mix the examples."),
    ("If the loss is the mean over the batch, the gradients of the examples must be clipped before they are averaged, or be "
     "multiplied by the batch size first.", True, "the mean has made each of them smaller than it is."),
    ("A batch that happens to be empty must be skipped, without noise and without a step.", False,
     "whether a step was taken would tell how many were drawn."),
    ("Choosing the learning rate by the accuracy of several private runs costs nothing, if only the best model is released.",
     False, "each run has looked at the data; the choice has to be paid for."),
    ("A clip norm that is far larger than all gradients makes the noise larger than needed and clips nothing.", True,
     "the noise is in proportion to the clip norm."),
    ("The noise may be added to the sum of the gradients of each piece of a batch, once for each piece, without harm to "
     "privacy.", True, "more noise than needed does not harm privacy, only accuracy."),
    ("If the number $n$ of examples is used as a divisor and is not public, it needs protection of its own.", True,
     "the noise then has another scale on a neighbouring dataset, and its size tells."),
    ("Momentum applied to the noisy gradient costs no further privacy.", True, "it is post-processing of the noisy gradients."),
    ("Clipping the mean of the batch to $C$ bounds what one example adds by $C$ over the batch size.", False,
     "one long gradient can rule the mean before it is clipped."),
    ("Data augmentation is free: the gradients of 8 variants of an image may be clipped one by one, and the noise stays the "
     "same.", False, "they are one example: average them before the clipping, or the noise must cover 8 of them."),
]  # fmt: skip


def batch_norm() -> Argued:
    return Argued(
        name="batch-norm",
        question=code(r"""
            Argue: normalising over the batch

            A model subtracts from each activation the mean of that activation over the batch (BatchNorm without scaling). A
            colleague trains it with DP-SGD: a program computes "the gradient of each example", clips each to $C$, adds up and adds
            noise of multiplier $\sigma$. Neighbours are add/remove.

            (a) Show on a batch of two examples that the gradient that belongs to the first can depend on the second. (b) Does the
            accountant's $\varepsilon$ hold? Give the largest length by which removing one of $m$ examples of a batch can move the
            clipped sum, as far as the clipping alone bounds it. (c) Name a remedy.
        """),
        rubric=code("""
            - (1 point) An example in which a value is normalised with the other one (such as inputs a and b, the activation
              a - (a + b)/2), so that the loss of the first, and its gradient, changes with b.
            - (2 points) It does not hold. The removed example leaves, up to C, and each of the m - 1 others may turn by up to
              2C, since their gradients change with it: up to (2m - 1) C. 1 point where it says only that the others change.
            - (1 point) A remedy: GroupNorm or LayerNorm (each example by itself), or no normalisation over the batch. No point
              for "noise hides it", or "a larger batch".
        """),
        points=4,
        answer=code("""
            (a) With inputs a and b and weight w, the activation of the first is w a - w (a + b)/2 = w (a - b)/2. With a squared
            loss its gradient in w is in proportion to (a - b), so it depends on b. (b) It does not hold: the accountant takes
            the sum to move by C at most. When one of m examples leaves, its own clipped gradient of up to C vanishes, and the
            gradients of the m - 1 others are computed with another mean: each of them may change by up to 2C. Clipping alone
            bounds the move by C + 2C (m - 1) = (2m - 1) C. (c) Normalise within each example, by GroupNorm or LayerNorm.
        """),
    )


def best_of_many(rng: np.random.Generator) -> Argued:
    runs, epsilon = int(rng.integers(5, 12)), float(rng.choice([0.5, 1.0, 2.0]))
    return Argued(
        name="best-of-many",
        question=code(rf"""
            A privacy statement for the best of several runs

            A team trains {runs} models on the same private data, with {runs} learning rates fixed beforehand. Each run by itself is
            $({epsilon:g}, 10^{{-6}})$-DP under add/remove. The team measures the accuracy of each on **private** validation records,
            exactly, releases the model with the highest, and states: "Our model is $({epsilon:g}, 10^{{-6}})$-DP."

            (a) Is the statement right for a record of the training data? Give a pair that is certain. (b) What does it say about a
            record of the validation data? (c) Write a statement that the team may publish, in two or three sentences, or say what
            they must change so that there is one.
        """),
        rubric=code(f"""
            - (1 point) The statement is not proved: the choice depends on all {runs} models, so all of them have to be counted.
            - (1 point) {runs * epsilon:g} and {runs}e-6 by basic composition, then post-processing (a smaller total by a sharper
              theorem is as good).
            - (1 point) A validation record has no guarantee at all: the exact accuracies decide which model comes out, and one
              record can turn the choice with certainty.
            - (1 point) A statement that names the neighbours, the pair, and that the choice is covered; with a remedy for the
              validation records: public ones, or a noisy choice (report noisy max, exponential mechanism) paid for.
              No point for the ε of one run "because only one model is released".
        """),
        points=4,
        answer=code(f"""
            (a) No. Which model is released depends on all {runs}, so what is certain is the guarantee of all together:
            ({runs * epsilon:g}, {runs}e-6) by adding up; taking one of them is post-processing as far as the training data go. (b)
            Nothing: accuracies are compared without noise, so one validation record can decide which model comes out; no ε covers
            that. (c) "The released model is ({runs * epsilon:g}, {runs}e-6)-DP for adding or removing one training record. This
            covers the choice among {runs} learning rates, which was made on public validation data." For that, the private
            validation records must be replaced by public ones, or the choice be made with noise and paid for.
        """),
    )
