r"""Graded exercises of chapter 08: one comparison with other noise, what noise promises, another stopping rule, broken
variants, a margin, noise for several answers above, statements, an argument.

With one noisy threshold (Laplace scale b1), noisy queries (scale b2) of sensitivity 1 and at most c answers "above", the loss
is at most 1/b1 + 2c/b2; for queries that all move in the same direction, 1/b1 + c/b2.
"""

from __future__ import annotations

import math

import numpy as np

from assignments.item import Argued, Graded, Sheet
from assignments.items import drawing
from assignments.items.drawing import code, counterexample, function, mechanism, number, statements, tex

IMPORTS = drawing.imports(
    "from dpml import mechanisms",
    "from dpml.accounting import composition",
    "from dpml.pate.sparse_vector import outcomes",
)


def make(rng: np.random.Generator) -> Sheet:
    """Draw the sheet."""
    promise = promised(rng) if rng.random() < 0.5 else query_noise(rng)
    argued = free_below() if rng.random() < 0.5 else published_value()
    items = (
        above(rng),
        promise,
        first_one(rng),
        broken(rng),
        margin(rng),
        restarted(rng),
        statements(rng, BANK),
        argued,
    )
    return Sheet("Graded exercises 08: The sparse vector technique", IMPORTS, items)


def above(rng: np.random.Generator) -> Graded:
    equal = bool(rng.random() < 0.5)
    inputs = []
    for sign in (1, -1, 1, -1, 1, -1):
        one, two = (float(x) for x in rng.choice([0.5, 1.0, 1.5, 2.5, 4.0, 6.0], size=2, replace=False))
        scales = {"scale": one} if equal else {"threshold_scale": one, "query_scale": two}
        threshold = round(float(rng.uniform(-6, 6)), 1)
        value = round(threshold + sign * float(rng.uniform(0.5, 6)), 1)
        inputs.append({"value": value, "threshold": threshold} | scales)
    if equal:
        takes, tail = "*, value, threshold, scale", "math.exp(-x / scale) * (0.5 + x / (4 * scale))"
        told = r"The difference of two Laplace noises of scale $b$ exceeds $x \ge 0$ with probability $e^{-x/b}(\frac12 + \frac{x}{4b})$."
        noise = "of the same scale $b$, the argument `scale`,"
        single, example = "math.exp(-x / scale) / 2", "scale=2.0"
    else:
        takes = "*, value, threshold, threshold_scale, query_scale"
        tail = """(
                query_scale**2 * math.exp(-x / query_scale) - threshold_scale**2 * math.exp(-x / threshold_scale)
            ) / (2 * (query_scale**2 - threshold_scale**2))"""
        told = (r"The difference of two Laplace noises of scales $a \ne b$ exceeds $x \ge 0$ with probability "
                r"$(a^2 e^{-x/a} - b^2 e^{-x/b})/(2(a^2 - b^2))$.")  # fmt: skip
        noise = "of the scales `threshold_scale` and `query_scale`, which are different,"
        single, example = "math.exp(-x / query_scale) / 2", "threshold_scale=1.0, query_scale=2.0"
    return function(
        "chance_above",
        title="One comparison with other noise",
        asked=rf"""
            A query with the true answer `value` is compared with `threshold`: independent Laplace noise is added to both, {noise}
            and the answer is "above" if the noisy value reaches the noisy threshold. {told}

            Write `chance_above({takes})`: the exact probability of "above".
        """,
        takes=takes,
        right="""
            x = abs(threshold - value)
            tail = {tail}
            return tail if value {sign} threshold else 1 - tail
        """,
        parts={"tail": tail, "sign": "<="},
        inputs=inputs,
        cases={"is one half where both are equal": f"abs(f(value=3.0, threshold=3.0, {example}) - 0.5) < 1e-9"},
        mistakes={
            "value and threshold have changed places: a larger value is above more often.": {"sign": ">"},
            "the formula of the tail is for one side; beyond the threshold take 1 less the tail.": f"x = abs(threshold - value)\n"
            f"return {' '.join(tail.split())}",
            "only the noise of the query is counted; the threshold has noise as well.": {"tail": single},
        },
        hint="Only the difference of the two noises matters. On which side of the threshold is the value?",
    )


def promised(rng: np.random.Generator) -> Graded:
    same = bool(rng.random() < 0.5)
    factor, other = ("cutoff", "2 * cutoff") if same else ("2 * cutoff", "cutoff")
    return function(
        "promised",
        title="What does this noise promise?",
        asked=rf"""
            {code(setting(same))}

            Write `promised(*, threshold_scale, query_scale, cutoff)`: the $\varepsilon$ that the proof of the sparse vector technique gives
            for all answers together. The number of queries is not limited.
        """,
        takes="*, threshold_scale, query_scale, cutoff",
        right=f"1 / threshold_scale + {factor} / query_scale",
        inputs=[
            {"threshold_scale": float(a), "query_scale": float(b), "cutoff": int(c)}
            for a, b, c in zip(rng.choice([1.0, 2.0, 5.0, 8.0], 5), rng.choice([3.0, 6.0, 10.0, 25.0], 5), rng.integers(2, 9, 5), strict=True)
        ],
        cases={"falls with more noise": "f(threshold_scale=4.0, query_scale=8.0, cutoff=2) < f(threshold_scale=2.0, query_scale=8.0, cutoff=2)"},
        mistakes={
            direction(same): f"1 / threshold_scale + {other} / query_scale",
            "every answer above costs; the same threshold does not make the later ones free.": "1 / threshold_scale + "
            f"{factor.replace('cutoff', '1')} / query_scale",
            "the threshold is drawn once, and pays once.": f"cutoff / threshold_scale + {factor} / query_scale",
            "the noise of the threshold has to be paid for, too.": f"{factor} / query_scale",
        },
        hint="The proof moves the threshold once, and the noise of each query that is above.",
    )  # fmt: skip


def setting(same: bool) -> str:
    moves = "the true answers move by at most 1 each, all of them upwards or all of them downwards"
    if not same:
        moves = "the true answers move by at most 1 each, some of them upwards and some downwards"
    return (
        f"Between neighbours {moves}. One noisy threshold is drawn at the start, with Laplace noise of scale `threshold_scale`. Each "
        "query gets fresh Laplace noise of scale `query_scale` and is answered by above or below. After `cutoff` answers above "
        "the program stops."
    )


def direction(same: bool) -> str:
    if same:
        return "this is for queries that move in either direction; where all move together, the threshold need not make up for it."
    return "this is for queries that all move in the same direction; here a query may move against the threshold, by 2 in all."


def query_noise(rng: np.random.Generator) -> Graded:
    same = bool(rng.random() < 0.5)
    factor, other = ("cutoff", "2 * cutoff") if same else ("2 * cutoff", "cutoff")
    return function(
        "query_scale",
        title="How much noise is left for the queries?",
        asked=rf"""
            {code(setting(same))}

            Write `query_scale(*, epsilon, threshold_scale, cutoff)`: the smallest `query_scale` for which the proof of the sparse vector
            technique gives $\varepsilon$-DP for all answers together. It is $\varepsilon > 1/$`threshold_scale`.
        """,
        takes="*, epsilon, threshold_scale, cutoff",
        right=f"{factor} / (epsilon - 1 / threshold_scale)",
        inputs=[
            {"epsilon": float(e), "threshold_scale": round(float(t / e), 2), "cutoff": int(c)}
            for e, t, c in zip(rng.choice([0.3, 0.8, 1.5, 2.0], 5), rng.uniform(1.3, 6, 5), rng.integers(2, 9, 5), strict=True)
        ],
        cases={"grows with the cutoff": "f(epsilon=1.0, threshold_scale=2.0, cutoff=4) > f(epsilon=1.0, threshold_scale=2.0, cutoff=2)"},
        mistakes={
            direction(same): f"{other} / (epsilon - 1 / threshold_scale)",
            "the threshold has used up a part of epsilon.": f"{factor} / epsilon",
            "every answer above costs; the same threshold does not make the later ones free.": f"{factor.replace('cutoff', '1')} / "
            "(epsilon - 1 / threshold_scale)",
        },
        hint="What is left of epsilon after the threshold, and how many noises must move?",
    )  # fmt: skip


def first_one(rng: np.random.Generator) -> Graded:
    lower = bool(rng.random() < 0.5)
    word, sign = ("below", "<") if lower else ("above", ">=")
    factor, twice = ("4", "2") if lower else ("2", "4")
    stream = np.array([-1.0, 2.0, 0.0]) + float(rng.integers(-2, 3))
    level = float(stream[2])
    other = stream + (np.array([1.0, -1.0, 1.0]) if lower else 1.0)
    epsilon = float(rng.choice([0.8, 1.0, 1.5]))
    times = "-1" if lower else "1"
    moves = "in either direction" if lower else "all of them upwards or all of them downwards"
    needed = "this noise of the queries is for answers that all move in the same direction."
    if not lower:
        needed = "this noise of the queries is more than needed for answers that all move in the same direction."
    return mechanism(
        f"first_{word}",
        title=f"The first query {word} the threshold",
        asked=rf"""
            `stream` is a NumPy array of true answers. Between neighbours each of them moves by at most 1, {moves}.

            Write `first_{word}(stream, *, threshold, epsilon, rng)`: the index of the first query whose noisy answer is {word} the noisy
            threshold, or `None` if there is none. The noise is Laplace: one half of $\varepsilon$ for the threshold, which is drawn
            once, and the other half for the query that stops the run, each with no more noise than the proof of the sparse vector
            technique needs for $\varepsilon$-DP of the whole. Take all randomness from `rng`.
        """,
        takes="stream, *, threshold, epsilon",
        right="""
            noisy = threshold + rng.laplace(scale={one} / epsilon)
            for i, value in enumerate(stream):
                if value{noise} {sign} noisy:
                    return i
            return None
        """,
        law=f"""
            chances = {{}}
            for i in range(len(stream) + 1):
                bits = [0] * i + [1] * (i < len(stream))
                part = {times} * np.asarray(stream, dtype=float)[: len(bits)]
                chances[i if i < len(stream) else None] = math.exp(outcomes.outcome_log_probability(
                    part, above=bits, threshold={times} * threshold, threshold_scale=noise * {{one}} / epsilon,
                    query_scale=noise * {{two}} / epsilon,
                ))
            total = sum(chances.values())
            return laws.discrete({{key: chance / total for key, chance in chances.items()}})
        """,
        parts={"one": "2", "noise": " + rng.laplace(scale={two} / epsilon)", "two": factor, "sign": sign},
        called={"stream": np.array([9.0, -9.0, 9.0, -9.0]), "threshold": 0.0, "epsilon": 20.0},
        returns=None,
        settings=[
            {"stream": stream, "threshold": level, "epsilon": epsilon},
            {"stream": other, "threshold": level, "epsilon": epsilon},
            {"stream": np.array([3.0, -3.0, 1.0, -1.0, 5.0, -6.0]), "threshold": 0.0, "epsilon": 2.5},
        ],
        neighbours=[(0, 1)],
        mistakes={
            needed: {"two": twice},
            "the threshold needs noise as well; without it every query that goes on tells something.": {"one": "1e-4"},
        },
        unexplained={"the other side": {"sign": ">=" if lower else "<"}, "no noise on the queries": {"noise": ""}},
    )


def broken(rng: np.random.Generator) -> Graded:
    epsilon = float(rng.choice([0.5, 0.8, 1.0]))
    silent = bool(rng.random() < 0.5)
    scales = (0.0, 4 / epsilon) if silent else (2 / epsilon, 4 / epsilon)
    words = (
        r"compares each query, with fresh noise $\mathrm{Lap}(4/\varepsilon)$, with the **exact** threshold 0, and stops at the first "
        "answer above"
        if silent
        else r"draws the noisy threshold, $0 + \mathrm{Lap}(2/\varepsilon)$, once, compares each query, with fresh noise "
        r"$\mathrm{Lap}(4/\varepsilon)$, with it, and **goes on** after answers above, as long as there are queries"
    )
    last = "if any(out[:-1]):\n                return 'after the first True nothing comes.'" if silent else "pass"
    many = 120
    right = (
        [f"[0.0] * {many}", f"[1.0] * {many}", f"[False] * {many}"]
        if silent
        else [f"[0.0, 1.0] * {many // 2}", f"[1.0, 0.0] * {many // 2}", f"[False, True] * {many // 2}"]
    )
    return counterexample(
        "stream",
        "other",
        "output",
        title="Refute it: a variant of the technique",
        asked=rf"""
            A program {words}. The answers of neighbours differ by at most 1 for each query. Its author claims that what it puts out is
            $\varepsilon$-DP.

            Refute it for $\varepsilon = {epsilon:g}$. Set `stream` and `other` to two lists of true answers, from 1 to 200 of them, under
            $D$ and under a neighbour, and `output` to a list of as many truth values (`True` for "above"), such that this output is more
            than $e^{{2\varepsilon}}$ times as likely under one of them as under the other.
        """,
        right=right,
        formed=f"""
            one, other = (np.asarray(part, dtype=float) for part in answer[:2])
            out = list(answer[2])
            if one.ndim != 1 or one.shape != other.shape or len(out) != len(one) or not 1 <= len(one) <= 200:
                return "all three must be lists of the same length, from 1 to 200."
            if not (np.isfinite(one).all() and np.isfinite(other).all()) or np.abs(one - other).max() > 1:
                return "the answers must be finite, and differ by at most 1 for each query."
            if any(not isinstance(bit, (bool, np.bool_)) for bit in out):
                return "the output must hold True and False."
            {last}
            return None
        """,
        refutes=f"""
            one, other = (
                outcomes.outcome_log_probability(
                    np.asarray(part, dtype=float), above=[int(bit) for bit in answer[2]], threshold=0.0,
                    threshold_scale={scales[0]}, query_scale={scales[1]},
                )
                for part in answer[:2]
            )
            if abs(one - other) <= 2 * {epsilon} * (1 + 1e-9):
                return "this output is too little telling. Which of the two noises no longer hides a long run of answers?"
            return None
        """,
        wrong={
            "a single query": ["[0.0]", "[1.0]", "[True]"],
            "the same on both sides": ["[0.0, 0.0]", "[0.0, 0.0]", "[False, True]"],
        },
        points=3,
    )


def margin(rng: np.random.Generator) -> Graded:
    monotone = bool(rng.random() < 0.5)
    two = "2" if monotone else "4"
    inputs = [
        {"queries": int(m), "epsilon": float(e), "beta": float(b)}
        for m, e, b in zip(
            rng.integers(2, 5000, 5),
            rng.choice([0.2, 0.5, 1.0, 2.0], 5),
            rng.choice([0.01, 0.02, 0.05], 5),
            strict=True,
        )
    ]
    return function(
        "needed_margin",
        title="How far below is safe?",
        asked=rf"""
            One noisy threshold, with noise $\mathrm{{Lap}}(2/\varepsilon)$, is compared with `queries` queries, each with fresh noise
            $\mathrm{{Lap}}({two}/\varepsilon)$. All true answers lie at least a margin $t$ below the threshold, and none should come out
            above.

            Bound the probability that one does in this way: the noise of the threshold falls below $-t_1$ with probability $\beta/2$; by
            the union bound, the probability that the noise of any query exceeds $t_2$ is at most $\beta/2$; and $t = t_1 + t_2$. Write
            `needed_margin(*, queries, epsilon, beta)`: the smallest $t$ that follows. A Laplace noise of scale $b$ exceeds $x \ge 0$ with
            probability $e^{{-x/b}}/2$.
        """,
        takes="*, queries, epsilon, beta",
        right=f"2 / epsilon * math.log({{threshold}} / beta) + {two} / epsilon * math.log({{queries}} / beta)",
        parts={"threshold": "1", "queries": "queries"},
        inputs=inputs,
        cases={"grows with the number of queries": "f(queries=20, epsilon=1.0, beta=0.1) > f(queries=10, epsilon=1.0, beta=0.1)"},
        mistakes={
            "only one side of each noise does harm: the tail has a factor of one half.": {
                "threshold": "2", "queries": "2 * queries",
            },
            "any of the queries may come out above, not one alone.": {"queries": "1"},
            "the threshold has noise as well.": f"{two} / epsilon * math.log(queries / beta)",
            "the noise of the threshold is drawn once: no union bound for it.": {"threshold": "queries"},
        },
        hint="Solve each of the two tails for its t.",
    )  # fmt: skip


def restarted(rng: np.random.Generator) -> Graded:
    # So many runs that the best theorem is worth something.
    cutoff, delta = int(rng.integers(25, 60)), float(rng.choice([1e-5, 1e-6]))
    scale = round(float(cutoff * 2 / rng.uniform(1.5, 4.0)), 1)
    spread = math.sqrt(2 * cutoff * math.log(1 / delta))
    one = 2 / scale
    call = "composition.optimal(epsilon=2 / {scale}, delta=0.0, k={k}, total_delta={delta}).epsilon"
    right = call.format(scale=scale, k=cutoff, delta=delta)
    return number(
        "total_epsilon",
        title="What do these runs promise together?",
        asked=rf"""
            AboveThreshold runs on a stream of queries of sensitivity 1, with noise $\mathrm{{Lap}}(\lambda)$ on the threshold and
            $\mathrm{{Lap}}(2\lambda)$ on each query, $\lambda = {scale:g}$. After each answer above it starts again with a fresh threshold;
            after {cutoff} answers above it stops for good.

            Set `total_epsilon`, to at least four digits, to the smallest $\varepsilon$ for which all answers are certainly
            $(\varepsilon, {tex(delta)})$-DP, if only the pure $\varepsilon_0$ of each run is known. `composition.optimal` knows the best
            theorem.
        """,
        right=right,
        mistakes={
            "a run costs the noise of the threshold and that of the query, 1/lambda each.": call.format(
                scale=2 * scale, k=cutoff, delta=delta
            ),
            "with a positive delta less than the sum is certain.": f"{cutoff} * 2 / {scale}",
            "the printed advanced bound is not the best theorem.": f"{one * spread + cutoff * one * math.expm1(one)}",
            "the noise of the queries is twice as large, so that the last one costs 1/lambda, not 2/lambda.": call.format(
                scale=f"({2 * scale} / 3)", k=cutoff, delta=delta
            ),
        },
    )


BANK = [
    ("AboveThreshold may answer any number of queries below at the same total $\\varepsilon$.", True,
     "all answers below are hidden by the one noise of the threshold."),
    ("The noisy value of the query that came out above may be published as well, with the noise that was compared.", False,
     "it tells how far the noisy threshold lies at most; the number needs fresh noise and more epsilon."),
    ("Without noise on the threshold, many answers below cost no more than one of them.", False,
     "then each answer has a loss of its own, and they add up."),
    ("Without noise on the queries, the output can have an infinite loss.", True,
     "an order of two exact answers can be possible on one dataset and impossible on a neighbour."),
    ("The next query may depend on the answers so far.", True, "the proof holds for each query, given what came before."),
    ("After the first answer above, AboveThreshold may go on with the same noisy threshold and noise, at no cost.", False,
     "each answer above needs its own part of epsilon."),
    ("Counts that all grow when a record is added need less noise on the queries.", True,
     "the query that stops the run then does not move against the threshold."),
    ("The noise $\\sqrt{32 Q\\ln(1/\\delta)}\\,\\varepsilon$ becomes smaller with a smaller $\\varepsilon$, as it should.", False,
     "a smaller epsilon asks for more noise: divide by it."),
    ("An upper limit on the number of answers above has to be fixed beforehand.", True, "the noise is computed from it."),
    ("If nothing comes out above, nothing was spent.", False, "that nothing came out is an outcome as well."),
    ("With more queries a clear margin to the threshold must be larger, for the same probability of a false alarm.", True,
     "the largest of many noises grows with the logarithm of their number."),
]  # fmt: skip


def free_below() -> Argued:
    return Argued(
        name="free-below",
        question=code(r"""
            Prove it: below is free

            A program draws one noisy threshold $t = T + \mathrm{Lap}(1/\varepsilon)$ and compares with it $m$ queries, each with fresh noise
            of any law that does not depend on the data. Between neighbours each true answer moves by at most 1.

            Prove that the outcome "all $m$ answers are below" is at most $e^\varepsilon$ times as likely under $D$ as under $D'$, whatever
            $m$ is. Then say why the same proof does not work for the outcome "below, then above". At most ten sentences.
        """),
        rubric=code("""
            - (1 point) It fixes the noises of the queries, the same on both sides: all are below if the largest noisy answer is below t.
            - (1 point) With the same noises this largest answer moves by at most 1 between D and D'.
            - (1 point) A threshold that is larger by 1 makes up for it; the density of Lap(1/ε) changes by at most e^ε. Then it
              averages over the noises.
            - (1 point) For "above" the query must still reach the raised threshold, and its own answer may have fallen: its noise has to
              move by up to 2. No point for "m noises cost m times", or for "the noise is larger than the move".
        """),
        points=4,
        answer=code("""
            Fix the noises of the m queries, the same for D and D'. Under D all answers are below if g, the largest of the noisy answers,
            is below t, and under D' if g' is. As each true answer moves by at most 1 and the noises are the same, g' is at most g + 1.
            So whenever g < t, the threshold t + 1 gives the outcome under D'. The density of t at a point is at most e^ε times that at
            the point raised by 1; hence P[g < t] <= e^ε P[g' < t] for these noises, and on average over them. For "below, then above" the
            threshold that was raised by 1 must still be reached by the last query, whose answer may have fallen by 1: its noise has to
            move by up to 2, which costs more.
        """),
    )


def published_value() -> Argued:
    return Argued(
        name="published-value",
        question=code(r"""
            Argue: all noisy answers, since they are noisy

            A program runs AboveThreshold with $\varepsilon = 1$ on 1,000 counts and publishes, besides the index of the first count above,
            the noisy values of *all* counts before it: "They have Laplace noise of scale $4/\varepsilon$, more than a count needs."

            (a) What does adding up say about the guarantee of the published values of 999 counts, if one person can be in all of them? (b)
            Why does the argument by which answers "below" are free not cover the values? (c) What may be published, at which cost, if
            one value is wanted, that of the count above? At most ten sentences.
        """),
        rubric=code("""
            - (1 point) Each value costs ε/4, so 999 of them 999/4, about 250, besides what the index costs.
            - (1 point) The bits are free since one move of the threshold makes up for all of them; values show each count with its own
              noise, which no threshold can make up for.
            - (2 points) The count above is asked once more with fresh Laplace noise of scale 1/ε', at an extra ε'. 1 point where the
              noise is fresh but the cost is missing. No point for "the noise is larger than needed".
        """),
        points=4,
        answer=code("""
            (a) A count that moves by 1, with noise of scale 4, costs 1/4. One person may move all 999, so adding up says 999/4, about 250,
            and this is no guarantee worth the name. (b) For the bits, one move of the threshold keeps all answers below as they were,
            whatever their number. A published value is a number with its own noise: it must be explained by its own move, and moving the
            threshold changes none of the values. (c) The value of the count above may be had by asking this count once more, with fresh
            noise of scale 1/ε', at the cost of ε' in addition to the ε of the index.
        """),
    )
