r"""Graded exercises of chapter 12: a rule in numpy, how far liars move a rule, who is left when noise grows, an honest
worker, an attack that sends almost nothing, a false claim about a rule, statements, an argument.

In noise of d coordinates two honest vectors are at squared distance 2 (in units of d s^2), and an honest one and
(1 - zeta) times the mean of h honest ones at 1 + ((1 - zeta)^2 - 2(1 - zeta))/h = 1 - 1/h + zeta^2/h.
"""

from __future__ import annotations

import numpy as np

from assignments.item import Argued, Graded, Sheet
from assignments.items import drawing
from assignments.items.drawing import code, counterexample, function, mechanism, number, statements

IMPORTS = drawing.imports("from dpml import mechanisms")


def make(rng: np.random.Generator) -> Sheet:
    """Draw the sheet."""
    rule = near_median(rng) if rng.random() < 0.5 else clipped_center(rng)
    reach = median_reach(rng) if rng.random() < 0.5 else trimmed_reach(rng)
    condition = least_batch(rng) if rng.random() < 0.5 else most_liars(rng)
    attack = empire_limit(rng, krum=bool(rng.random() < 0.5))
    claim = krum_claim(rng) if rng.random() < 0.5 else hull_claim(rng)
    argued = between_the_honest() if rng.random() < 0.5 else who_sees_what()
    items = (rule, reach, condition, worker(rng), attack, claim, statements(rng, BANK), argued)
    return Sheet("Graded exercises 12: Byzantine workers", IMPORTS, items)


def near_median(rng: np.random.Generator) -> Graded:
    inputs = []
    for n, f, d in ((5, 1, 2), (6, 1, 3), (7, 3, 2), (8, 2, 4), (11, 4, 3)):
        vectors = rng.normal(size=(n, d)).round(3)
        vectors[:f] += rng.uniform(2.0, 6.0, size=(f, d)).round(3)
        inputs.append({"vectors": rng.permutation(vectors), "n_byzantine": f})
    called = "np.array([[0.0, 5.0], [1.0, 4.0], [2.0, 9.0]]), n_byzantine=1"
    return function(
        "mean_near_median",
        title="A mean around the median",
        asked=r"""
            A server receives $n$ vectors, the rows of `vectors`, of which at most $f$ = `n_byzantine` are lies; $n \ge 2f + 1$. A
            rule for this: in each coordinate by itself, take the $n - f$ values that are nearest to the median of the $n$ values,
            and average them. (Of an even number of values the median is the mean of the middle two. No two other values are at the
            same distance.)

            Write `mean_near_median(vectors, *, n_byzantine)`: the vector that this rule returns, an array of shape $[d]$.
        """,
        takes="vectors, *, n_byzantine",
        right="""
            center = {center}
            order = np.argsort({distance}, kind='stable')[: {many}]
            return {join}
        """,
        parts={
            "center": "np.median(vectors, axis=0)",
            "distance": "np.abs(vectors - center), axis=0",
            "many": "len(vectors) - n_byzantine",
            "join": "np.take_along_axis(vectors, order, axis=0).mean(axis=0)",
        },
        inputs=inputs,
        cases={
            "returns one number for each coordinate": f"np.shape(f({called})) == (2,)",
            "does not depend on the order of the rows": f"np.allclose(f({called}), f({called.replace('[[0.0, 5.0], [1.0, 4.0], ', '[[1.0, 4.0], [0.0, 5.0], ')}))",
        },
        mistakes={
            "it takes the values near the mean, which the liars move.": {"center": "vectors.mean(axis=0)"},
            "it averages f values; all but f are averaged.": {"many": "n_byzantine"},
            "it takes whole rows; every coordinate has its own n - f values.": {
                "distance": "np.linalg.norm(vectors - center, axis=1)",
                "join": "vectors[order].mean(axis=0)",
            },
            "this is the trimmed mean: it drops f values at either end.": "np.sort(vectors, axis=0)[n_byzantine : len(vectors) - "
            "n_byzantine].mean(axis=0)",
            "this is the median itself; the nearest values are averaged.": "np.median(vectors, axis=0)",
        },
        hint="For each column: sort by the distance to its median, and average the first n - f.",
        points=3,
    )  # fmt: skip


def clipped_center(rng: np.random.Generator) -> Graded:
    inputs = []
    for n, d in ((4, 2), (6, 3), (7, 2), (9, 4)):
        vectors, center = rng.normal(size=(n, d)).round(3), rng.normal(size=d).round(3)
        vectors[0] *= 9.0
        vectors[1] = center + 0.2  # a short pull
        inputs.append({"vectors": vectors, "center": center, "radius": round(float(rng.uniform(0.6, 1.6)), 2)})
    called = "np.array([[3.0, 4.0], [1.0, 0.0]]), center=np.array([0.5, 0.0]), radius=1.0"
    return function(
        "clipped_center",
        title="Clipping around the last answer",
        asked=r"""
            A server has an answer from the step before, the vector `center`, and receives $n$ new vectors, the rows of `vectors`,
            some of which are lies. A rule for this: each vector may pull the answer away from `center` in its own direction, but no
            farther than `radius`: what exceeds that is shortened, by its Euclidean length. The answer is `center` plus the average
            of these $n$ pulls. No row equals `center`.

            Write `clipped_center(vectors, *, center, radius)`: the new answer, an array of shape $[d]$.
        """,
        takes="vectors, *, center, radius",
        right="""
            moves = vectors - center
            lengths = np.linalg.norm(moves, axis=1)
            return {start}(moves * {weights}[:, None]).mean(axis=0)
        """,
        parts={"start": "center + ", "weights": "np.minimum(1.0, radius / lengths)"},
        inputs=inputs,
        cases={
            "returns one number for each coordinate": f"np.shape(f({called})) == (2,)",
            "is not farther than the radius from the center": f"np.linalg.norm(f({called}) - np.array([0.5, 0.0])) <= 1 + 1e-9",
        },
        mistakes={
            "it clips the vectors; what is clipped is how far they are from the center.": "center + (vectors * np.minimum(1.0, "
            "radius / np.linalg.norm(vectors, axis=1))[:, None] - center).mean(axis=0)",
            "it clips the average pull; then one far liar turns all of it.": """
                pull = (vectors - center).mean(axis=0)
                return center + pull * min(1.0, radius / np.linalg.norm(pull))
            """,
            "short pulls stay as they are; they are not stretched to the radius.": {"weights": "(radius / lengths)"},
            "the average pull is added to the center.": {"start": ""},
            "it clips each coordinate; the length of a pull counts.": "center + np.clip(vectors - center, -radius, "
            "radius).mean(axis=0)",
        },
        hint="Differences to the center, each shortened to the radius, averaged, and added to the center.",
    )


def drawn_honest(rng: np.random.Generator) -> list[dict[str, object]]:
    pairs = [(6, 2), (7, 3), (9, 4), (8, 1), (10, 3), (11, 4)]
    return [{"honest": rng.normal(1.0, 2.0, size=h).round(3), "n_byzantine": f} for h, f in pairs]


def median_reach(rng: np.random.Generator) -> Graded:
    up = bool(rng.random() < 0.5)
    far, word = ("1e9", "largest") if up else ("-1e9", "smallest")
    ordered = "np.sort(honest)" if up else "-np.sort(-honest)"
    return function(
        "reach",
        title="How far can liars move the median?",
        asked=f"""
            Numbers instead of vectors. Honest workers send the numbers of the array `honest`; another `n_byzantine`, fewer than
            there are honest ones, know these and send anything finite. The server takes the median of all, honest and not; of an even
            number of values it is the mean of the middle two.

            Write `reach(honest, *, n_byzantine)`: the {word} median that the liars can bring about.
        """,
        takes="honest, *, n_byzantine",
        right=f"float(np.median(np.concatenate([honest, np.full(n_byzantine, {far})])))",
        inputs=drawn_honest(rng),
        cases={
            "lies between honest values": "0.0 <= f(np.array([3.0, 0.0, 1.0, 8.0]), n_byzantine=1) <= 8.0",
            "is the median without liars": "abs(f(np.array([3.0, 0.0, 1.0]), n_byzantine=0) - 1.0) < 1e-9",
        },
        mistakes={
            "this is the median of the honest; liars at one end shift the middle.": "float(np.median(honest))",
            f"the {word} honest value is reached only if half of all lie.": f"float({ordered}[-1])",
            "liars shift the rank of the median by half a place each, not by a whole one.": f"float({ordered}[min(len(honest) - "
            "1, len(honest) // 2 + n_byzantine)])",
            "the liars join the middle here; at the end they do more.": "float(np.median(np.concatenate([honest, np.full("
            "n_byzantine, np.mean(honest))])))",
        },
        hint="Where do the liars do most, and which honest values are in the middle then?",
    )


def trimmed_reach(rng: np.random.Generator) -> Graded:
    up = bool(rng.random() < 0.5)
    word, kept = (
        ("largest", "np.sort(honest)[n_byzantine:]")
        if up
        else ("smallest", "np.sort(honest)[: len(honest) - n_byzantine]")
    )
    other = "np.sort(honest)[: len(honest) - n_byzantine]" if up else "np.sort(honest)[n_byzantine:]"
    end = "max" if up else "min"
    return function(
        "reach",
        title="How far can liars move the trimmed mean?",
        asked=f"""
            Numbers instead of vectors. Honest workers send the numbers of the array `honest`; another $f$ = `n_byzantine`, fewer than
            there are honest ones, know these and send anything finite. The server takes the trimmed mean of all $n$ values: it drops
            the $f$ largest and the $f$ smallest, and averages the others.

            Write `reach(honest, *, n_byzantine)`: the {word} trimmed mean that the liars can bring about.
        """,
        takes="honest, *, n_byzantine",
        right=f"float({kept}.mean())",
        inputs=drawn_honest(rng),
        cases={
            "lies between honest values": "0.0 <= f(np.array([3.0, 0.0, 1.0, 8.0]), n_byzantine=1) <= 8.0",
            "is the mean without liars": "abs(f(np.array([3.0, 0.0, 6.0]), n_byzantine=0) - 3.0) < 1e-9",
        },
        mistakes={
            "this is the mean of all the honest: some of them are dropped at the other end.": "float(honest.mean())",
            "honest values are dropped at the end where the liars are not.": f"float({other}.mean())",
            "liars that send the outermost honest value are kept only if others are dropped for them; count who is left.": (
                f"float(np.concatenate([{kept}, np.full(n_byzantine, honest.{end}())]).mean())"
            ),
            "one end is full of liars; no honest value is dropped there.": "float(np.sort(honest)[n_byzantine : len(honest) - "
            "n_byzantine].mean() if len(honest) > 2 * n_byzantine else np.median(honest))",
        },
        hint="Put all liars far out at one end. Who is dropped, and who is left?",
    )


CONDITION = r"""
A rule with constant $\kappa$ can only be trusted where the mean of the honest vectors is longer than
$\eta = \kappa\sqrt{d}\,s$ (the variance of the batch before noise is left out). For MDA with $n$ workers of whom $f$ lie,
$\kappa = \sqrt8\,f/(n - f)$. An honest worker sends the mean of $m$ gradients clipped to length $C$, with noise of standard
deviation $s = 2C\sigma/m$ on each of $d$ coordinates. If $\eta \ge C$, the condition says nothing, since no mean is longer.
"""


def least_batch(rng: np.random.Generator) -> Graded:
    n, f = int(rng.integers(13, 41)), int(rng.integers(2, 6))
    d, sigma = 1000 * int(rng.integers(20, 200)), round(float(rng.uniform(0.6, 3.0)), 1)
    clip = float(rng.choice([0.3, 2.0, 4.0]))  # at 0.5 two mistakes would give the same number
    limit = f"{{}} * {sigma} * math.sqrt({d}) * math.sqrt(8) * {f} / ({n} - {f})"
    return number(
        "least_batch",
        title="From which batch size on?",
        asked=f"{code(CONDITION)}\n\n$n = {n}$, $f = {f}$, $d = {d:,}$, $\\sigma = {sigma:g}$, $C = {clip:g}$. Set `least_batch` to "
        "the smallest batch size $m$ with which $\\eta < C$.",
        right=f"math.floor({limit.format(2)}) + 1",
        mistakes={
            "rounded down, eta is still above C.": f"math.floor({limit.format(2)})",
            "a replaced record moves the mean by 2C/m; the 2 is missing.": f"math.floor({limit.format(1)}) + 1",
            "the clip norm cancels: noise and bound are both in proportion to it.": f"math.floor({limit.format(2 * clip)}) + 1",
            "the honest are n - f.": f"math.floor(2 * {sigma} * math.sqrt({d}) * math.sqrt(8) * {f} / {n}) + 1",
            "the length of the noise grows with the root of d.": f"math.floor(2 * {sigma} * {d} * math.sqrt(8) * {f} / ({n} - "
            f"{f})) + 1",
        },
        rel=0.0,
    )


def most_liars(rng: np.random.Generator) -> Graded:
    n, f = int(rng.integers(25, 41)), int(rng.integers(7, 12))
    d, sigma = 1000 * int(rng.integers(20, 200)), round(float(rng.uniform(0.6, 3.0)), 1)
    # A batch size for which f liars are just possible.
    m = round(2 * sigma * float(np.sqrt(8 * d)) * (f + 0.4) / (n - f - 0.4))
    ratio = f"{m} / ({{}} * {sigma} * math.sqrt(8 * {d}))"
    return number(
        "most_liars",
        title="How many liars does the condition stand?",
        asked=f"{code(CONDITION)}\n\n$n = {n}$, $m = {m}$, $d = {d}$, $\\sigma = {sigma:g}$, $C = 2$. Set `most_liars` to the largest "
        "number $f$ of liars for which $\\eta < C$.",
        setup=f"""
            ratio = {ratio.format(2)}  # f / (n - f) must be below this
        """,
        right=f"math.ceil({n} * ratio / (1 + ratio)) - 1",
        mistakes={
            "with one more eta is above C.": f"math.ceil({n} * ratio / (1 + ratio))",
            "the honest are n - f, not n.": f"math.ceil({n} * ratio) - 1",
            "a replaced record moves the mean by 2C/m; the 2 is missing.": f"math.ceil({n} * 2 * ratio / (1 + 2 * ratio)) - 1",
            "these are the workers that must be honest.": f"{n} - math.ceil({n} * ratio / (1 + ratio)) + 1",
        },
        rel=0.0,
    )


# What an honest worker sends: who neighbours are, how the gradients are clipped, and by how much one record moves the mean.
WORKERS = {
    "gaussian": (
        r"Neighbours differ in one replaced record. Each gradient is shortened to *Euclidean* length at most $C$ = `clip_norm`, "
        r"and the worker sends their mean with Gaussian noise",
        r"$(\varepsilon, \delta)$-DP",
        2,
    ),
    "laplace": (
        r"Neighbours differ in one replaced record. Each gradient is scaled down to $\ell_1$ norm (the sum of absolute values) at "
        r"most $C$ = `clip_norm`, and the worker sends their mean with Laplace noise",
        r"$\varepsilon$-DP",
        2,
    ),
    "absent": (
        r"Neighbours: one record is there or not; if not, zeros stand in its row, so that $m$ stays the same. Each gradient is "
        r"shortened to *Euclidean* length at most $C$ = `clip_norm`, and the worker sends their mean with Gaussian noise",
        r"$(\varepsilon, \delta)$-DP",
        1,
    ),
}


def worker(rng: np.random.Generator) -> Graded:
    kind = list(WORKERS)[rng.integers(3)]
    words, promise, moved = WORKERS[kind]
    laplace = kind == "laplace"
    length = "np.abs(gradients).sum(axis=1)" if laplace else "np.linalg.norm(gradients, axis=1)"
    other_length = "np.linalg.norm(gradients, axis=1)" if laplace else "np.abs(gradients).sum(axis=1)"
    base = "1 / epsilon" if laplace else "mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)"
    part, draw = ("laws.laplace", "laplace") if laplace else ("laws.normal", "normal")
    takes = "gradients, *, clip_norm, epsilon" + ("" if laplace else ", delta")

    def center(lengths: str) -> str:
        return f"(gradients * np.minimum(1.0, clip_norm / np.maximum({lengths}, 1e-12))[:, None]).mean(axis=0)"

    changes = {
        "this is the noise of the sum; the mean moves by less.": {"size": f"{moved} * clip_norm * {base}"},
        "the noise must be in proportion to the clip norm.": {"size": f"{moved} / len(gradients) * {base}"},
        "each gradient is clipped by itself; the mean of unclipped ones can be moved anywhere.": {"middle": "gradients.mean(axis=0)"},
        f"clipping goes by the {'sum of absolute values' if laplace else 'Euclidean length'} of a gradient.": {
            "middle": center(other_length)
        },
    }  # fmt: skip
    if moved == 2:
        changes[
            "a replaced record takes a gradient away and puts another one: that moves the mean by twice as much."
        ] = {"size": f"clip_norm / len(gradients) * {base}"}
    else:
        changes["a record that is there or not moves the mean by one gradient, not two."] = {
            "size": f"2 * clip_norm / len(gradients) * {base}"
        }
    m = int(rng.integers(4, 8))
    gradients = (rng.normal(size=(m, 3)) * np.geomspace(0.2, 6.0, m)[:, None] + 1.5).round(2)
    budget = [{"epsilon": float(e)} | ({} if laplace else {"delta": d}) for e, d in ((4.0, 1e-2), (8.0, 1e-5))]
    settings = [
        {"gradients": gradients, "clip_norm": 2.0} | budget[0],
        {"gradients": gradients[:3] * 2, "clip_norm": 0.5} | budget[1],
    ]
    return mechanism(
        "worker_vector",
        title="An honest worker",
        asked=f"""
            {words} on each coordinate. The liars see which records are in the batch, so that sampling hides nothing.

            Write `worker_vector({takes}, rng)`. The rows of `gradients` are those of the $m$ records. What is sent, by itself, must be
            {promise}, with no more noise than that takes. Take all randomness from `rng`, and leave `gradients` as they are.
        """,
        takes=takes,
        right=f"""
            mean = {{middle}}
            return mean + rng.{draw}(scale={{size}}{{each}})
        """,
        law=f"[{part}(value, noise * {{size}}) for value in {{middle}}]",
        parts={
            "size": f"{moved} * clip_norm / len(gradients) * {base}",
            "middle": center(length),
            "each": ", size=len(mean)",
        },
        called=settings[0],
        returns=(3,),
        settings=settings,
        neighbours=[],
        mistakes=changes,
        unexplained={"one noise for all coordinates": {"each": ""}, "no noise": center(length)},
    )


def empire_limit(rng: np.random.Generator, *, krum: bool) -> Graded:
    pairs = [(15, 3), (15, 6), (11, 3), (20, 5), (9, 2), (31, 10)]
    inputs = [{"n": n, "n_byzantine": f} for n, f in (pairs[i] for i in rng.permutation(6)[:5])]
    h = "(n - n_byzantine)"
    if krum:
        ratio = "2 * (n - n_byzantine - 2) / (n - 2 * n_byzantine - 1)"
        rule = "Krum picks the vector with the smallest sum of squared distances to its $n - f - 2$ nearest others; $n \\ge 2f + 3$."
        asked = "Krum picks the vector of a liar"
        counts = {
            "a liar has f - 1 others at distance 0; fewer of its distances count.": f"math.sqrt({h} * (2 - 1 + 1 / {h}))",
            "the score counts n - f - 2 others.": f"math.sqrt({h} * (2 * (n - n_byzantine - 1) / (n - 2 * n_byzantine) - 1 + 1 / "
            f"{h}))",
        }
    else:
        ratio = "2"
        rule = "MDA averages the $n - f$ vectors whose largest distance is smallest; $n \\ge 2f + 1$."
        asked = "MDA's set holds all liars"
        counts = {
            "this is for Krum; MDA goes by the largest distance.": f"math.sqrt({h} * (2 * (n - n_byzantine - 2) / (n - 2 * "
            f"n_byzantine - 1) - 1 + 1 / {h}))",
            "the liars' mean is not independent of an honest vector: a term of 1/h is missing.": f"math.sqrt({h})",
        }
    return function(
        "empire_limit",
        title="An attack that sends almost nothing",
        asked=rf"""
            The honest vectors are nothing but noise: $h = n - f$ of them, independent, each coordinate $N(0, s^2)$, in very many
            coordinates, so that all distances are as good as their means. The $f \ge 2$ liars all send $(1 - \zeta)$ times the mean
            of the honest vectors, with $\zeta \ge 1$. {rule}

            Write `empire_limit(*, n, n_byzantine)`: the $\zeta$ below which {asked}, and above which it does not. Work out the
            squared distances in units of $ds^2$ first: of two honest vectors, of two liars, of an honest vector and a liar. (You may
            take for granted that at the limit a liar is no nearer to an honest vector than another honest one is.)
        """,
        takes="*, n, n_byzantine",
        right=f"math.sqrt({h} * ({ratio} - 1 + 1 / {h}))",
        inputs=inputs,
        cases={
            "is a number of at least 1": "f(n=15, n_byzantine=3) >= 1",
            "is not huge": "f(n=15, n_byzantine=3) < 100",
        },
        mistakes={
            "this is the limit for liars that add so many standard deviations to the mean.": f"math.sqrt({ratio} - 1 + 1 / {h})",
            "the distance is for zeta, not for 1 - zeta.": f"1 + math.sqrt({h} * ({ratio} - 1 + 1 / {h}))",
            **counts,
        },
        hint="The mean has squared length 1/h, and product 1/h with each honest vector.",
        points=3,
    )


def krum_claim(rng: np.random.Generator) -> Graded:
    n, f = [(7, 2), (9, 3), (10, 3), (11, 4)][rng.integers(4)]
    h = n - f
    # As far from each unit vector as makes a squared distance of 2.1, where two of these are at 2.
    far = round((1 + float(np.sqrt(1 + 1.1 * h))) / h + 0.0005, 3)
    return counterexample(
        "honest",
        "lies",
        title="Refute a claim about Krum",
        asked=rf"""
            Krum with $n = {n}$ and $f = {f}$ returns the vector with the smallest sum of squared distances to its $n - f - 2 =
            {n - f - 2}$ nearest others. A colleague claims: "If every lie is farther from every honest vector than any two honest
            vectors are from each other, then Krum returns an honest one."

            Refute it: set `honest` to a list of {h} vectors and `lies` to a list of {f} vectors, all with the same number of
            coordinates, at most 20, such that the lies are farther away, and Krum returns a lie.
        """,
        right=[f"np.eye({h}).tolist()", f"[[{far}] * {h}] * {f}"],
        formed=f"""
            honest, lies = (np.asarray(part, dtype=float) for part in answer)
            if honest.ndim != 2 or lies.ndim != 2 or honest.shape[1] != lies.shape[1] or not 1 <= lies.shape[1] <= 20:
                return "both must hold vectors with the same number of coordinates, at most 20."
            if len(honest) != {h} or len(lies) != {f} or not np.isfinite([honest.sum(), lies.sum()]).all():
                return "there must be {h} honest vectors and {f} lies, of finite numbers."
            return None
        """,
        refutes=f"""
            honest, lies = (np.asarray(part, dtype=float) for part in answer)
            rows = np.vstack([honest, lies])
            squares = ((rows[:, None] - rows) ** 2).sum(axis=2)
            if squares[:{h}, {h}:].min() <= squares[:{h}, :{h}].max() * (1 + 1e-9):
                return "a lie is not farther from every honest vector than these are from each other."
            scores = np.sort(squares, axis=1)[:, 1 : {n - f - 1}].sum(axis=1)
            if scores[{h}:].min() >= scores[:{h}].min() * (1 - 1e-9):
                return "Krum returns an honest vector. Whom does a lie have for its nearest others?"
            return None
        """,
        wrong={
            "lies that are too near": [f"np.eye({h}).tolist()", f"[[0.1] * {h}] * {f}"],
            "lies that are apart": [f"np.eye({h}).tolist()", f"[[3.0 + i] * {h} for i in range({f})]"],
            "lies that are far": [f"np.eye({h}).tolist()", f"[[5.0] * {h}] * {f}"],
        },
    )


def hull_claim(rng: np.random.Generator) -> Graded:
    n, size = int(rng.choice([3, 5, 7])), round(float(rng.uniform(1.0, 5.0)), 1)
    points = [[size, 0.0, 0.0], [0.0, size, 0.0], [0.0, 0.0, size]]
    right = (points * 3)[:n]
    return counterexample(
        "vectors",
        title="Refute a claim about the median",
        asked=rf"""
            A server takes the median of {n} vectors in each coordinate by itself. A colleague claims: "No worker lies here, so
            whatever is sent, the answer is an average of the vectors: it has the form $\sum_i w_i g_i$ with weights $w_i \ge 0$ of sum
            1. A median is always among what it is the median of."

            Refute it: set `vectors` to a list of {n} vectors with 3 coordinates each whose coordinate-wise median is no such
            average. All numbers are from $-{10 * size:g}$ to ${10 * size:g}$.
        """,
        right=[f"{right}"],
        formed=f"""
            rows = np.asarray(answer, dtype=float)
            if rows.shape != ({n}, 3) or not (np.abs(rows) <= {10 * size}).all():
                return "it must hold {n} vectors of 3 numbers each, from -{10 * size:g} to {10 * size:g}."
            return None
        """,
        refutes=f"""
            from scipy.optimize import linprog

            rows = np.asarray(answer, dtype=float)
            middle = np.median(rows, axis=0)
            # The least largest error of an average of the rows.
            n, d = rows.shape
            bound = np.vstack([np.hstack([rows.T, -np.ones((d, 1))]), np.hstack([-rows.T, -np.ones((d, 1))])])
            found = linprog(
                [0.0] * n + [1.0],
                A_ub=bound,
                b_ub=np.concatenate([middle, -middle]),
                A_eq=[[1.0] * n + [0.0]],
                b_eq=[1.0],
            )
            if found.fun <= 1e-6 * {size}:
                return "its median is an average of these vectors. Let each coordinate have its middle in another vector."
            return None
        """,
        wrong={
            "all on a line": [f"{[[float(i)] * 3 for i in range(n)]}"],
            "in a plane": [f"{[[float(i), float((2 * i) % n), 0.0] for i in range(n)]}"],
            "all equal": [f"{[[1.0, 2.0, 3.0]] * n}"],
        },
    )


BANK = [
    ("One liar among $n$ workers can bring the plain mean to any point.", True, "it sends n times the wish less the others."),
    ("Krum's score counts the distances to the $n - f - 2$ nearest others.", True, "this is its definition."),
    ("Bulyan can be used with 15 workers of whom 6 lie.", False, "it needs n at least 4f + 3."),
    ("Lies that are equal have each other for nearest neighbours, which lowers their Krum scores.", True,
     "each has f - 1 others at distance 0."),
    ("The farther away the liars are, the more they harm Krum.", False, "far liars are never picked; near ones are."),
    ("A rule that looks at noisy vectors costs no privacy beyond what the vectors cost.", True, "it is post-processing."),
    ("If every worker's vectors are $(\\varepsilon, \\delta)$-DP, then so is all that the server sees of twelve workers with "
     "the same records.", False, "twelve releases about the same records add up."),
    ("Noise of deviation $s$ on each of $d$ coordinates has a length of about $s\\sqrt d$.", True,
     "the squares add up to d times s squared."),
    ("The variance-to-norm condition can be met at all parameters if the noise is small enough, but not zero.", False,
     "near a minimum the mean of the honest vectors goes to 0."),
    ("Twelve measured vectors with a variance-to-norm ratio near $\\sqrt{12}$ may be nothing but noise.", True,
     "the average of twelve noises has the length of one over the root of 12."),
    ("Noise keeps a liar that holds the records from publishing them.", False, "a liar sends what it likes."),
    ("The coordinate-wise median and the trimmed mean need $n \\ge 2f + 1$.", True, "the honest must be a majority."),
    ("Larger batches make the noise of a worker's mean smaller, and so help rules that trust what lies close together.", True,
     "the deviation falls like one over the batch size."),
]  # fmt: skip


def between_the_honest() -> Argued:
    return Argued(
        name="between-the-honest",
        question=code(r"""
            Prove it: between the honest

            $n \ge 2f + 1$ workers send numbers; $n - f$ of them are honest, the other $f$ send anything. The trimmed mean drops the $f$
            largest and the $f$ smallest of the $n$ values and averages the rest.

            Prove that the trimmed mean lies between the smallest and the largest honest number. Then say, with a reason or a
            counterexample, whether the same holds if the server drops only $f - 1$ values at either end ($f \ge 1$), and what the
            statement says about vectors when the rule is used in each coordinate.
        """),
        rubric=code("""
            - (2 points) The proof: a value above the largest honest number is a lie; there are at most f of them, so that all are
              among the f largest and dropped; the same at the other end; n - 2f >= 1 values are left, and their average lies where
              they lie. One point if it is only said that "the liars are dropped", which is false: liars inside may stay.
            - (1 point) With f - 1 it fails: f liars send one huge number, and one of them is averaged.
            - (1 point) For vectors: each coordinate lies between the honest ones of that coordinate (a box); not that the answer is
              an average of honest vectors.
        """),
        points=4,
        answer=code("""
            Every value above the largest honest number M comes from a liar. There are at most f such values, and they are among the
            f largest, so all of them are dropped. In the same way no value below the smallest honest number is left. Since n >= 2f +
            1, something is left, all of it between the smallest and the largest honest number (lies may be among it), and so is
            the average. With f - 1 it fails: if all f liars send the same number far above M, f - 1 of them are dropped, and one
            is averaged with n - 2f + 1 others; it brings the mean anywhere. For vectors the statement holds in each coordinate: the
            answer is in the smallest box around the honest vectors. It need not be an average of them, as one coordinate's values
            may come from other workers than another's.
        """),
    )


def who_sees_what() -> Argued:
    return Argued(
        name="who-sees-what",
        question=code(r"""
            Argue: a privacy statement for 15 workers

            Fifteen workers train one model on the *same* hospital records; three may be controlled by someone else. In each of 300 steps
            every honest worker draws a batch of its own and sends a noisy mean of clipped gradients; the vectors of one worker, over
            all steps, are $(0.8, 10^{-5})$-DP for a replaced record. A server combines them by a robust rule, and all workers see the
            new parameters. The project writes: "Differentially private with $\varepsilon = 0.8$, even against the three dishonest
            workers and the server, since the robust rule discards what is suspicious."

            Which parts of this statement are wrong? Write a statement of two to four sentences that is right. You need no new number;
            say how one would be found.
        """),
        rubric=code("""
            - (1 point) Against the server: it sees twelve releases a step from the same records, so that all of them are to be
              composed; 0.8 is for one worker alone.
            - (1 point) Against the dishonest workers: they hold the same records, which noise on others' vectors does not hide.
            - (1 point) A rule adds no privacy, and costs none: it is post-processing; robustness is about the model, not the records.
            - (1 point) A statement that names neighbours (one replaced record), who the promise is against (who sees the vectors or
              parameters and holds no records), the accounting (all honest vectors of all steps), and delta. No point if an epsilon
              is given without any of these.
        """),
        points=4,
        answer=code("""
            The 0.8 is for one worker's vectors. The server receives those of twelve honest workers, all from the same records, so
            their losses add up, as 3,600 steps instead of 300. The three dishonest workers hold the records themselves: no noise that
            others add hides anything from them. And the rule is post-processing: it changes the model, and neither adds nor costs
            privacy. A right statement: "For two datasets that differ in one replaced record, all vectors that honest workers send in
            300 steps, and so the parameters, are (epsilon, delta)-DP, with epsilon from an accountant for all 3,600 releases. This
            holds against the server and the public, who do not have the records. It does not hold against workers, who have them."
        """),
    )
