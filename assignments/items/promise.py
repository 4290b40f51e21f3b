r"""Graded exercises of chapter 01: noise for a sensitivity, one release, many categories, Gaussian noise, a false claim,
an audit, statements, an argument.

A replaced record moves a sum of values in [low, high] by at most high - low, an added one by at most
max(-low, high). With k categories, the truth may be e^epsilon times as likely as any lie. An attack that is right in
all of n runs on each side has rates of at least and at most 1 - a and a, with (1 - a)^n = (1 - confidence)/2.
"""

from __future__ import annotations

import numpy as np

from assignments.item import Argued, Graded, Sheet
from assignments.items import drawing
from assignments.items.drawing import code, function, mechanism, number, statements
from dpml.audit import samples
from dpml.classroom.students import CODE_STUB

IMPORTS = drawing.imports("from dpml import mechanisms", "from dpml.audit import samples")

# How a quantity of values in [low, high] moves between neighbours: its name, who counts as a neighbour, its formula.
MOVES = {
    "sum, add/remove": ("sum", "add/remove: one has one record more than the other", "max(-low, high)"),
    "sum, replace-one": ("sum", "replace-one: they differ in the value of one record", "(high - low)"),
    "mean, replace-one": ("mean", "replace-one: they differ in the value of one record", "(high - low) / n"),
}


def make(rng: np.random.Generator) -> Sheet:
    """Draw the sheet."""
    many = told_truth(rng) if rng.random() < 0.5 else many_categories(rng)
    audited = evidence(rng) if rng.random() < 0.5 else perfect_attack(rng)
    gaussian = (gaussian_sigma, gaussian_delta, gaussian_epsilon)[rng.integers(3)]
    items = (noise_scale(rng), release(rng), many, gaussian(rng), false_claim(rng), audited, statements(rng, BANK))
    argued = range_of_the_data() if rng.random() < 0.5 else twice_the_same_noise()
    return Sheet("Graded exercises 01: What differential privacy promises", IMPORTS, (*items, argued))


def noise_scale(rng: np.random.Generator) -> Graded:
    asked = list(MOVES)[rng.integers(3)]
    quantity, neighbours, moved = MOVES[asked]
    inputs = [
        {"low": -float(low), "high": float(high), "n": int(n), "epsilon": float(epsilon)}
        for low, high, n, epsilon in zip(
            rng.integers(1, 9, size=5), rng.integers(1, 9, size=5) + 0.5, rng.integers(3, 400, size=5),
            rng.choice([0.1, 0.25, 0.5, 1.0, 2.0, 3.0], size=5, replace=False), strict=True,
        )
    ]  # fmt: skip
    at = "low=-1.0, high=2.0, n=10"
    return function(
        "noise_scale",
        title=f"Noise for a {quantity}",
        asked=f"""
            The {quantity} of $n$ values is released with Laplace noise. Each value lies in $[l, h]$ with $l < 0 < h$.
            Two datasets are neighbours under {neighbours}. The number $n$ is public.

            Write `noise_scale(*, low, high, n, epsilon)`: the smallest scale $b$ of Laplace noise (density proportional
            to $e^{{-|x|/b}}$) with which the release is $\\varepsilon$-DP. Not every argument has to play a part.
        """,
        takes="*, low, high, n, epsilon",
        right="{moved} / epsilon",
        parts={"moved": moved},
        inputs=inputs,
        cases={
            "is above 0": f"f({at}, epsilon=1.0) > 0",
            "half the epsilon needs twice the noise": f"abs(f({at}, epsilon=0.5) / f({at}, epsilon=1.0) - 2) < 1e-9",
        },
        mistakes={f"this is for: {key}.": {"moved": formula} for key, (_, _, formula) in MOVES.items() if key != asked}
        | {"l and h are not opposite.": {"moved": "2 * high"}},
        hint="By how much can one record move it, at most?",
    )


def release(rng: np.random.Generator) -> Graded:
    asked = list(MOVES)[rng.integers(3)]
    quantity, neighbours, moved = MOVES[asked]
    low, high = -float(rng.integers(2, 6)), float(rng.integers(7, 12))
    scale = moved.replace("low", f"({low})").replace("high", f"{high}").replace(" n", " len(values)")
    values = [float(x) for x in rng.uniform(1.2 * low, 1.2 * high, size=6).round(1)]
    wild = [high + float(rng.integers(40, 90)), low - float(rng.integers(3, 20)), *values[:3]]
    epsilons = [float(x) for x in rng.choice([0.4, 0.7, 1.3, 2.0], size=2, replace=False)]
    changed = [*values, high] if "add" in asked else [high, *values[1:]]
    inside = f"np.clip(values, {low}, {high})"
    return mechanism(
        f"private_{quantity}",
        title=f"A private {quantity} of values that nobody has checked",
        asked=f"""
            Write `private_{quantity}(values, *, epsilon, rng)`: one $\\varepsilon$-DP release of the {quantity}. `values`
            is a NumPy array; its numbers are meant to lie in $[{low:g}, {high:g}]$, but may be anything. Clip each
            value to this interval, take the {quantity}, then add Laplace noise of the smallest sufficient scale. Two
            datasets are neighbours under {neighbours}. Do not round, leave `values` as it is, and draw all randomness
            from `rng`, a `numpy.random.Generator`.
        """,
        takes="values, *, epsilon",
        right=f"np.{quantity}({{inside}}) + rng.laplace(scale={scale}{{share}})",
        law=f"laws.laplace(np.{quantity}({{inside}}), noise * {scale}{{share}})",
        parts={"inside": inside, "share": " / epsilon"},
        called={"values": np.array([1.0, 2.0, 3.0]), "epsilon": 1.0},
        settings=[
            {"values": np.array(values), "epsilon": epsilons[0]},
            {"values": np.array(changed), "epsilon": epsilons[0]},
            {"values": np.array(wild), "epsilon": epsilons[1]},
        ],
        neighbours=[(0, 1)],
        mistakes={
            "the values are not clipped: one wild record moves the result as far as it likes.": {"inside": "values"},
            "a smaller epsilon needs more noise, not less.": {"share": " * epsilon"},
        },
        unexplained={"no noise": f"np.{quantity}({inside})", "half the noise": {"share": " / (2 * epsilon)"}},
    )


def many_categories(rng: np.random.Generator) -> Graded:
    k = int(rng.integers(3, 7))
    few, much = (float(x) for x in rng.choice([0.5, 0.8, 1.2, 1.6, 2.2], size=2, replace=False))
    head = "def tell(category, *, epsilon, rng):"
    told = "\n    ".join([
        head, "if rng.random() < {truth}:", "    return category",
        f"other = rng.integers({k - 1})", "return other + (other >= category)",
    ])  # fmt: skip
    right = f"np.exp(epsilon) / (np.exp(epsilon) + {k - 1})"
    return Graded(
        name="many-categories",
        question=code(f"""
            Randomized response with {k} answers

            Each person belongs to one of {k} categories, 0 to {k - 1}, and trusts nobody. They name their own category
            with some probability $p$, and otherwise one of the other {k - 1}, each of these equally likely.

            Write `tell(category, *, epsilon, rng)`: the category that one person names. Choose the largest $p$ for
            which the answer is $\\varepsilon$-DP: under no category may an answer be more than $e^\\varepsilon$ times as
            likely as under another. All randomness comes from `rng`, a `numpy.random.Generator`.
        """),
        stub=f"{head}\n    {CODE_STUB}",
        solution=told.format(truth=right),
        visible=code(f"""
            rng = np.random.default_rng(1)
            checks.properties(
                tell,
                name="tell",
                cases=[
                    (
                        "names a category from 0 to {k - 1}",
                        lambda f: all(f(c, epsilon=1.0, rng=rng) in range({k}) for c in range({k})),
                    )
                ],
            )
        """),
        hidden=code(f"""
            from dpml.classroom import laws

            def told(truth):
                def law(category, *, epsilon, noise=1.0):
                    p = truth(np.exp(epsilon / noise))
                    return laws.discrete({{c: p if c == category else (1 - p) / {k - 1} for c in range({k})}})

                return law

            checks.law(
                tell,
                name="tell",
                law=told(lambda ratio: ratio / (ratio + {k - 1})),
                settings=[
                    {{"category": 0, "epsilon": {few}}},
                    {{"category": {k - 1}, "epsilon": {few}}},
                    {{"category": 1, "epsilon": {much}}},
                ],
                neighbours=[(0, 1)],
                wrong=[
                    checks.Mistake(told(lambda ratio: ratio / (ratio + 1)), "this p is for two categories."),
                    checks.Mistake(told(lambda ratio: ratio / (ratio + {k})), "a lie has one category fewer to name."),
                    checks.Mistake(
                        told(lambda ratio: 1 - (1 - ratio / (ratio + {k - 1})) * {k - 1} / {k}),
                        "the lie may be the truth here; it must be one of the other categories.",
                    ),
                ],
            )
        """),
        points=3,
        wrong={
            "p of two categories": told.format(truth="np.exp(epsilon) / (np.exp(epsilon) + 1)"),
            "always the truth": f"{head}\n    return category",
            "a lie may be the truth": told.format(truth=right)
            .replace(f"other = rng.integers({k - 1})", f"return rng.integers({k})")
            .replace("\n    return other + (other >= category)", ""),
        },
    )


def told_truth(rng: np.random.Generator) -> Graded:
    inputs = [
        {"truth": round(float(truth), 3), "k": int(k)}
        for truth, k in zip(rng.uniform(0.05, 0.95, size=5), rng.integers(2, 30, size=5), strict=True)
    ]
    return function(
        "promised",
        title="What does this survey promise?",
        asked="""
            Each person belongs to one of $k$ categories. With probability $t$ they name their own. Otherwise they name
            one of all $k$ categories, each equally likely, so that this answer too may be their own.

            Write `promised(*, truth, k)`, for a `truth` $t$ above 0 and below 1: the smallest $\\varepsilon$ for which
            the answer of one person is $\\varepsilon$-DP (two datasets are neighbours if this person's category differs).
        """,
        takes="*, truth, k",
        right="np.log1p(k * truth / (1 - truth))",
        inputs=inputs,
        cases={
            "is above 0": "f(truth=0.5, k=4) > 0",
            "more truth is less private": "f(truth=0.8, k=4) > f(truth=0.2, k=4)",
        },
        mistakes={
            "the own category is named with more than the probability t: a random answer may hit it.": (
                "np.log(truth * k / (1 - truth))"
            ),
            "k plays no part in it.": "np.log(truth / (1 - truth))",
            "this is e^ε; asked is ε itself.": "1 + k * truth / (1 - truth)",
        },
        hint="Compare one answer under the category that it names and under another one.",
        points=3,
    )


def drawn_gaussian(rng: np.random.Generator) -> tuple[float, float, float]:
    sensitivity = round(float(rng.uniform(1.5, 9.0)), 2)
    return sensitivity, round(float(rng.uniform(0.3, 3.0)), 2), float(f"{10 ** -rng.uniform(4.0, 7.0):.1e}")


GAUSSIAN = """
An answer with several coordinates is released with Gaussian noise of standard deviation $\\sigma$, independent in each
coordinate. Between neighbours the answer moves by a vector of Euclidean length at most {sensitivity:g}, and this
length occurs. You may use `dpml.mechanisms`, whose functions speak of sensitivity 1.
"""


def gaussian_sigma(rng: np.random.Generator) -> Graded:
    sensitivity, epsilon, delta = drawn_gaussian(rng)
    one = f"mechanisms.gaussian_sigma(epsilon={epsilon}, delta={delta})"
    return number(
        "sigma",
        title="Gaussian noise for an answer with several coordinates",
        asked=f"{GAUSSIAN.format(sensitivity=sensitivity)}\nSet `sigma`, to at least four digits, to the smallest "
        f"$\\sigma$ with which the release is $(\\varepsilon, \\delta)$-DP for $\\varepsilon = {epsilon:g}$ and "
        f"$\\delta = {delta:g}$.",
        right=f"{sensitivity} * {one}",
        mistakes={
            "this is for sensitivity 1.": one,
            "a larger sensitivity needs more noise, not less.": f"{one} / {sensitivity}",
            "this is the classic formula, which takes more noise than needed, or is not proved here.": f"{sensitivity} * np.sqrt(2 * np.log(1.25 / {delta})) / {epsilon}",
        },
    )


def gaussian_delta(rng: np.random.Generator) -> Graded:
    sensitivity, epsilon, _ = drawn_gaussian(rng)
    sigma = round(sensitivity * float(rng.uniform(0.9, 2.5)), 2)
    shape = "mechanisms.gaussian_delta(sigma={}, epsilon=" + f"{epsilon})"
    return number(
        "smallest_delta",
        title="What Gaussian noise of this size leaves open",
        asked=f"{GAUSSIAN.format(sensitivity=sensitivity)}\nSet `smallest_delta`, to at least four digits, to the "
        f"smallest $\\delta$ for which the release with $\\sigma = {sigma:g}$ is $(\\varepsilon, \\delta)$-DP for "
        f"$\\varepsilon = {epsilon:g}$.",
        right=shape.format(f"{sigma} / {sensitivity}"),
        mistakes={
            "this is for sensitivity 1.": shape.format(sigma),
            "a larger sensitivity hides less under the same noise, not more.": shape.format(f"{sigma} * {sensitivity}"),
        },
    )


def gaussian_epsilon(rng: np.random.Generator) -> Graded:
    sensitivity, _, delta = drawn_gaussian(rng)
    sigma = round(sensitivity * float(rng.uniform(0.9, 4.0)), 2)
    shape = "mechanisms.gaussian_epsilon(sigma={}, delta=" + f"{delta})"
    return number(
        "smallest_epsilon",
        title="What Gaussian noise of this size promises",
        asked=f"{GAUSSIAN.format(sensitivity=sensitivity)}\nSet `smallest_epsilon`, to at least four digits, to the "
        f"smallest $\\varepsilon$ for which the release with $\\sigma = {sigma:g}$ is $(\\varepsilon, \\delta)$-DP for "
        f"$\\delta = {delta:g}$.",
        right=shape.format(f"{sigma} / {sensitivity}"),
        mistakes={
            "this is for sensitivity 1.": shape.format(sigma),
            "this turns the classic formula around, which is not tight.": f"np.sqrt(2 * np.log(1.25 / {delta})) * {sensitivity} / {sigma}",
        },
    )


# A quantity that one record can move across the whole interval: its Python, and a pair that does it.
WHOLE = {
    "median": ("np.median({})", "[0.0] * {half} + [{top}] * {half}"),
    "minimum": ("np.min({})", "[{top}] * {rest}"),
    "range (largest less smallest value)": ("np.ptp({})", "[0.0] * {rest}"),
}


def false_claim(rng: np.random.Generator) -> Graded:
    quantity = list(WHOLE)[rng.integers(3)]
    n, top = 2 * int(rng.integers(3, 8)) + 1, float(rng.integers(2, 9))
    epsilon = float(rng.choice([0.5, 1.0, 1.5]))
    value, others = WHOLE[quantity]
    rest = others.format(half=(n - 1) // 2, top=top, rest=n - 1)
    scale, bound = f"{top} / ({n} * {epsilon})", f"{n} numbers from 0 to {top:g}"
    given = "dataset = {}\nneighbour = {}\nthreshold = {}"
    formed = code(f"""
        def formed(answer):
            dataset, neighbour, threshold = (np.asarray(part, dtype=float) for part in answer)
            if any(d.shape != ({n},) or not ((d >= 0) & (d <= {top})).all() for d in (dataset, neighbour)):
                return "both datasets must hold {bound}."
            if threshold.shape != () or not np.isfinite(threshold):
                return "the threshold must be one finite number."
            changed = np.count_nonzero(dataset != neighbour)
            return None if changed == 1 else f"the datasets differ in {{changed}} records, neighbours in exactly one."
    """)
    return Graded(
        name="false-claim",
        question=code(f"""
            Refute a claim about the {quantity}

            Two datasets of {n} values in $[0, {top:g}]$ are neighbours if they differ in one value, place by place. A
            colleague claims: "The **{quantity}**, released with Laplace noise of scale ${top:g}/({n}\\varepsilon)$, is
            $\\varepsilon$-DP. It worked for the mean." Refute it for $\\varepsilon = {epsilon:g}$.

            Set `dataset` and `neighbour`, two lists of {n} numbers, and `threshold`, such that the outcome "the release
            exceeds the threshold" is more than $e^\\varepsilon$ times as likely under one of them as under the other.
        """),
        stub=given.format("...", "...", "..."),
        solution=given.format(f"{rest} + [0.0]", f"{rest} + [{top}]", top),
        visible=f'{formed}\n\nchecks.form((dataset, neighbour, threshold), name="dataset, neighbour, threshold", '
        "test=formed)",
        hidden=code(f"""
            def log_tail(z):
                return np.log(0.5) - z if z >= 0 else np.log1p(-0.5 * np.exp(z))

            def refutes(answer):
                dataset, neighbour, threshold = answer
                one, other = {value.format("dataset")}, {value.format("neighbour")}
                scale = {scale}
                tails = [log_tail((threshold - center) / scale) for center in (one, other)]
                if abs(one - other) <= scale * {epsilon} * (1 + 1e-9):
                    return "the quantity moves too little: noise of this scale hides that."
                if abs(tails[0] - tails[1]) <= {epsilon} * (1 + 1e-9):
                    return "these two datasets can do it, but with another threshold: raise it."
                return None

            checks.counterexample((dataset, neighbour, threshold), name="counterexample", test=refutes)
        """),
        points=2,
        wrong={
            "a record that does not move it": given.format(f"[{top / 2}] * {n}", f"[{top / 2}] * {n - 1} + [{top / 2}]", 1.0),
            "a threshold that is too low": given.format(f"{rest} + [0.0]", f"{rest} + [{top}]", -100.0),
        },
    )  # fmt: skip


def evidence(rng: np.random.Generator) -> Graded:
    runs, confidence = int(rng.integers(4, 16)) * 250, float(rng.choice([0.9, 0.95, 0.99]))
    hits, alarms = (int(runs * share) for share in (rng.uniform(0.45, 0.6), rng.uniform(0.08, 0.2)))
    delta = float(rng.choice([0.01, 0.02]))
    proved = samples.epsilon_lower_bound(
        true_positives=hits, positives=runs, false_positives=alarms, negatives=runs, delta=delta, confidence=confidence
    ).epsilon_at_least
    naive = float(np.log((hits - delta * runs) / alarms))
    share = float(rng.uniform(0.25, 0.75)) - (1.0 if rng.random() < 0.5 else 0.0)  # below or above what is proved
    claim = round(proved + share * (naive - proved), 2)
    call = (
        "samples.epsilon_lower_bound(true_positives={0}, positives={1}, false_positives={2}, negatives={1}, "
        "delta={3}, confidence={4}).epsilon_at_least"
    )
    right = call.format(hits, runs, alarms, delta, confidence)
    wrong_delta, wrong_side = call.format(hits, runs, alarms, 0.0, confidence), f"np.log({hits} / {alarms})"
    return Graded(
        name="evidence",
        question=code(f"""
            Audit a claim with a δ

            A vendor claims that a mechanism is $({claim:g}, {delta:g})$-DP. It is run {runs} times on each of two
            neighbouring datasets. On $D$ an attacker says "$D$" {hits} times (true positives), on $D'$ {alarms} times
            (false positives).

            Set `proved`, to at least three digits, to the largest $\\varepsilon$ that `samples.epsilon_lower_bound`
            proves from these counts at this $\\delta$ with {100 * confidence:g} % confidence, and `refuted` to whether
            that refutes the claim.
        """),
        stub="proved = ...\nrefuted = ...",
        solution=f"proved = {right}\nrefuted = proved > {claim}",
        visible='checks.form(proved, name="proved")\n'
        'checks.form(refuted, name="refuted", test=lambda r: None if r in (True, False) else "give True or False.")',
        hidden=code(f"""
            checks.number(
                proved,
                name="proved",
                expected={right},
                rel=2e-3,
                mistakes=[
                    checks.Mistake({wrong_delta}, "this is for δ = 0."),
                    checks.Mistake({wrong_side}, "this comes from the observed rates, which prove nothing."),
                ],
            )
            checks.choice(refuted, name="refuted", expected={proved > claim}, options=[True, False])
        """),
        points=2,
        wrong={
            "no delta": f"proved = {wrong_delta}\nrefuted = proved > {claim}",
            "observed rates": f"proved = {wrong_side}\nrefuted = proved > {claim}",
            "the wrong conclusion": f"proved = {right}\nrefuted = proved <= {claim}",
        },
    )


def perfect_attack(rng: np.random.Generator) -> Graded:
    epsilon, confidence = round(float(rng.uniform(1.5, 6.5)), 1), float(rng.choice([0.9, 0.95, 0.99]))
    runs = f"int(np.ceil(np.log((1 - {confidence}){{}}) / np.log1p(-1 / ({{}}np.exp({epsilon})))))"
    mistakes = {
        "each of the two rates gets half of what may go wrong.": runs.format("", "1 + "),
        "with one run fewer it is just not proved.": f"{runs.format(' / 2', '1 + ')} - 1",
    }
    asked = f"""
Your attacker tells two neighbouring datasets apart in every run. You run the mechanism $n$ times on each dataset, and
all $2n$ guesses are right.

Set `runs` to the smallest $n$ with which `samples.epsilon_lower_bound` proves $\\varepsilon \\ge {epsilon:g}$ at
$\\delta = 0$ and {100 * confidence:g} % confidence.
"""
    return number(
        "runs",
        title="How many runs can prove it?",
        asked=asked,
        right=runs.format(" / 2", "1 + "),
        mistakes=mistakes,
        rel=0.0,
    )


BANK = [  # a statement, whether it is true, and the reason that a wrong answer needs to read
    ("If $M$ is $\\varepsilon$-DP, then so is $M$ with its output rounded to whole numbers.", True,
     "rounding does not look at the data again."),
    ("If $M$ is 1-DP under add/remove, then it is 1-DP under replace-one.", False,
     "replacing is one removal and one addition."),
    ("If $M$ is 1-DP under replace-one with $n$ public, three records replaced at once are protected with 3.", True,
     "three steps from neighbour to neighbour multiply e three times."),
    ("A mechanism whose output is a constant is 0-DP.", True, "its law is the same on all datasets."),
    ("A mechanism without randomness, whose output depends on the data, can be $\\varepsilon$-DP for large $\\varepsilon$.",
     False, "some output is certain on one dataset and impossible on a neighbour."),
    ("If an audit at 95 % confidence proves $\\varepsilon \\ge 0.3$, the mechanism is 0.3-DP.", False,
     "an audit bounds ε from below; only a proof bounds it from above."),
    ("$(\\varepsilon, \\delta)$-DP with $\\delta = 1$ promises nothing.", True, "any mechanism has it."),
    ("Two releases of the same data, each 0.5-DP with noise of its own, are together 1-DP.", True,
     "losses add up at worst."),
    ("Under 0.1-DP, nobody can learn from the output that smoking raises the risk of a disease.", False,
     "what follows from other people's records may be learned."),
    ("Laplace noise of scale $b$ has standard deviation $b$.", False, "it is the square root of 2 times b."),
]  # fmt: skip


def range_of_the_data() -> Argued:
    return Argued(
        name="range-of-the-data",
        question=code("""
            Argue: noise from the range of the data

            A colleague releases the mean of $n$ numbers with Laplace noise of scale $(M - m)/(n\\varepsilon)$, where $m$
            and $M$ are the smallest and the largest number of the dataset: "So each number is in $[m, M]$, as the
            theorem asks." Two datasets are neighbours if they differ in the value of one record.

            Is this release $\\varepsilon$-DP for some $\\varepsilon$? Prove it or refute it, in at most ten sentences.
        """),
        rubric=code("""
            - (1 point) It says that the release is not ε-DP, for no finite ε.
            - (2 points) It gives two neighbours that prove it, such as n equal numbers (scale 0: a certain output)
              against the same with one changed, and an event whose probabilities have no bounded ratio.
            - (1 point) It names the wrong step: the scale must be fixed for all neighbours, without the data.
        """),
        points=4,
        answer=code("""
            It is not, for no ε. Let all n numbers of D be 0: then the scale is 0, and the release is 0 with certainty.
            Let D' have one 1 in place of a 0: then the scale is positive, the release has a density, and it is exactly 0
            with probability 0. So the event "the release is 0" has probability 1 and 0, and 1 is at most e^ε times 0 for
            no ε. The theorem needs an interval that holds for all datasets; this one depends on the data.
        """),
    )


def twice_the_same_noise() -> Argued:
    return Argued(
        name="twice-the-same-noise",
        question=code("""
            Argue: noise that is used twice

            A hospital releases two counts, of patients with and without a diagnosis. Each gets Laplace noise of scale
            $1/\\varepsilon$, but the program draws only one number and adds it to both. Two datasets are neighbours if one
            has one patient more than the other.

            Is the pair $\\varepsilon'$-DP for some $\\varepsilon'$? Prove it or refute it, in at most ten sentences.
        """),
        rubric=code("""
            - (1 point) It says that the pair is not ε'-DP, for no finite ε'.
            - (2 points) It looks at the difference of the two numbers, from which the noise cancels, and names neighbours
              and an event of probability 1 on one and 0 on the other.
            - (1 point) It says why composition does not help: its theorem needs noise that is drawn independently.
        """),
        points=4,
        answer=code("""
            It is not, for no ε'. The difference of the two released numbers is the difference of the two true counts,
            since the noise cancels. One patient more changes one count and so this difference: the event "the difference
            is that of D" has probability 1 on D and 0 on D', and 1 is at most e^ε' times 0 for no ε'. Each count by
            itself is ε-DP, but the composition theorem needs independent noise in the two releases.
        """),
    )
