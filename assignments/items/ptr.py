r"""Graded exercises of chapter 10: a safety margin, a release with Laplace noise, the price of one release, how far from
trouble is far enough, a test without noise, the local sensitivity of a trimmed sum, statements, a proof.

Lap(b) noise on a margin exceeds b log(1/(2 delta0)) from margin 0 with probability delta0. The test costs 1/b and delta0,
the answer what noise for the smaller sensitivity costs.
"""

from __future__ import annotations

import numpy as np

from assignments.item import Argued, Graded, Sheet
from assignments.items import drawing
from assignments.items.drawing import code, counterexample, function, mechanism, number, statements, tex
from dpml import mechanisms

IMPORTS = drawing.imports("from dpml import mechanisms")


def make(rng: np.random.Generator) -> Sheet:
    """Draw the sheet."""
    price = (total_epsilon, least_scale, least_sigma)[rng.integers(3)]
    far = margin_needed(rng) if rng.random() < 0.5 else largest_delta0(rng)
    argued = refusing_version() if rng.random() < 0.5 else proposal_from_the_data()
    items = (
        margin_of_extreme(rng), release(rng), price(rng), far, noiseless_test(rng), pushed_in(rng), statements(rng, BANK),
        argued,
    )  # fmt: skip
    return Sheet("Graded exercises 10: Propose-test-release", IMPORTS, items)


def margin_of_extreme(rng: np.random.Generator) -> Graded:
    largest = bool(rng.random() < 0.5)
    inputs = []
    for size in (0, 1, 2, 3, 5, 6, 8, 12):
        top = float(rng.integers(4, 12))
        tau = round(float(rng.uniform(0.05, 0.4)) * top, 2)
        values = top * rng.uniform(0.0, 1.0, size=size)
        if size > 2:  # several values near the end, so that the margin is above 0
            near = top - rng.uniform(0.0, 1.3, size=size - 1) * tau
            values[1:] = np.clip(near if largest else top - near, 0.0, top)
        inputs.append({"values": np.round(values, 3) + 0.0001, "tau": tau, "top": top + 0.5})
    steps = tau * np.array([1.3, 0.6, 1.2, 0.7, 1.4])  # two within tau of the end, five within tau of the outermost
    for some in (steps, steps[1:2]):
        inputs.append({"values": np.round(top - some if largest else some, 3), "tau": tau, "top": top})
    if largest:
        ends, lone = "np.count_nonzero(top - values <= tau)", "np.count_nonzero(values.max() - values <= tau)"
        words, empty, end = "largest", "0", "top"
        sensitivity = "max(top - np.max(values, initial=0.0), np.diff(np.sort([0.0, 0.0, *values]))[-1])"
    else:
        ends, lone = "np.count_nonzero(values <= tau)", "np.count_nonzero(values - values.min() <= tau)"
        words, empty, end = "smallest", "`top`", "0"
        sensitivity = "max(np.min(values, initial=top), np.diff(np.sort([top, top, *values]))[0])"
    right = f"0 if len(values) == 0 else int(min({ends}, {lone} - 1))"
    safe = "np.array([9.5, 9.4, 9.3])" if largest else "np.array([0.5, 0.4, 0.3])"
    return function(
        "margin",
        title=f"How far is the {words} value from trouble?",
        asked=rf"""
            $f(S)$ is the {words} of the numbers of a dataset $S$; all numbers are in $[0, \mathtt{{top}}]$, and without any
            number it is {empty}. Neighbours: one number is added or removed. The safety margin of $S$ for $\tau$ is the least
            number of records to add or remove until the local sensitivity of $f$ exceeds $\tau$ (it is 0 if it does at once).

            Write `margin(values, *, tau, top)`: the safety margin of the dataset `values`, a NumPy array in any order,
            perhaps empty, for $0 < \tau < \mathtt{{top}}/2$. What may an added number do, and what the removal of one? All
            differences are clearly above or below $\tau$.
        """,
        takes="values, *, tau, top",
        right=right,
        inputs=inputs,
        cases={
            "is a whole number from 0 on": f"f({safe}, tau=2.0, top=10.0) in range(4)",
            "is at most the number of values": f"f({safe}[:1], tau=2.0, top=10.0) <= 1",
        },
        mistakes={
            "this looks only at what an added number can do; a number that stands alone is trouble, too.": f"int({ends})",
            "this looks only at the removal of a number; one that is added can move the value as well.": "0 if len(values) "
            f"== 0 else int({lone} - 1)",
            "this says whether the dataset is in trouble, not how far away trouble is.": f"int({sensitivity} <= tau)",
        },
        hint=f"Trouble: no number within tau of {end}, or one that is alone within tau. Count what must go for either.",
        points=3,
    )


QUANTITIES = {"largest value": 1.0, "median": 0.5}  # how far one record moves it at most, over the width of the range


def release(rng: np.random.Generator) -> Graded:
    quantity = list(QUANTITIES)[rng.integers(2)]
    top, parts = float(rng.integers(4, 10)), int(rng.integers(2, 5))
    worst = QUANTITIES[quantity] * top
    share = f"epsilon / {parts}"
    rest = f"{parts - 1} * epsilon / {parts}"
    tau = round(worst / float(rng.integers(8, 20)), 2)
    epsilon, delta = float(rng.choice([2.0, 2.5, 3.0])), float(rng.choice([0.05, 0.08, 0.1]))
    threshold = parts / epsilon * float(np.log(0.5 / delta))
    between = max(1, round(threshold))
    spent = f"with ${parts - 1}\\varepsilon/{parts}$" if parts > 2 else "with the other half"
    first = "half of $\\varepsilon$" if parts == 2 else f"$\\varepsilon/{parts}$"

    changes = {
        "the test spends all of epsilon, and the answer spends more on top.": {"b": "1 / epsilon"},
        "a margin of 0 passes half as often as it may: look at the tail of Laplace noise.": {"height": "1 / delta"},
        "the answer spends all of epsilon, but the test has spent a part of it.": {
            "passed": "tau / epsilon",
            "failed": f"{worst} / epsilon",
        },
        "after a failed test the answer gets the small noise as well.": {"failed": f"tau / ({rest})"},
        "the large noise is for every outcome; a passed test allows the small one.": {"passed": f"{worst} / ({rest})"},
    }
    if parts == 2:
        changes["epsilon is not divided: the scale is the sensitivity over the share of epsilon."] = {
            "passed": "tau * epsilon / 2",
            "failed": f"{worst} * epsilon / 2",
        }
    settings = [
        {"value": v, "margin": m, "tau": t, "epsilon": e, "delta": d}
        for v, m, t, e, d in (
            (0.2 * top, 0, tau, epsilon, delta),
            (0.7 * top, 0, tau, epsilon, delta),
            (0.5 * top, between, tau, epsilon, delta),
            (0.5 * top + tau, between + 1, tau, epsilon, delta),
            (0.3 * top, 3, 2 * tau, 3.0 * parts / 2, 0.02),
            (0.3 * top, 400, tau, 1.0, 1e-6),
        )
    ]
    return mechanism(
        "release",
        title=f"A private {quantity}, with Laplace noise",
        asked=rf"""
            Numbers lie in $[0, {top:g}]$, and neighbours differ in one number added or removed. Write `release(value, *, margin,
            tau, epsilon, delta, rng)`: propose-test-release for the {quantity}. `value` is the true {quantity} of the dataset,
            `margin` its safety margin for the proposed `tau`, and the global sensitivity is ${worst:g}$.

            The test gets {first}, and all of $\delta$: it adds Laplace noise to the margin, and a dataset in trouble
            (margin 0) passes with probability exactly $\delta$. Then `value` is returned with Laplace noise {spent}: for `tau`
            if the test passed, for the global sensitivity if not. The whole must be $(\varepsilon, \delta)$-DP, with no more
            noise than that. Take all randomness from `rng`.
        """,
        takes="value, *, margin, tau, epsilon, delta",
        right="""
            b = {b}
            safe = margin + rng.laplace(scale=b) > b * math.log({height})
            return value + rng.laplace(scale={passed} if safe else {failed})
        """,
        law="""
            b = {b}
            t = (b * math.log({height}) - margin) / b
            p = math.exp(-t) / 2 if t > 0 else 1 - math.exp(t) / 2
            return laws.mixture([p, 1 - p], [laws.laplace(value, noise * {passed}), laws.laplace(value, noise * {failed})])
        """,
        parts={
            "b": f"1 / ({share})", "height": "0.5 / delta", "passed": f"tau / ({rest})", "failed": f"{worst} / ({rest})",
        },
        called=settings[2],
        settings=settings,
        neighbours=[(0, 1)],
        mistakes=changes,
        unexplained={
            "a test without noise": f"""
                safe = margin > {parts} / epsilon * math.log(0.5 / delta)
                return value + rng.laplace(scale=(tau if safe else {worst}) / ({rest}))
            """,
        },
    )  # fmt: skip


PRICE = """
Propose-test-release: the noisy margin gets Laplace noise of scale $b$ and passes with probability $\\delta_0$ from margin 0;
the answer gets Gaussian noise of {sigma} times what it must hide. Neighbours: one record is added or removed. By the direct
analysis (a close pair, or a pair in trouble), with the exact $\\delta$ of Gaussian noise,"""


def drawn_price(rng: np.random.Generator) -> tuple[float, float, float, float]:
    """The noise multiplier, the Laplace scale, delta, and the part of delta that the test takes."""
    delta = float(rng.choice([1e-4, 1e-5, 1e-6]))
    return (
        round(float(rng.uniform(1.2, 4.0)), 2),
        round(float(rng.choice([rng.uniform(0.5, 0.9), rng.uniform(1.2, 3.0)])), 2),
        delta,
        delta / int(rng.choice([2, 4, 5])),
    )


def total_epsilon(rng: np.random.Generator) -> Graded:
    sigma, scale, delta, delta0 = drawn_price(rng)
    gauss = f"mechanisms.gaussian_epsilon(sigma={sigma}, delta={delta} - {delta0})"
    return number(
        "total_epsilon",
        title="What one release costs",
        asked=f"{code(PRICE).format(sigma=f'${sigma}$')} the release is $(\\varepsilon, {tex(delta)})$-DP for $b = {scale:g}$ "
        f"and $\\delta_0 = {delta0 / delta:g} \\cdot {tex(delta)}$. Set `total_epsilon` to the smallest such "
        "$\\varepsilon$, to at least four digits. `mechanisms.gaussian_epsilon` is exact.",
        right=f"1 / {scale} + {gauss}",
        mistakes={
            "the probability to pass by accident is part of delta; less is left for the noise.": f"1 / {scale} + "
            f"mechanisms.gaussian_epsilon(sigma={sigma}, delta={delta})",
            "this forgets the test: the noisy margin is released as well.": gauss,
            "this adds a ratio of probabilities; epsilon is its logarithm.": f"math.exp(1 / {scale}) + {gauss}",
            "the test costs 1/b, less for more noise.": f"{scale} + {gauss}",
            "this is the classic formula, which is not exact, or not proved here.": f"1 / {scale} + math.sqrt(2 * math.log("
            f"1.25 / ({delta} - {delta0}))) / {sigma}",
        },
    )


def least_scale(rng: np.random.Generator) -> Graded:
    sigma, _, delta, delta0 = drawn_price(rng)
    total = round(mechanisms.gaussian_epsilon(sigma=sigma, delta=delta - delta0) + float(rng.uniform(0.35, 1.5)), 2)
    gauss = f"mechanisms.gaussian_epsilon(sigma={sigma}, delta={delta} - {delta0})"
    return number(
        "least_scale",
        title="How much noise does the test need?",
        asked=f"{code(PRICE).format(sigma=f'${sigma}$')} the release shall be $({total:g}, {tex(delta)})$-DP with "
        f"$\\delta_0 = {delta0 / delta:g} \\cdot {tex(delta)}$. Set `least_scale` to the smallest $b$ for which it is, to at "
        "least four digits. `mechanisms.gaussian_epsilon` is exact.",
        right=f"1 / ({total} - {gauss})",
        mistakes={
            "the probability to pass by accident is part of delta; less is left for the noise.": f"1 / ({total} - "
            f"mechanisms.gaussian_epsilon(sigma={sigma}, delta={delta}))",
            "all of epsilon goes to the test here; the answer costs something, too.": f"1 / {total}",
            "the test costs 1/b, less for more noise.": f"{total} - {gauss}",
            "this takes e^(1/b), a ratio of probabilities, for an epsilon.": f"1 / math.log1p({total} - {gauss})",
        },
    )


def least_sigma(rng: np.random.Generator) -> Graded:
    _, scale, delta, delta0 = drawn_price(rng)
    total = round(1 / scale + float(rng.uniform(0.8, 3.0)), 2)
    shape, letter = "mechanisms.gaussian_sigma(epsilon={}, delta={})", "$\\sigma$"
    return number(
        "least_sigma",
        title="How much noise does the answer need?",
        asked=f"{code(PRICE).format(sigma=letter)} the release shall be $({total:g}, {tex(delta)})$-DP with $b = {scale:g}$ "
        f"and $\\delta_0 = {delta0 / delta:g} \\cdot {tex(delta)}$. Set `least_sigma` to the smallest $\\sigma$ for which it is, "
        "to at least four digits. `mechanisms.gaussian_sigma` is exact.",
        right=shape.format(f"{total} - 1 / {scale}", f"{delta} - {delta0}"),
        mistakes={
            "the probability to pass by accident is part of delta; less is left for the noise.": shape.format(
                f"{total} - 1 / {scale}", delta
            ),
            "all of epsilon goes to the answer here; the test costs something, too.": shape.format(
                total, f"{delta} - {delta0}"
            ),
            "this is the classic formula, which is not exact, or not proved here.": f"math.sqrt(2 * math.log(1.25 / ({delta} - "
            f"{delta0}))) / ({total} - 1 / {scale})",
        },
    )


TEST = """
The test of propose-test-release adds Laplace noise of scale $b$ = `scale` to the safety margin, a whole number, and passes if
the sum exceeds a threshold. The threshold is such that a dataset with margin 0 passes with probability exactly
$\\delta_0 \\le 1/2$."""


def margin_needed(rng: np.random.Generator) -> Graded:
    inputs = [
        {"scale": round(float(b), 2), "delta0": float(d), "chance": round(float(c), 2)}
        for b, d, c in zip(
            [*rng.uniform(0.5, 6.0, size=4), *rng.uniform(3.0, 6.0, size=2)], rng.choice([1e-3, 1e-5, 1e-6, 1e-8], size=6),
            [*rng.uniform(0.6, 0.99, size=4), *rng.uniform(0.05, 0.2, size=2)], strict=True,
        )
    ]  # fmt: skip
    right = """
        threshold = scale * math.log({})
        return math.{}(threshold + ({}))
    """
    more = "scale * math.log(1 / (2 * (1 - chance))) if chance > 0.5 else scale * math.log(2 * chance)"
    return function(
        "margin_needed",
        title="How far from trouble is far enough?",
        asked=f"{code(TEST)}\n\nWrite `margin_needed(*, scale, delta0, chance)`: the least margin, a whole number, with which "
        "the test passes with probability at least `chance`, a number between `delta0` and 1.",
        takes="*, scale, delta0, chance",
        right=right.format("1 / (2 * delta0)", "ceil", more),
        inputs=inputs,
        cases={
            "is a whole number": "f(scale=1.3, delta0=1e-6, chance=0.9) % 1 == 0",
            "is not below what a smaller chance needs": "f(scale=1.3, delta0=1e-6, chance=0.9) >= f(scale=1.3, delta0=1e-6, "
            "chance=0.3)",
        },
        mistakes={
            "with this threshold a margin of 0 passes half as often as it may.": right.format(
                "1 / delta0", "ceil", more
            ),
            "this is where the test passes half of the time.": right.format("1 / (2 * delta0)", "ceil", "0"),
            "rounded down, the margin is one record short.": right.format("1 / (2 * delta0)", "floor", more),
            "below one half the other tail of the noise counts.": right.format(
                "1 / (2 * delta0)", "ceil", "scale * math.log(1 / (2 * (1 - chance)))"
            ),
            "the tail of Laplace noise has a factor of one half.": right.format(
                "1 / (2 * delta0)", "ceil", "scale * math.log(1 / (1 - chance))"
            ),
        },
        hint="At which distance from the threshold does the noise fall short with probability 1 - chance?",
        rel=1e-9,
    )


def largest_delta0(rng: np.random.Generator) -> Graded:
    inputs = [
        {"scale": round(float(b), 2), "margin": round(float(b * far)), "chance": round(float(c), 2)}
        for b, far, c in zip(
            rng.uniform(0.8, 3.0, size=6), rng.uniform(6.0, 15.0, size=6),
            [*rng.uniform(0.6, 0.99, size=4), *rng.uniform(0.05, 0.3, size=2)], strict=True,
        )
    ]  # fmt: skip
    right = "math.exp(-margin / scale) * ({})"
    tail = "1 / (4 * (1 - chance)) if chance > 0.5 else chance"
    return function(
        "least_delta0",
        title="How rare may the accident be?",
        asked=f"{code(TEST)}\n\nWrite `least_delta0(*, scale, margin, chance)`: the smallest $\\delta_0$ for which a dataset "
        "with this margin still passes with probability at least `chance`. In all tests it is below one half.",
        takes="*, scale, margin, chance",
        right=right.format(tail),
        inputs=inputs,
        cases={
            "is a probability": "0 < f(scale=1.0, margin=12, chance=0.9) < 0.5",
            "does not grow with the margin": "f(scale=1.0, margin=14, chance=0.9) <= f(scale=1.0, margin=12, chance=0.9)",
        },
        mistakes={
            "this is where the test passes half of the time.": right.format("0.5"),
            "below one half the other tail of the noise counts.": right.format("1 / (4 * (1 - chance))"),
            "this tail of the noise is right below one half only.": right.format("chance"),
            "the factor of one half in the tail of Laplace noise counts twice: at margin 0, and at this margin.": right.format(
                "1 / (2 * (1 - chance)) if chance > 0.5 else 2 * chance"
            ),
        },
        hint="Write the threshold once from delta0, and once from the margin and the chance.",
    )


def noiseless_test(rng: np.random.Generator) -> Graded:
    median = bool(rng.random() < 0.5)
    top, epsilon = float(rng.integers(2, 10)), float(rng.choice([0.5, 1.0, 2.0]))
    tau = round(top * float(rng.uniform(0.05, 0.3)), 2)
    most = int(rng.integers(9, 14))
    if median:
        words, told = "median", "the median of an even number of values is the mean of the middle two"
        troubled, safe = [0.0, 0.0, 0.0, top, top], [0.0, 0.0, 0.0, 0.0, top, top]
        both = [0.0, 0.0, top, top]
    else:
        words, told = "largest value", "the smallest possible value of the range stands for the largest of none"
        troubled, safe = [0.0, 0.0, 0.0, 0.0, top], [0.0, 0.0, 0.0, 0.0, top, top]
        both = [0.0, 0.0, 0.0, top]
    sensitivity = (
        f"medians.median_local_sensitivity(np.array(values), low=0.0, high={top})"
        if median
        else f"max({top} - max(values), np.sort(values)[-1] - np.sort(values)[-2])"
    )
    return counterexample(
        "dataset",
        "neighbour",
        title="Refute it: a test without noise",
        asked=rf"""
            Datasets hold numbers in $[0, {top:g}]$; neighbours: one number is added or removed. A program releases the
            {words} as follows ({told}). It computes the local sensitivity of the dataset. If that is at most $\tau = {tau:g}$,
            it releases the {words} with Laplace noise of scale $\tau/\varepsilon$; else it says "refused". A colleague claims:
            "This is $\varepsilon$-DP for $\varepsilon = {epsilon:g}$. Whenever something is released, the noise fits how far
            one record can move it."

            Refute it: set `dataset` and `neighbour`, two lists of 4 to {most} numbers, one of which has one number more than
            the other, such that some event has a positive probability under one and probability 0 under the other.
        """,
        right=[f"{troubled}", f"{safe}"],
        formed=f"""
            from collections import Counter

            one, other = (np.asarray(part, dtype=float) for part in answer)
            if any(d.ndim != 1 or not 4 <= len(d) <= {most} or not ((d >= 0) & (d <= {top})).all() for d in (one, other)):
                return "both must be lists of 4 to {most} numbers from 0 to {top:g}."
            apart = Counter(one.tolist()), Counter(other.tolist())
            if (apart[0] - apart[1]).total() + (apart[1] - apart[0]).total() != 1:
                return "neighbours differ in exactly one number that is added or removed."
            return None
        """,
        refutes=f"""
            from dpml.ptr import medians

            found = []
            for values in answer:
                found.append({sensitivity})
            refused = [s > {tau} for s in found]
            if all(refused):
                return "both are refused: no event tells them apart."
            if not any(refused):
                return "both get an answer, and every interval is possible under both. One of the two must be refused."
            return None
        """,
        wrong={
            "both refused": [f"{both}", f"{[0.0, *both]}"],
            "both answered": [f"{[top] * 4}", f"{[top] * 5}"],
            "no neighbours": [f"{both}", f"{safe}"],
        },
    )


def pushed_in(rng: np.random.Generator) -> Graded:
    adds = bool(rng.random() < 0.5)
    inputs = []
    for size, trim in ((0, 2), (1, 3), (4, 0), (5, 2), (6, 6), (7, 3), (9, 4)):
        bound = float(rng.choice([0.5, 1.0, 2.0, 4.0]))
        norms = np.round(rng.uniform(0.05, 1.6, size=size) * bound, 3)
        inputs.append({"norms": norms, "trim": trim, "bound": bound})
    inputs.append({"norms": bound * np.array([1.25, 1.5, 0.5, 1.75]), "trim": 1, "bound": bound})
    right = """
        norms = np.sort(np.minimum(norms, bound))
        place = len(norms) - trim{}
        if place >= len(norms):
            return {}
        return float(norms[place]) if place >= 0 else 0.0
    """
    if adds:
        asked = "one record may be **added**"
        shape = right.format("", "float(bound)")
        wrong = {
            "this is the longest that stays; an added record pushes in the shortest of those that are left out.": right.format(
                " - 1", "float(bound)"
            ),
            "with nothing left out, the added record itself enters the sum.": right.format("", "0.0"),
            "this is the global sensitivity; in this dataset less may be possible.": "float(bound)",
        }
    else:
        asked = "one record may be **removed**"
        shape = """
            norms = np.sort(np.minimum(norms, bound))
            return float(norms[len(norms) - trim - 1]) if len(norms) > trim else 0.0
        """
        wrong = {
            "this is the global sensitivity; in this dataset less may be possible.": "float(bound)",
            "if a long record goes, the longest that stayed in is left out in its place: it is that one, or a shorter one, "
            "that goes.": "float(min(np.max(norms, initial=0.0), bound))",
            "this is what an added record pushes in; here one is removed.": right.format("", "float(bound)"),
        }
    wrong["the lengths are clipped to the bound before they are summed."] = shape.replace(
        "np.minimum(norms, bound)", "norms"
    )
    sample = "np.array([0.2, 0.9, 0.4])"
    return function(
        "can_move",
        title="What one record can do to this sum",
        asked=f"""
            The trimmed sum of a batch clips every vector to length `bound`, leaves out the `trim` vectors that were longest
            before clipping (all, if there are not more than `trim`), and adds up the others. `trim` is fixed without the data.

            Write `can_move(norms, *, trim, bound)`: the largest distance by which the trimmed sum of *this* batch can move if
            {asked}. `norms` is an array of the lengths of the vectors, in any order, perhaps empty. A vector that is added can
            have any length and direction.
        """,
        takes="norms, *, trim, bound",
        right=shape,
        inputs=inputs,
        cases={
            "is not above the bound": f"f({sample}, trim=1, bound=0.5) <= 0.5 + 1e-12",
            "is a number from 0 on": f"f({sample}, trim=2, bound=1.0) >= 0",
        },
        mistakes=wrong,
        hint="Sort the lengths. Which vector enters the sum, or leaves it, in the worst case?",
    )


BANK = [
    ("Noise with a deviation of twice the local sensitivity of the dataset is private.", False,
     "the amount of noise depends on the data, and may itself tell two neighbours apart."),
    ("If $\\tau$ is too small for the data, the privacy of propose-test-release gets worse.", False,
     "the price does not depend on tau; the test fails more often, and accuracy gets worse."),
    ("The safety margin of any function moves by at most 1 between neighbours, where both margins are finite.", True,
     "who goes to the neighbour first needs one step more."),
    ("A failed test costs less privacy than a passed one, so the runs that failed need not be counted in full.", False,
     "the price is fixed before the test, and covers both outcomes."),
    ("If two neighbours both have a local sensitivity above $\\tau$, the test looks the same on both.", True,
     "both margins are 0."),
    ("If only one of two neighbours has a local sensitivity above $\\tau$, the function moves by at most $\\tau$ between them.",
     True, "the distance of the two values is at most the local sensitivity of either."),
    ("$\\tau$ may be set to the local sensitivity of the dataset, since it is tested afterwards.", False,
     "a proposal must be made without looking at the data."),
    ("With $\\delta_0 = \\delta$ the direct analysis leaves nothing of $\\delta$ for the Gaussian noise.", True,
     "the accident and the noise share delta."),
    ("The trimmed sum with fixed $F$ has a smaller global sensitivity than the sum of the clipped vectors.", False,
     "in the worst batch one record still moves it by R."),
    ("Trimming by the lengths after clipping is as safe as by those before, since clipping keeps the order.", False,
     "after clipping many lengths are equal, and an accident decides who is left out."),
    ("With twice the Laplace scale of the test, at the same $\\delta_0$, a dataset needs twice the margin to pass half of the "
     "time.", True, "the threshold is b log(1/(2 delta0))."),
    ("A dataset with safety margin 3 may be changed by two records, and the next one moves $f$ by at most $\\tau$.", True,
     "within two changes no dataset has a larger local sensitivity."),
]  # fmt: skip


def refusing_version() -> Argued:
    return Argued(
        name="refusing-version",
        question=code(r"""
            Prove it: the version that refuses

            Neighbours: one record is added or removed. $f$ is a number with a finite safety margin $\Delta(S)$ for $\tau$ on every
            dataset. The mechanism draws $Z \sim \mathrm{Lap}(1/\varepsilon_1)$. If
            $\Delta(S) + Z \le \frac{1}{\varepsilon_1}\log\frac{1}{2\delta}$ it says "refused", and nothing else. Otherwise it
            releases $f(S) + \mathrm{Lap}(\tau/\varepsilon_2)$. The noisy margin itself is *not* released.

            Prove that it is $(\varepsilon_1 + \varepsilon_2, \delta)$-DP. Nothing is known of the global sensitivity of $f$. Say
            which lemma you use about $\Delta$.
        """),
        rubric=code("""
            - (1 point) The two cases, and that they are all: at least one of two neighbours has a local sensitivity of at most
              tau, or both exceed it.
            - (1 point) Close pair: |f(S) - f(S')| <= tau because it is at most the local sensitivity of either; the margins
              differ by at most 1 (the lemma, named), so the noisy margin is epsilon1-DP, the answer epsilon2-DP, together the
              sum by composition.
            - (1 point) Pair in trouble: both margins are 0, so both pass with probability delta, and "refused" has the same
              probability 1 - delta under both.
            - (1 point) From this P(E) <= P'(E) + delta for every event E, also for events that hold some answers and "refused".
              No point if only the event "an answer comes" is treated.
        """),
        points=4,
        answer=code("""
            Let S and S' be neighbours. Close: one of them, say S, has local sensitivity at most tau; then f(S) and f(S') are at
            most tau apart. By the lemma the margins differ by at most 1, so the noisy margin is epsilon1-DP, and so is whether
            the test passes. Given that it passed, the answer is Laplace noise for a move of at most tau, epsilon2-DP. Both
            together cost the sum (basic composition); what is released is post-processing of them. In trouble: both local
            sensitivities exceed tau, so both margins are 0. Then both are refused with the same probability: Z is at most the
            threshold with probability 1 - delta. For an event E, P(E) = P(E, refused) + P(E, passed) <= P'(E, refused) + delta
            <= P'(E) + delta. Both cases give the claim.
        """),
    )


def proposal_from_the_data() -> Argued:
    return Argued(
        name="proposal-from-the-data",
        question=code(r"""
            Argue: a proposal from the data

            A team uses propose-test-release for a median of numbers in $[0, 1]$, with neighbours that differ in one record added
            or removed. Before each release it computes the local sensitivity of the dataset, and proposes $\tau$ as twice that.
            The test and the release then follow the definition to the letter. "Our proposals nearly always pass, and a proposal
            that is too small only costs accuracy."

            Is the release private with the usual $(\varepsilon, \delta)$? Say which step of the proof fails, describe a case in
            which the output betrays the dataset, and say how $\tau$ may be chosen instead. At most ten sentences.
        """),
        rubric=code("""
            - (1 point) No, and the step: both neighbours must be tested and answered with the same tau; here tau is a function of
              the data, and the margin and the noise of the two neighbours belong to different tests.
            - (2 points) A case of two neighbours with their local sensitivities, and an event with its probabilities: for
              instance one whose local sensitivity is 0 (so tau is 0, and its test fails) next to one that passes; or noise of
              two sizes. One point if the case has no event or no probabilities.
            - (1 point) A choice that is allowed: fixed before the data are seen, from public or earlier data, or by a private
              mechanism whose cost is added.
        """),
        points=4,
        answer=code("""
            No. In the proof neighbours are compared under one tau: the close case says that both get noise for the same tau, and
            the margins that differ by 1 are margins for the same tau. Here each dataset has a tau of its own. Let S hold 0.40
            fifty-one times and 0.41 fifty times: its local sensitivity is 0.005, so tau is 0.01, and dozens of records must
            change until a gap of more than 0.02 lies beside the middle. The test passes nearly always, and the noise is tiny.
            The neighbour S' has 0.40 once more: both middle values are 0.40, its local sensitivity is 0, so tau is 0, and S is
            one step away and in trouble for this tau. Its margin is 1, and its test fails nearly always. So the event "the noisy
            margin is above the threshold" has probability near 1 under S and near 0 under S'. Tau may be fixed beforehand, taken
            from public or older data, or be found by a private mechanism, whose epsilon and delta are added.
        """),
    )
