r"""Graded exercises of chapter 03: a sample that is small enough, samples that are fresh or kept, a sum of a sample,
pairs of sampling and neighbours that do not fit, noise for several steps, a survey, statements, an argument.

An epsilon-DP mechanism on a q-sample is log(1 + q(e^epsilon - 1))-DP: Poisson samples with add/remove, samples of a
fixed size with replace-one. A delta becomes q delta.
"""

from __future__ import annotations

import math

import numpy as np

from assignments.item import Argued, Graded, Sheet
from assignments.items import drawing
from assignments.items.drawing import code, counterexample, function, mechanism, number, statements

IMPORTS = drawing.imports()


def make(rng: np.random.Generator) -> Sheet:
    """Draw the sheet."""
    small = needed_q(rng) if rng.random() < 0.5 else largest_sample(rng)
    summed = fixed_size_sum(rng) if rng.random() < 0.5 else poisson_sum(rng)
    claim = size_and_coin(rng) if rng.random() < 0.5 else drawn_twice(rng)
    noise = scale_for_steps(rng) if rng.random() < 0.5 else steps_for_scale(rng)
    argued = both_directions() if rng.random() < 0.5 else published_log()
    items = (small, repeated(rng), summed, claim, noise, survey(rng), statements(rng, BANK), argued)
    return Sheet("Graded exercises 03: Amplification by subsampling", IMPORTS, items)


def needed_q(rng: np.random.Generator) -> Graded:
    inputs = [
        {"epsilon": round(float(e), 1), "target": round(float(e * share), 3)}
        for e, share in zip(rng.uniform(0.6, 5.0, size=5), rng.uniform(0.05, 0.8, size=5), strict=True)
    ]
    inputs.append({"epsilon": 1.0, "target": 1.5})
    return function(
        "largest_q",
        title="A sample that is small enough",
        asked=r"""
            A mechanism is $\varepsilon$-DP under add/remove. It will run on a Poisson sample: each record is in it with
            probability $q$, by a secret coin of its own.

            Write `largest_q(*, epsilon, target)`: the largest probability $q$ for which every such mechanism is
            `target`-DP under add/remove. Both arguments are above 0; `target` may be larger than `epsilon`.
        """,
        takes="*, epsilon, target",
        right="min(1.0, math.expm1(target) / math.expm1(epsilon))",
        inputs=inputs,
        cases={
            "is a probability": "0 < f(epsilon=1.0, target=0.2) <= 1",
            "is 1 where no sampling is needed": "abs(f(epsilon=1.0, target=1.0) - 1) < 1e-9",
        },
        mistakes={
            "epsilon is not in proportion to q: this says q epsilon = target.": "min(1.0, target / epsilon)",
            "a probability is at most 1: where the target is above epsilon, all records may be used.": "math.expm1(target)"
            " / math.expm1(epsilon)",
            "this turns the log form around, a bound that is not tight.": "min(1.0, math.expm1(target) / "
            "(math.expm1(epsilon) + math.exp(target) * -math.expm1(-epsilon)))",
            "target and epsilon have changed places.": "min(1.0, math.expm1(epsilon) / math.expm1(target))",
        },
        hint="Put your q into the formula of the theorem: the target must come out.",
    )


def largest_sample(rng: np.random.Generator) -> Graded:
    inputs = [
        {"epsilon": round(float(e), 1), "target": round(float(e * share), 3), "n": int(n)}
        for e, share, n in zip(
            rng.uniform(0.6, 4.0, size=5), rng.uniform(0.1, 0.8, size=5), rng.integers(300, 20_000, size=5), strict=True
        )
    ]
    inputs.append({"epsilon": 1.0, "target": 1.2, "n": int(rng.integers(50, 90))})
    ratio = "n * math.expm1(target) / math.expm1(epsilon)"
    return function(
        "largest_m",
        title="A sample that is small enough",
        asked=r"""
            A mechanism is $\varepsilon$-DP under replace-one. It will run on a sample of exactly $m$ of the $n$ records,
            drawn without replacement, all sets of $m$ equally likely; the sample stays secret, $n$ and $m$ are public.

            Write `largest_m(*, epsilon, target, n)`: the largest whole number $m$, at most $n$, for which every such
            mechanism is `target`-DP under replace-one. `target` may be larger than `epsilon`.
        """,
        takes="*, epsilon, target, n",
        right=f"min(n, math.floor({ratio}))",
        inputs=inputs,
        cases={
            "is a whole number": "int(f(epsilon=1.0, target=0.2, n=1000)) == f(epsilon=1.0, target=0.2, n=1000)",
            "is n where no sampling is needed": "f(epsilon=1.0, target=2.0, n=50) == 50",
        },
        mistakes={
            "epsilon is not in proportion to m/n.": "min(n, math.floor(n * target / epsilon))",
            "rounded up, the sample is a record too large.": f"min(n, math.ceil({ratio}))",
            "this turns the log form around, a bound that is not tight.": "min(n, math.floor(n * math.expm1(target) / "
            "(math.expm1(epsilon) + math.exp(target) * -math.expm1(-epsilon))))",
        },
        hint="Put your m/n, and that of m + 1, into the formula of the theorem.",
        rel=1e-9,
    )


def repeated(rng: np.random.Generator) -> Graded:
    inputs = [
        {"epsilon": round(float(e), 2), "delta": float(d), "q": round(float(q), 3), "steps": int(k)}
        for e, d, q, k in zip(
            rng.uniform(0.2, 1.5, size=4), rng.choice([1e-5, 1e-6, 1e-7], size=4), rng.uniform(0.02, 0.6, size=4),
            rng.integers(2, 9, size=4), strict=True,
        )
    ]  # fmt: skip
    fresh = "(steps * math.log1p(q * math.expm1(epsilon)), {delta})"
    kept = "(math.log1p(q * math.expm1(steps * epsilon)), {delta})"
    setting = {
        True: ("a fresh Poisson sample is drawn for each step", fresh, kept,
               "this is for one sample that all steps share; here each step draws its own."),
        False: ("one Poisson sample is drawn, and all steps run on this same sample", kept, fresh,
                "this is for a fresh sample in each step; here a record that is drawn is in all steps."),
    }  # fmt: skip
    words, right, other, reason = setting[bool(rng.random() < 0.5)]
    return function(
        "total",
        title="Several steps on samples",
        asked=rf"""
            $M$ is $(\varepsilon, \delta)$-DP under add/remove. It runs `steps` times with fresh noise, and all outputs are
            published: {words}, in which each record is with probability $q$. Samples stay secret.

            Write `total(*, epsilon, delta, q, steps)`. It returns the pair $(\varepsilon', \delta')$ that is promised for
            all outputs together under add/remove, by amplification by subsampling and by adding up (basic composition),
            each where it belongs.
        """,
        takes="*, epsilon, delta, q, steps",
        right=right.format(delta="steps * q * delta"),
        inputs=inputs,
        cases={
            "is a pair": "len(f(epsilon=0.5, delta=1e-6, q=0.1, steps=3)) == 2",
            "at q = 1 is basic composition": "max(abs(f(epsilon=0.5, delta=0.01, q=1.0, steps=2)[i] - (1.0, 0.02)[i]) for i "
            "in (0, 1)) < 1e-9",
        },
        mistakes={
            reason: other.format(delta="steps * q * delta"),
            "delta shrinks with q as well.": right.format(delta="steps * delta"),
            "epsilon is not in proportion to q.": "(steps * q * epsilon, steps * q * delta)",
            "the deltas of all steps add up.": right.format(delta="q * delta"),
        },
        hint="What does one draw of the sample lead to: one output, or all?",
    )


def fixed_size_sum(rng: np.random.Generator) -> Graded:
    top = float(rng.integers(3, 10))
    values = (top * rng.uniform(0.0, 0.7, size=6)).round(1)
    changed, wild = values.copy(), (top * rng.uniform(0.0, 1.0, size=5)).round(1)
    changed[0], wild[1], wild[3] = top, top * 5, -top * 3
    budgets = [float(x) for x in rng.choice([1.2, 1.6, 2.0, 2.5], size=2, replace=False)]
    m = int(rng.integers(2, 4))

    return mechanism(
        "sample_sum",
        title="The sum of a sample of fixed size",
        asked=rf"""
            Write `sample_sum(values, *, m, epsilon, rng)`. `values` is a NumPy array of $n$ numbers, $n$ is public, and two
            datasets are neighbours if they differ in one value (replace-one). Clip each value to $[0, {top:g}]$, draw $m$ of
            the $n$ records without replacement, and return the sum of this sample plus Laplace noise, not scaled up to all
            records. The whole must be $\varepsilon$-DP, with no more noise than amplification by subsampling asks for. Take
            all randomness from `rng`, and leave `values` as it is.
        """,
        takes="values, *, m, epsilon",
        right=f"""
            inside = {{inside}}
            sample = {{sample}}
            step = {{step}}
            return sample.sum() + rng.laplace(scale={top} / step)
        """,
        law=f"""
            from itertools import combinations

            step = {{step}}
            centers = [sum(part) for part in {{samples}}]
            noisy = [laws.laplace(center, noise * {top} / step) for center in centers]
            return laws.mixture(np.full(len(centers), 1 / len(centers)), noisy)
        """,
        parts={
            "step": "math.log1p(math.expm1(epsilon) * len(values) / m)",
            "sample": "rng.choice(inside, size=m, replace=False)",
            "samples": "combinations({inside}, m)",
            "inside": f"np.clip(values, 0.0, {top})",
        },
        called={"values": np.array([1.0, 2.0, 0.5]), "m": 2, "epsilon": 1.0},
        settings=[
            {"values": values, "m": m, "epsilon": budgets[0]},
            {"values": changed, "m": m, "epsilon": budgets[0]},
            {"values": wild, "m": 2, "epsilon": budgets[1]},
        ],
        neighbours=[(0, 1)],
        mistakes={
            "the noise is for all records; the secret sample allows less.": {"step": "epsilon"},
            "the formula is used the wrong way round: what may a step on the sample cost, so that the whole costs epsilon?": {
                "step": "math.log1p(math.expm1(epsilon) * m / len(values))"
            },
            "values outside the interval are not clipped.": {"inside": "values"},
            "the first records are always in the sample; it must be drawn.": {
                "samples": "[{inside}[:m]]", "sample": "inside[:m]",
            },
        },
    )  # fmt: skip


def poisson_sum(rng: np.random.Generator) -> Graded:
    low, high = -float(rng.integers(1, 4)), float(rng.integers(5, 9))
    values = rng.uniform(low, 0.6 * high, size=4).round(1)
    fewer, wild = values[:3], np.array([high + 20.0, low - 15.0, 1.0])
    values[3] = high
    budgets = [float(x) for x in rng.choice([1.2, 1.6, 2.0, 2.5], size=2, replace=False)]
    q = round(float(rng.uniform(0.3, 0.6)), 2)

    return mechanism(
        "sample_sum",
        title="The sum of a Poisson sample",
        asked=rf"""
            Write `sample_sum(values, *, q, epsilon, rng)`. `values` is a NumPy array of numbers, and two datasets are
            neighbours if one has one number more (add/remove). Clip each value to $[{low:g}, {high:g}]$, take each into the
            sample with probability $q$ by a coin of its own, and return the sum of the sample plus Laplace noise, not scaled
            up. The whole must be $\varepsilon$-DP, with no more noise than amplification by subsampling asks for. Take all
            randomness from `rng`, and leave `values` as it is.
        """,
        takes="values, *, q, epsilon",
        right="""
            inside = {inside}
            sample = inside[rng.random(len(inside)) < q]
            return sample.sum() + rng.laplace(scale={moved} / {step})
        """,
        law="""
            from itertools import product

            inside = {inside}
            coins = np.array(list(product([0, 1], repeat=len(inside))))
            chances = np.prod(np.where(coins == 1, q, 1 - q), axis=1)
            return laws.mixture(chances, [laws.laplace(center, noise * {moved} / {step}) for center in coins @ inside])
        """,
        parts={
            "step": "math.log1p(math.expm1(epsilon) / q)", "moved": high, "inside": f"np.clip(values, {low}, {high})",
        },
        called={"values": np.array([1.0, 2.0, 0.5]), "q": 0.5, "epsilon": 1.0},
        settings=[
            {"values": values, "q": q, "epsilon": budgets[0]},
            {"values": fewer, "q": q, "epsilon": budgets[0]},
            {"values": wild, "q": round(1 - q, 2), "epsilon": budgets[1]},
        ],
        neighbours=[(0, 1)],
        mistakes={
            "the noise is for all records; the secret sample allows less.": {"step": "epsilon"},
            "the formula is used the wrong way round: what may a step on the sample cost, so that the whole costs epsilon?": {
                "step": "math.log1p(math.expm1(epsilon) * q)"
            },
            "this sensitivity is for a replaced record; one that is added moves the sum by less.": {"moved": high - low},
            "values outside the interval are not clipped.": {"inside": "values"},
        },
    )  # fmt: skip


def size_and_coin(rng: np.random.Generator) -> Graded:
    n, q = 20 * int(rng.integers(1, 5)), float(rng.choice([0.05, 0.1, 0.2]))
    epsilon = float(rng.choice([0.5, 1.0, 1.5, 2.0]))
    typical = round(q * n)
    return counterexample(
        "size",
        "answer",
        title="Refute it: coins, and a replaced record",
        asked=rf"""
            A dataset holds $n = {n}$ people, and neighbours are replace-one: $D$ holds Ada, $D'$ another person in her place.
            Each person is in the sample with probability $q = {q:g}$, by a coin of their own (Poisson sampling).

            The mechanism $M$ publishes the size of the sample, and one coin: randomized response to "is Ada in the sample?",
            true with probability $e^\varepsilon/(1 + e^\varepsilon)$, $\varepsilon = {epsilon:g}$. On two samples that differ
            in one replaced person the sizes agree, so $M$ is $\varepsilon$-DP under replace-one. A colleague claims: "On the
            sample it is $\log(1 + q(e^\varepsilon - 1))$-DP under replace-one, by amplification."

            Refute it: set `size` to a whole number and `answer` to `"yes"` or `"no"`, such that this outcome is more than
            $1 + q(e^\varepsilon - 1)$ times as likely under one of $D$ and $D'$ as under the other.
        """,
        right=[f"{n}", '"yes"'],
        formed=f"""
            size, said = answer
            if isinstance(size, bool) or int(size) != size or not 0 <= size <= {n}:
                return "the size must be a whole number from 0 to {n}."
            return None if said in ("yes", "no") else 'the answer must be "yes" or "no".'
        """,
        refutes=f"""
            size, said = answer
            truth = math.exp({epsilon}) / (1 + math.exp({epsilon}))
            drawn = size / {n}  # Ada's chance to be in a sample of this size, under D
            yes = drawn * truth + (1 - drawn) * (1 - truth)
            here, there = (yes, 1 - truth) if said == "yes" else (1 - yes, truth)
            if abs(math.log(here / there)) <= math.log1p({q} * math.expm1({epsilon})) * (1 + 1e-9):
                return "this outcome is too little telling. What does the size say about Ada's chance of being in it?"
            return None
        """,
        wrong={
            "the size that is expected": [f"{typical}", '"yes"'],
            "an empty sample": ["0", '"yes"'],
            "the expected size, and no": [f"{typical}", '"no"'],
        },
    )


def drawn_twice(rng: np.random.Generator) -> Graded:
    n, m = int(rng.integers(4, 9)), int(rng.integers(3, 6))
    epsilon, start = float(rng.choice([0.8, 1.0, 1.3])), int(rng.integers(8, 31)) * int(rng.choice([-1, 1]))
    tails = [
        math.comb(m, j) * (1 / n) ** j * (1 - 1 / n) ** (m - j) * math.exp(epsilon * (j - m)) / 2 for j in range(m + 1)
    ]
    least = 10.0 ** math.floor(math.log10(sum(tails) / 2))
    return counterexample(
        "threshold",
        title="Refute it: drawn with replacement",
        asked=rf"""
            A dataset holds $n = {n}$ people, and neighbours are replace-one: $D$ holds Ada, $D'$ another person in her place.
            The sample consists of $m = {m}$ draws *with* replacement, each of them any of the $n$ people with probability
            $1/n$, so that Ada may be in it several times. The mechanism $M$ counts how often Ada is in the sample, adds the
            public number ${start}$ and Laplace noise of scale $1/\varepsilon$, $\varepsilon = {epsilon:g}$, and publishes the
            sum: on samples that differ in one place it is $\varepsilon$-DP.

            A colleague claims: "Ada is in the sample with probability $q = 1 - (1 - 1/n)^m$, so the whole is
            $\log(1 + q(e^\varepsilon - 1))$-DP." Refute it: set `threshold` such that the outcome "the published number exceeds
            the threshold" has a probability of ${drawing.tex(least)}$ at least under $D$, and is more than
            $1 + q(e^\varepsilon - 1)$ times as likely as under $D'$.
        """,
        right=[f"{float(start + m)}"],
        formed="""
            return None if np.ndim(answer) == 0 and np.isfinite(answer) else "the threshold must be one finite number."
        """,
        refutes=f"""
            def log_tail(z):
                return math.log(0.5) - z if z >= 0 else math.log1p(-0.5 * math.exp(z))

            def log_chance(drawn):
                return math.log(math.comb({m}, drawn) * (1 / {n}) ** drawn * (1 - 1 / {n}) ** ({m} - drawn))

            over = float(answer) - {start}
            tails = [log_chance(j) + log_tail({epsilon} * (over - j)) for j in range({m} + 1)]
            if np.logaddexp.reduce(tails) < math.log({least}):
                return "this outcome is too rare under D."
            loss = np.logaddexp.reduce(tails) - log_tail({epsilon} * over)
            q = 1 - (1 - 1 / {n}) ** {m}
            if loss <= math.log1p(q * math.expm1({epsilon})) * (1 + 1e-9):
                return "this outcome is too little telling. Which counts are possible under D only if Ada is drawn often?"
            return None
        """,
        wrong={
            "what is added to the count": [f"{float(start)}"],
            "nearly every outcome exceeds it": [f"{float(start - 10)}"],
            "what is added is forgotten": ["1.0"],
            "hardly any outcome exceeds it": [f"{float(start + 60)}"],
        },
    )


def scale_for_steps(rng: np.random.Generator) -> Graded:
    q, steps, clip = float(rng.choice([0.01, 0.02, 0.05, 0.1])), int(rng.integers(3, 20)), float(rng.integers(2, 9))
    total = round(float(rng.uniform(0.8, 3.0)) * q * steps, 2)
    return number(
        "scale",
        title="Noise for several steps",
        asked=rf"""
            An algorithm takes {steps} steps. In each it draws a fresh Poisson sample, in which each record is with
            probability $q = {q:g}$, sums values in $[-{clip:g}, {clip:g}]$ of the sample, one for each record, and publishes
            the sum with Laplace noise of scale $b$.

            Set `scale`, to at least four digits, to the smallest $b$ with which amplification by subsampling for each step,
            and adding up over the steps, promise that all is ${total:g}$-DP under add/remove.
        """,
        right=f"{clip} / math.log1p(math.expm1({total} / {steps}) / {q})",
        mistakes={
            "the samples are secret, which allows less noise.": f"{clip} * {steps} / {total}",
            "the formula is used the wrong way round.": f"{clip} / math.log1p(math.expm1({total} / {steps}) * {q})",
            "epsilon is not in proportion to q.": f"{q} * {clip} * {steps} / {total}",
            "this takes the steps for one.": f"{clip} / math.log1p(math.expm1({total}) / {q})",
            "this sensitivity is for a replaced record.": f"2 * {clip} / math.log1p(math.expm1({total} / {steps}) / {q})",
        },
    )


def steps_for_scale(rng: np.random.Generator) -> Graded:
    q, clip = float(rng.choice([0.01, 0.02, 0.05])), float(rng.integers(2, 9))
    scale, total = round(clip / float(rng.uniform(0.8, 2.2)), 1), float(rng.choice([2.0, 3.0, 4.0, 5.0]))
    return number(
        "steps",
        title="How many steps are within the budget?",
        asked=rf"""
            In each step an algorithm draws a fresh Poisson sample, in which each record is with probability $q = {q:g}$, sums
            values in $[-{clip:g}, {clip:g}]$ of the sample, one for each record, and publishes the sum with Laplace noise of
            scale $b = {scale:g}$.

            Set `steps` to the largest number of steps for which amplification by subsampling for each step, and adding up over
            the steps, promise that all is ${total:g}$-DP under add/remove.
        """,
        setup=f"""
            step = math.log1p({q} * math.expm1({clip} / {scale}))
        """,
        right=f"math.floor({total} / step)",
        mistakes={
            "the samples are secret, which allows more steps.": f"math.floor({total} * {scale} / {clip})",
            "epsilon is not in proportion to q.": f"math.floor({total} * {scale} / ({q} * {clip}))",
            "with so many the total is just above the budget.": f"math.floor({total} / step) + 1",
            "this sensitivity is for a replaced record.": f"math.floor({total} / math.log1p({q} * math.expm1(2 * {clip} / "
            f"{scale})))",
        },
        rel=0.0,
    )


def survey(rng: np.random.Generator) -> Graded:
    inputs = [
        {"epsilon": round(float(e), 2), "q": round(float(q), 2)}
        for e, q in zip(rng.uniform(0.3, 3.0, size=5), rng.uniform(0.1, 0.9, size=5), strict=True)
    ]
    exact = """
        truth = 1 / (1 + math.exp(-epsilon))
        yes = [q * p + (1 - q) * {unasked} for p in (truth, 1 - truth)]
        return max(math.log(yes[0] / yes[1]), math.log((1 - yes[1]) / (1 - yes[0])))
    """
    fair = bool(rng.random() < 0.5)
    theorem = "this is the bound of the theorem, which need not be the smallest that holds here."
    if not fair:
        theorem = "the theorem does not help here: a yes shows that the person was asked."
    wrong = {theorem: "math.log1p(q * math.expm1(epsilon))", "the loss is not in proportion to q.": "q * epsilon"}
    if fair:
        wrong["being asked at random makes each answer less telling."] = "epsilon"
    else:
        wrong["only the answer no is looked at; yes tells more."] = """
            truth = 1 / (1 + math.exp(-epsilon))
            return math.log((1 - q * (1 - truth)) / (1 - q * truth))
        """
    written = "the outcome of a fair coin" if fair else 'always "no"'
    return function(
        "survey_epsilon",
        title="A survey that does not ask everyone",
        asked=rf"""
            A person has a secret bit. With probability $q$ they are asked: then randomized response is written down, the truth
            with probability $e^\varepsilon/(1 + e^\varepsilon)$, else the opposite ("yes" for 1, "no" for 0). Otherwise the
            program itself writes {written}, without looking at the bit. Who was asked stays secret.

            Write `survey_epsilon(*, epsilon, q)`: the *smallest* $\varepsilon'$ for which what is written about this person is
            $\varepsilon'$-DP, where neighbours differ in the bit.
        """,
        takes="*, epsilon, q",
        right=exact.format(unasked="0.5" if fair else "0.0"),
        inputs=inputs,
        cases={
            "is not above epsilon": "f(epsilon=1.0, q=0.3) <= 1 + 1e-9",
            "at q = 1 is epsilon": "abs(f(epsilon=0.7, q=1.0) - 0.7) < 1e-9",
        },
        mistakes=wrong,
        hint="How likely is each of the two answers for a 1, and for a 0?",
    )


BANK = [
    ("A Poisson sample, and neighbours with one record more: a $1$-DP mechanism on a sample with $q = 0.1$ is "
     "$0.159$-DP.", True, "this is log(1 + q(e - 1)), and sampling and neighbours fit together."),
    ("A Poisson sample, and neighbours with one record replaced: the theorem promises $\\log(1 + q(e^\\varepsilon - 1))$ for "
     "a mechanism that is $\\varepsilon$-DP under replace-one.", False, "coins go with add/remove; the size of the sample may "
     "tell that it holds the record."),
    ("A sample of fixed size $m$ of $n$ records, and neighbours with one record replaced: the theorem holds with "
     "$q = m/n$.", True, "a fixed size goes with replace-one."),
    ("A sample may be published after the mechanism has run, since then no more noise depends on it.", False,
     "whoever sees the sample knows whether a record was in it; secrecy is what amplifies."),
    ("If $q$ is halved, $\\varepsilon'$ is at least half of what it was.", True,
     "the logarithm is concave in q and 0 at q = 0."),
    ("For large $\\varepsilon$ the gain is about $\\log(1/q)$, taken off $\\varepsilon$, not a factor $q$.", True,
     "log(1 + q(e^epsilon - 1)) is close to epsilon + log q there."),
    ("The data are shuffled once and cut into batches. Given the outputs for all other batches, a batch is amplified like a "
     "fresh sample.", False, "the other batches tell who is left."),
    ("An $(\\varepsilon, \\delta)$-DP mechanism on a $q$-sample keeps its $\\delta$; only $\\varepsilon$ shrinks.", False,
     "delta becomes q delta: the record must be drawn for anything to go wrong."),
    ("The first 100 of 1,000 records, in the order in which they came, are a sample with $q = 0.1$ for the theorem.", False,
     "nothing is drawn, so whoever knows the order knows the sample."),
    ("At $q = 1$ every right formula for amplification returns $\\varepsilon$ itself.", True,
     "with all records in the sample there is neither gain nor loss."),
    ("An epoch of $1/q$ steps, each on a fresh Poisson sample, costs less than one run on all records, if the amplified "
     "epsilons are added up.", False, "1/q times log(1 + q(e^epsilon - 1)) is at least epsilon."),
]  # fmt: skip


def both_directions() -> Argued:
    return Argued(
        name="both-directions",
        question=code(r"""
            Prove it: both directions

            $M$ is $\varepsilon$-DP under add/remove. $D$ has the record $x$ more than $D'$. A Poisson sample with probability
            $q$ is drawn from each. Fix an event $E$, and let $p$ and $p'$ be the probabilities of "$M$ of the sample is in $E$"
            under $D$ and $D'$.

            Prove that $p \le (1 + q(e^\varepsilon - 1))\,p'$ **and** that $p' \le (1 + q(e^\varepsilon - 1))\,p$. Say where you
            use that each record has a coin of its own.
        """),
        rubric=code("""
            - (1 point) It writes p = qA + (1-q)p', where A is the probability of E when x is in the sample: without x, the
              sample has the same law as one from D'.
            - (1 point) A <= e^ε p', sample by sample: with the same coins for the others the two samples are neighbours, and
              this is averaged over the coins. From this the first claim.
            - (1 point) For the second, A >= e^-ε p', so p >= (1 - q(1 - e^-ε)) p', and 1/(1 - q(1 - e^-ε)) <= 1 + q(e^ε - 1),
              with a reason (for example: the product of the two is 1 + q(1-q)(e^ε-1)(1-e^-ε) >= 1).
            - (1 point) It says where own coins enter: the other coins have the same law whether or not x is drawn. No point
              for "by symmetry": p and p' do not play the same part.
        """),
        points=4,
        answer=code("""
            Let A be the probability of E given that x is drawn. As each record has a coin of its own, the others are drawn in
            the same way whether x is drawn or not, and as from D'; so p = qA + (1-q)p'. For fixed coins of the others the
            samples with and without x are neighbours, so A <= e^ε p' and p' <= e^ε A on average over these coins. The first
            gives p <= (q e^ε + 1 - q) p'. The second gives p >= (q e^-ε + 1 - q) p' = (1 - q(1-e^-ε)) p'. The product
            (1 - q(1-e^-ε))(1 + q(e^ε-1)) is 1 + q(1-q)(e^ε-1)(1-e^-ε), because (e^ε-1) - (1-e^-ε) = (e^ε-1)(1-e^-ε), and so
            at least 1. Hence p' <= (1 + q(e^ε-1)) p.
        """),
    )


def published_log() -> Argued:
    return Argued(
        name="published-log",
        question=code(r"""
            Argue: the log file

            A team trains with Poisson samples, $q = 0.01$, and states $\varepsilon'$ by amplification. To make the work
            reproducible it publishes, besides the outputs, the seed of the random generator that drew the samples; the noise
            has another, secret seed. Record numbers and the rule from seed to samples are public. "The records themselves stay
            secret," they say.

            Which guarantee is left for a record that the log shows to be in one of the samples, and for one that is in none?
            What may the team state for all records? At most ten sentences.
        """),
        rubric=code("""
            - (1 point) With the seed, the samples are no longer random to the reader: amplification is lost.
            - (1 point) A record in one sample has the ε of one step without amplification, and as many of them add up as there
              are samples that hold it.
            - (1 point) A record in no sample has no influence on the outputs that are published.
            - (1 point) A statement for all records must hold for the most used one (the number of its samples times ε), or for
              every seed; or the seed must stay secret. No point for "the seed holds no personal data".
        """),
        points=4,
        answer=code("""
            The theorem averages over samples that the reader does not know. With the seed, the reader knows in which steps each
            record number took part, and nothing is averaged. For a record in one sample what is left is the mechanism on that
            sample: the ε of one step, not the amplified one; for a record in j samples j times ε, by adding up. A record in no
            sample does not influence the outputs at all. For all records the team may state ε times the largest number of
            samples that hold one record, or keep the seed secret and state ε'.
        """),
    )
