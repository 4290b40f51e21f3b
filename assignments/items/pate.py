r"""Graded exercises of chapter 06: how likely the leader loses, a label by other noise, a test before the vote, a budget of
labels, a claim about one vote, many labels by their moments, statements, an argument.

A replaced record moves one vote from one class to another: two counts by 1 each, so 2 in the L1 norm and the root of 2 in
the L2 norm. The gap of the first to the second moves by up to 2, the largest count by 1.
"""

from __future__ import annotations

import numpy as np

from assignments.item import Argued, Graded, Sheet
from assignments.items import drawing
from assignments.items.drawing import code, counterexample, function, mechanism, number, statements, tex
from dpml import mechanisms
from dpml.pate import student

IMPORTS = drawing.imports("from dpml import mechanisms", "from dpml.pate import student, voting")

NEIGHBOURS = r"""
Each teacher has one vote on a class. Two datasets are neighbours if they differ in one replaced record, which can move one
vote from a class to another.
"""


def make(rng: np.random.Generator) -> Sheet:
    """Draw the sheet."""
    label = gaussian_label(rng) if rng.random() < 0.5 else exponential_label(rng)
    budget = sigma_for_labels(rng) if rng.random() < 0.5 else labels_within(rng)
    claim = gaussian_claim(rng) if rng.random() < 0.5 else laplace_claim(rng)
    many = laplace_total(rng) if rng.random() < 0.5 else gaussian_total(rng)
    argued = two_epsilon() if rng.random() < 0.5 else tuned_student()
    items = (loses(rng), label, asked_first(rng), budget, claim, many, statements(rng, BANK), argued)
    return Sheet("Graded exercises 06: PATE", IMPORTS, items)


def votes(rng: np.random.Generator, teachers: int, classes: int) -> np.ndarray:
    """Counts with a leader ahead by one vote at least."""
    counts = rng.multinomial(teachers, rng.dirichlet(np.full(classes, 3.0)))
    counts[np.argmax(counts)] += 2
    return counts


def loses(rng: np.random.Generator) -> Graded:
    gaussian = bool(rng.random() < 0.5)
    key = "sigma" if gaussian else "scale"
    inputs = [
        {"counts": votes(rng, int(rng.integers(10, 60)), classes), key: round(float(rng.uniform(1.5, 9.0)), 1)}
        for classes in (2, 3, 4, 5, 10)
    ]
    inputs.append({"counts": np.array([4, 4, 1]), key: 2.0})
    if gaussian:
        noise, tail = rf"Gaussian noise of standard deviation `{key}`", "math.erfc({gap} / (2 * sigma)) / 2"
        told = r"$P(X > t) = \frac12 \text{erfc}(t/(\tau\sqrt2))$ for a Gaussian $X$ of standard deviation $\tau$"
        small = ("the difference of two noises has a standard deviation of root 2 times sigma.",
                 "math.erfc({gap} / (math.sqrt(2) * sigma)) / 2")  # fmt: skip
    else:
        noise, tail = f"Laplace noise of scale `{key}`", "math.exp(-{gap} / scale) * (0.5 + {gap} / (4 * scale))"
        told = r"$P(W > t) = e^{-t}(\frac12 + \frac t4)$ for $t \ge 0$ and the difference $W$ of two Laplace variables of scale 1"
        small = ("each difference has two noises in it, not one.", "math.exp(-{gap} / scale) / 2")
    return function(
        "upset_bound",
        title="How likely does the leader lose?",
        asked=rf"""
            Each count of a vote gets independent {noise}, and the class with the largest noisy count wins. The leader is the class
            with the most votes (the first of them, if several are equal).

            Write `upset_bound(counts, *, {key})`: the bound on the probability that the leader does not win which adds up, over
            the other classes, the probability that this class comes out ahead of the leader. `counts` is a NumPy array. You may
            use that {told}, and must keep the digits of small results.
        """,
        takes=f"counts, *, {key}",
        right="""
            counts = list(counts)
            leader = max(counts)
            rivals = list(counts)
            {without}
            return sum({tail} for votes in {all})
        """,
        parts={"without": "rivals.remove(leader)", "tail": tail, "gap": "(leader - votes)", "all": "rivals"},
        inputs=inputs,
        cases={
            "is one half for two equal counts": f"abs(f(np.array([3, 3]), {key}=2.0) - 0.5) < 1e-9",
            "does not depend on the order of the others": f"abs(f(np.array([9, 3, 5]), {key}=2.0) - f(np.array([9, 5, 3]), "
            f"{key}=2.0)) < 1e-12",
        },
        mistakes={
            small[0]: {"tail": small[1]},
            "every other class can win, not the second alone.": {"all": "[max(rivals)]"},
            "the leader is no rival of itself.": {"without": "pass"},
            "the probabilities of the single rivals are added up here, not put together as if they were independent.": """
                counts = list(counts)
                leader = max(counts)
                rivals = list(counts)
                rivals.remove(leader)
                stays = 1.0
                for votes in rivals:
                    stays *= 1 - {tail}
                return 1 - stays
            """,
        },
        hint="One tail for each other class, at its gap to the leader.",
        rel=1e-7,
    )


def gaussian_label(rng: np.random.Generator) -> Graded:
    counts = votes(rng, 12, 3)
    k = int(np.argmax(counts))
    other = counts.copy()
    other[k] -= 1
    other[(k + 1) % 3] += 1
    few, many = ({"epsilon": float(e), "delta": float(d)} for e, d in ((rng.choice([0.8, 1.0]), 1e-3), (3.0, 1e-2)))
    return mechanism(
        "label",
        title="One label with Gaussian noise",
        asked=rf"""
            {code(NEIGHBOURS)}

            Write `label(counts, *, epsilon, delta, rng)`: the number of the class with the largest noisy count, a whole number. Each
            count gets independent Gaussian noise, of the same standard deviation for all, and the noisy counts all together must be
            $(\varepsilon, \delta)$-DP with no more noise than that needs. `counts` is a NumPy array. Take all randomness from `rng`.
        """,
        takes="counts, *, epsilon, delta",
        right="""
            sigma = {factor} * mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)
            return int(np.argmax(counts + rng.normal(scale=sigma{each})))
        """,
        law="""
            sigma = noise * {factor} * mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)
            z = np.linspace(-9, 9, 2001)
            chances = []
            for one in range(len(counts)):
                below = [
                    0.5 * (1 + np.vectorize(math.erf)((z + (counts[one] - counts[j]) / sigma) / math.sqrt(2)))
                    for j in range(len(counts))
                    if j != one
                ]
                chances.append(np.sum(np.exp(-(z**2) / 2) * np.prod(below, axis=0)))
            return laws.discrete({j: float(p / sum(chances)) for j, p in enumerate(chances)})
        """,
        parts={"factor": "math.sqrt(2)", "each": ", size=len(counts)"},
        called={"counts": np.array([3, 5, 1]), "epsilon": 1.0, "delta": 1e-3},
        settings=[{"counts": counts} | few, {"counts": other} | few, {"counts": np.array([2, 5])} | many],
        neighbours=[(0, 1)],
        mistakes={
            "this is for one count that moves by 1; a moved vote changes two counts.": {"factor": "1"},
            "the sum of the two moves is for Laplace noise; here it is the root of the squares.": {"factor": "2"},
        },
        unexplained={"no noise": "return int(np.argmax(counts))", "one noise for all": {"each": ""}},
    )


def exponential_label(rng: np.random.Generator) -> Graded:
    counts = votes(rng, 9, 4)
    k = int(np.argmax(counts))
    other = counts.copy()
    other[k] -= 1
    other[(k + 2) % 4] += 1
    few, many = float(rng.choice([0.4, 0.5, 0.7])), float(rng.choice([1.0, 1.2]))
    return mechanism(
        "label",
        title="One label by the exponential mechanism",
        asked=rf"""
            {code(NEIGHBOURS)}

            Write `label(counts, *, epsilon, rng)`: the number of a class, a whole number. Class $j$ with $c_j$ votes comes out with a
            probability in proportion to $e^{{\beta c_j}}$. Choose $\beta$ by the theorem of the exponential mechanism: as large as it
            allows for $\varepsilon$-DP when each count may move by 1, up or down. `counts` is a NumPy array. Take all randomness from
            `rng`.
        """,
        takes="counts, *, epsilon",
        right="""
            weights = np.exp((counts - counts.max()) * epsilon * {factor})
            return int(rng.choice(len(counts), p=weights / weights.sum()))
        """,
        law="""
            weights = np.exp((np.asarray(counts, dtype=float) - max(counts)) * epsilon * {factor} / noise)
            return laws.discrete({j: float(p) for j, p in enumerate(weights / weights.sum())})
        """,
        parts={"factor": "0.5"},
        called={"counts": np.array([3, 5, 1]), "epsilon": 1.0},
        settings=[
            {"counts": counts, "epsilon": few},
            {"counts": other, "epsilon": few},
            {"counts": np.array([1, 4, 2]), "epsilon": many},
        ],
        neighbours=[(0, 1)],
        mistakes={
            "the probabilities of all classes are scaled to add up to 1, which moves as well: that costs the other half.": {
                "factor": "1.0"
            },
            "this is half as large as the theorem allows: each count moves by 1.": {"factor": "0.25"},
            "a smaller epsilon needs probabilities that are more alike, not less.": {"factor": "0.5 / epsilon**2"},
        },
        unexplained={"no noise": "return int(np.argmax(counts))"},
    )


# What is compared with a threshold: in words, in Python, by how much a moved vote changes it, when the vote is clear.
CLEAR = {
    "gap": ("the number of votes by which the first class is ahead of the second", "np.sort(counts)[-1] - np.sort(counts)[-2]", 2,
            "at least"),
    "against": ("the number of votes that are not for the class with the most votes", "np.sum(counts) - np.max(counts)", 1,
                "at most"),
}  # fmt: skip


def asked_first(rng: np.random.Generator) -> Graded:
    words, value, moved, sense = list(CLEAR.values())[rng.integers(2)]
    part, rest = ((1, 3), (3, 1), (1, 1))[rng.integers(3)]
    test, vote = part / (part + rest), rest / (part + rest)
    counts = np.array([9, 4, 2])
    other = np.array([8, 5, 2])
    wide = np.array([12, 1, 0, 3])
    epsilon = float(rng.choice([1.5, 2.0, 2.5]))
    level = {"gap": (4, 7), "against": (6, 5)}["gap" if moved == 2 else "against"]
    order = "-distance" if sense == "at least" else "distance"
    sign = "<" if sense == "at least" else ">"
    swapped = {"test": vote, "vote": test} if test != vote else {"test": 1.0, "vote": 1.0}
    budget = "the shares of the test and the vote have changed places."
    if test == vote:
        budget = "test and vote get the whole budget each; together they cost twice as much."
    return mechanism(
        "careful_label",
        title="A label, where the vote is clear",
        asked=rf"""
            {code(NEIGHBOURS)}

            Write `careful_label(counts, *, threshold, epsilon, rng)`. It takes {words}, adds Laplace noise to this one number, and
            if the sum is {sense} `threshold`, returns the number of a class by a noisy argmax, with fresh Laplace noise on each of
            the counts; otherwise it returns $-1$. The whole must be $\varepsilon$-DP by adding up, with no more noise than needed:
            ${part}/{part + rest}$ of $\varepsilon$ goes to the test, ${rest}/{part + rest}$ to the vote. `counts` is a NumPy array of
            at least two counts. Take all randomness from `rng`.
        """,
        takes="counts, *, threshold, epsilon",
        right=f"""
            noisy = ({value}){{noise}}
            if noisy {sign} threshold:
                return -1
            return int(np.argmax(counts + rng.laplace(scale={{votes}} / (epsilon * {{vote}}), size=len(counts))))
        """,
        law=f"""
            scale = noise * {{moved}} / (epsilon * {{test}})
            distance = ({value}) - threshold
            above = -{order} / scale  # how far the answer is inside
            answers = 1 - math.exp(-above) / 2 if above > 0 else math.exp(above) / 2
            chances = voting.argmax_probabilities(np.asarray(counts), scale=noise * {{votes}} / (epsilon * {{vote}}))
            return laws.discrete({{-1: 1 - answers}} | {{j: float(answers * p) for j, p in enumerate(chances)}})
        """,
        parts={
            "noise": " + rng.laplace(scale={moved} / (epsilon * {test}))", "moved": moved, "test": test, "vote": vote,
            "votes": 2,
        },
        called={"counts": np.array([3, 5, 1]), "threshold": 2, "epsilon": 1.0},
        settings=[
            {"counts": counts, "threshold": level[0], "epsilon": epsilon},
            {"counts": other, "threshold": level[0], "epsilon": epsilon},
            {"counts": wide, "threshold": level[1], "epsilon": 3.0},
        ],
        neighbours=[(0, 1)],
        mistakes={
            "look again at how far one moved vote changes the number that is tested.": {"moved": 3 - moved},
            budget: swapped,
            "the vote needs noise for two counts that change.": {"votes": 1},
        },
        unexplained={"a test without noise": {"noise": ""}},
        points=4,
    )  # fmt: skip


def sigma_for_labels(rng: np.random.Generator) -> Graded:
    k, epsilon, delta = (
        int(rng.integers(5, 60)) * 10,
        float(rng.choice([0.8, 1.5, 2.5])),
        float(rng.choice([1e-5, 1e-6])),
    )
    one = f"mechanisms.gaussian_sigma(epsilon={epsilon}, delta={delta})"
    return number(
        "sigma",
        title="Noise for many labels",
        asked=rf"""
            {code(NEIGHBOURS)}

            A student asks {k} questions. Each is answered by the class with the largest noisy count, with independent Gaussian noise
            of standard deviation $\sigma$ (in votes) on each count. Set `sigma`, to at least four digits, to the smallest $\sigma$ for
            which all noisy counts of all {k} questions together are $({epsilon:g}, {tex(delta)})$-DP, whatever the votes are.
        """,
        right=f"math.sqrt(2 * {k}) * {one}",
        mistakes={
            "a moved vote changes two counts of each question.": f"math.sqrt({k}) * {one}",
            "Gaussian noise goes with the root of the number of questions.": f"math.sqrt(2) * {k} * {one}",
            "this is for a single question.": f"math.sqrt(2) * {one}",
            "the two counts that move have length root 2, not 2.": f"2 * math.sqrt({k}) * {one}",
        },
    )


def labels_within(rng: np.random.Generator) -> Graded:
    sigma, test = float(rng.choice([40.0, 50.0, 60.0])), float(rng.choice([150.0, 200.0, 250.0]))
    delta, asked = float(rng.choice([1e-5, 1e-6])), int(rng.choice([500, 1000, 1500]))
    about = int(rng.integers(60, 400))
    call = "student.confident_student(asked={asked}, answered={k}, sigma_threshold={test}, sigma={sigma}, delta={delta}).epsilon"
    given = {"asked": asked, "test": test, "sigma": sigma, "delta": delta}
    total = round(
        student.confident_student(asked=asked, answered=about, sigma_threshold=test, sigma=sigma, delta=delta).epsilon
        + 5e-4,
        3,
    )

    def most(call: str) -> str:
        return f"sum(1 for k in range(1, {asked} + 1) if {call} <= {total})"

    right = most(call.format(**given, k="k"))
    return number(
        "labels",
        title="How many labels are within the budget?",
        asked=rf"""
            {code(NEIGHBOURS)}

            A student asks at most {asked} public questions. For each, the largest count plus Gaussian noise of standard deviation
            {test:g} is compared with a threshold; where it is reached, the question is answered by the largest count after fresh
            Gaussian noise of standard deviation {sigma:g} on each. The aggregator stops after {asked} questions, or after a number of
            answers that is fixed beforehand, whichever comes first.

            Set `labels` to the largest number of answers that may be fixed, if all must be $({total:g}, {tex(delta)})$-DP whatever
            the votes are. `student.confident_student(asked=..., answered=..., sigma_threshold=..., sigma=..., delta=...).epsilon`
            computes it.
        """,
        right=right,
        mistakes={
            "with one label more the budget is exceeded.": f"{right} + 1",
            "the tests of the questions without an answer cost as well.": most(
                call.format(**given | {"asked": "k"}, k="k")
            ),
            "the tests cost, too; this counts the labels alone.": most(
                f"student.gnmax_student(queries=k, sigma={sigma}, delta={delta}).epsilon"
            ),
        },
        rel=0.0,
    )


def gaussian_claim(rng: np.random.Generator) -> Graded:
    epsilon, delta = float(rng.choice([0.5, 0.8, 1.0, 1.5])), float(rng.choice([0.01, 0.005, 0.002]))
    sigma = float(mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta))
    gap = max(2, round(epsilon * sigma**2))
    return counterexample(
        "votes",
        "neighbour",
        title="Refute it: one vote, one count",
        asked=rf"""
            {code(NEIGHBOURS)} A colleague releases the winner of a vote between two classes, with Gaussian noise of standard deviation
            $\sigma$ on each count, and takes the $\sigma$ that makes one number of sensitivity 1
            $({epsilon:g}, {delta:g})$-DP: "A record moves one vote, and a vote is 1. So the winner is $({epsilon:g}, {delta:g})$-DP."

            Refute it for this $\sigma$, which is {sigma:.4f}: set `votes` and `neighbour` to two pairs of whole numbers, the counts on
            $D$ and on $D'$, with at most 500 votes, such that the probability of some winner under $D$ exceeds $e^\varepsilon$ times
            that under $D'$ by more than $\delta$.
        """,
        right=[f"(100, {100 + gap})", f"(99, {101 + gap})"],
        formed="""
            one, other = (np.asarray(part, dtype=float) for part in answer)
            whole = one.shape == other.shape == (2,) and min(one.min(), other.min()) >= 0
            if not whole or (one != np.floor(one)).any() or (other != np.floor(other)).any():
                return "both must be pairs of whole numbers, 0 or more."
            if one.sum() != other.sum() or abs(one[0] - other[0]) != 1 or one.sum() > 500:
                return "they must differ by one vote that has moved to the other class, and hold at most 500 votes."
            return None
        """,
        refutes=f"""
            sigma = mechanisms.gaussian_sigma(epsilon={epsilon}, delta={delta})
            first, second = ([math.erfc(s * (c[1] - c[0]) / (2 * sigma)) / 2 for s in (1, -1)] for c in answer)
            worst = max(p - math.exp({epsilon}) * r for p, r in zip(first, second))
            if worst <= {delta} * (1 + 1e-6):
                return "for these no winner is so telling. How far ahead should the other class be? Try larger gaps."
            return None
        """,
        wrong={
            "a tie": ["(10, 10)", "(9, 11)"],
            "a vote that is all too clear": ["(100, 0)", "(99, 1)"],
            "the likely winner": [f"({100 + gap}, 100)", f"({99 + gap}, 101)"],
        },
        points=3,
    )


def laplace_claim(rng: np.random.Generator) -> Graded:
    epsilon, teachers = float(rng.choice([0.5, 0.8, 1.0, 1.5])), int(rng.choice([30, 40, 50]))
    return counterexample(
        "votes",
        "neighbour",
        title="Refute it: many teachers hide one vote",
        asked=rf"""
            {code(NEIGHBOURS)} A colleague releases the winner of a vote between three classes, with Laplace noise of scale
            $1/\varepsilon$ on each count: "With {teachers} teachers one vote is so little that the winner is
            $1.4\,\varepsilon$-DP at least, if not $\varepsilon$-DP."

            Refute it for $\varepsilon = {epsilon:g}$: set `votes` and `neighbour` to two lists of three whole numbers, the counts on
            $D$ and on $D'$, {teachers} votes each, such that some winner is more than $e^{{1.4\varepsilon}}$ times as likely under one
            of them as under the other.
        """,
        right=[f"[1, {teachers - 1}, 0]", f"[0, {teachers}, 0]"],
        formed=f"""
            one, other = (np.asarray(part, dtype=float) for part in answer)
            if one.shape != (3,) or other.shape != (3,) or min(one.min(), other.min()) < 0:
                return "both must be lists of three numbers, 0 or more."
            if (one != np.floor(one)).any() or (other != np.floor(other)).any() or {{one.sum(), other.sum()}} != {{{teachers}.0}}:
                return "both must hold whole numbers that add up to {teachers}."
            return None if sorted(one - other) == [-1, 0, 1] else "they must differ by one vote that has moved to another class."
        """,
        refutes=f"""
            one, other = (
                voting.argmax_log_probabilities(np.asarray(part, dtype=float), scale=1 / {epsilon}) for part in answer
            )
            if np.abs(one - other).max() <= 1.4 * {epsilon} * (1 + 1e-9):
                return "for these no winner is so telling. Both counts that change should matter for the same winner."
            return None
        """,
        wrong={
            "a close vote": [f"[{teachers // 2}, {teachers - teachers // 2}, 0]", f"[{teachers // 2 - 1}, "
                             f"{teachers - teachers // 2 + 1}, 0]"],
            "the vote moves between two losers": [f"[{teachers - 2}, 2, 0]", f"[{teachers - 2}, 1, 1]"],
        },
    )  # fmt: skip


def drawn_totals(rng: np.random.Generator, key: str) -> list[dict[str, float | int]]:
    return [
        {"queries": int(k), key: float(size), "delta": float(delta)}
        for k, size, delta in zip(
            rng.integers(20, 900, size=5),
            rng.integers(15, 90, size=5),
            rng.choice([1e-4, 1e-5, 1e-6], size=5),
            strict=True,
        )
    ]


def laplace_total(rng: np.random.Generator) -> Graded:
    takes = "*, queries, scale, delta"
    right = "2 * queries / scale**2 + 2 / scale * math.sqrt(2 * queries * math.log(1 / delta))"
    return function(
        "total_epsilon",
        title="Many labels with Laplace noise",
        asked=rf"""
            {code(NEIGHBOURS)} A label is the class with the largest count after Laplace noise of scale $b$ on each. Its log-moment is,
            for any votes, at most $2\lambda(\lambda + 1)/b^2$ for each real $\lambda > 0$; log-moments of several labels add up; and
            a total log-moment $\alpha$ gives $\varepsilon = (\alpha + \log(1/\delta))/\lambda$.

            Write `total_epsilon({takes})`, where `scale` is $b$: the smallest $\varepsilon$ that follows from this for so many labels,
            over all real $\lambda > 0$. Find the best $\lambda$ by calculus.
        """,
        takes=takes,
        right=right,
        inputs=drawn_totals(rng, "scale"),
        cases={"grows with the number of labels": "f(queries=20, scale=20.0, delta=1e-5) > f(queries=10, scale=20.0, delta=1e-5)"},
        mistakes={
            "the 1 in lambda + 1 leaves a term that grows like the number of labels.": "2 / scale * math.sqrt(2 * queries * "
            "math.log(1 / delta))",
            "this adds up the pure epsilons, and leaves delta out.": "2 * queries / scale",
            "this uses whole lambdas; a real one may be better.": "min((2 * queries * lam * (lam + 1) / scale**2 + "
            "math.log(1 / delta)) / lam for lam in range(1, 1000))",
            "one label has this log-moment; there are many.": "2 / scale**2 + 2 / scale * math.sqrt(2 * math.log(1 / delta))",
        },
        hint="Compare with your formula at a few values of lambda on both sides of the best.",
    )  # fmt: skip


def gaussian_total(rng: np.random.Generator) -> Graded:
    takes = "*, queries, sigma, delta"
    right = "queries / sigma**2 + 2 / sigma * math.sqrt(queries * math.log(1 / delta))"
    return function(
        "total_epsilon",
        title="Many labels with Gaussian noise",
        asked=rf"""
            {code(NEIGHBOURS)} A label is the class with the largest count after Gaussian noise of standard deviation $\sigma$ on each. A
            vector that moves by the Euclidean length $s$, with such noise, has Rényi divergence $a s^2/(2\sigma^2)$ of order $a > 1$;
            divergences of several labels add up; and a total $D$ of order $a$ gives $\varepsilon = D + \log(1/\delta)/(a - 1)$.

            Write `total_epsilon({takes})`: the smallest $\varepsilon$ that follows from this for so many labels, whatever the votes,
            over all real $a > 1$. Find the best $a$ by calculus.
        """,
        takes=takes,
        right=right,
        inputs=drawn_totals(rng, "sigma"),
        cases={"grows with the number of labels": "f(queries=20, sigma=20.0, delta=1e-5) > f(queries=10, sigma=20.0, delta=1e-5)"},
        mistakes={
            "a moved vote changes two counts, so s squared is 2.": "queries / (2 * sigma**2) + math.sqrt(2 * queries * "
            "math.log(1 / delta)) / sigma",
            "s is the root of 2, not 2.": "2 * queries / sigma**2 + 2 / sigma * math.sqrt(2 * queries * math.log(1 / delta))",
            "the order is not the order less 1; a term that grows like the number of labels is left.": "2 / sigma * "
            "math.sqrt(queries * math.log(1 / delta))",
            "this uses whole orders; a real one may be better.": "min(a * queries / sigma**2 + math.log(1 / delta) / (a - 1) for a "
            "in range(2, 1000))",
        },
        hint="Compare with your formula at a few orders on both sides of the best.",
    )  # fmt: skip


BANK = [
    ("With disjoint parts of the data, one replaced record changes the vote of at most one teacher on each question.", True,
     "the record lies in one part, and the other teachers never saw it."),
    ("With a fixed scale of the noise, more teachers make the guarantee for any votes better.", False,
     "one vote is one vote: what holds for any votes does not depend on their number."),
    ("With more teachers one can use more noise for the same accuracy.", True, "gaps grow with the number of teachers."),
    ("Answering 100 questions costs the same as answering one, since each record is in one part only.", False,
     "the same teacher votes on each of the questions, and all of these votes may change."),
    ("The student may be used for any number of questions after its training.", True,
     "it is post-processing of labels that are paid for."),
    ("A replaced record moves the noisy counts by 1 in the L1 norm.", False, "one count loses a vote and another one wins it."),
    ("A clear vote costs no privacy, so its $\\varepsilon$ need not be counted.", False,
     "whether a vote is clear depends on private votes; a small cost has to be proved, and be kept private or paid for."),
    ("An $\\varepsilon$ that was computed from the votes may be published like any other number.", False,
     "it is a function of the private votes, without noise."),
    ("The teachers may be trained without noise.", True, "they are never released; only their noisy votes are."),
    ("The public questions may be chosen by looking at which earlier ones got an answer.", True,
     "the answers are released outputs, and adaptive choices are covered by composition."),
    ("The student's architecture may be chosen by its accuracy on the private training data, at no cost.", False,
     "this looks at private data again, outside of the labels."),
    ("If a teacher was trained on two parts by mistake, the guarantee per label stays as it is.", False,
     "one record may now change two votes."),
]  # fmt: skip


def two_epsilon() -> Argued:
    return Argued(
        name="two-epsilon",
        question=code(rf"""
            Prove it: what the winner costs

            {code(NEIGHBOURS)} Each count gets independent Laplace noise of scale $1/\varepsilon$, and the class with the largest noisy
            count is released.

            (a) Prove that this is $2\varepsilon$-DP. (b) Two classes, $D$ has the votes $(1, n - 1)$ and $D'$ has $(0, n)$. Which
            winner is telling here, and towards which value does its privacy loss tend when $n$ grows? Give a reason: for large $t$ the
            difference of two Laplace variables of scale 1 exceeds $t$ with probability $e^{{-t}}(\frac12 + \frac t4)$. At most ten
            sentences.
        """),
        rubric=code("""
            - (1 point) The vector of counts moves by 2 in the L1 norm, in two coordinates by 1 each.
            - (1 point) Laplace noise of scale 1/ε on each makes the vector 2ε-DP, and the winner is post-processing.
            - (2 points) The loser, class 0: its gap is n - 2 under D and n under D', so the ratio is e^(2ε) times
              (1/2 + ε(n-2)/4)/(1/2 + εn/4), which tends to e^(2ε); the loss tends to 2ε. 1 point without the second factor.
              No point in (b) for the winner with most votes, whose loss tends to 0.
        """),
        points=4,
        answer=code("""
            (a) A replaced record moves one vote: one count falls by 1, another one rises by 1, so the vector moves by 2 in the L1
            norm. With Laplace noise of scale 1/ε on each coordinate the density changes by at most a factor e^(2ε), so the noisy
            counts are 2ε-DP. The winner is computed from them. (b) Class 0, the loser: it wins if the difference of the noises
            exceeds its gap, n - 2 under D and n under D'. With t = ε times the gap the ratio is e^(2ε) (1/2 + ε(n-2)/4)/(1/2 + εn/4).
            The second factor tends to 1, so the loss tends to 2ε, and 2 cannot be replaced by a smaller factor.
        """),
    )


def tuned_student() -> Argued:
    return Argued(
        name="tuned-student",
        question=code(r"""
            Argue: the student sees some private data

            A hospital trains teachers on disjoint parts of its records and a student on public images with noisy labels, at a total
            cost of $(2, 10^{-5})$. The student is 3 % less accurate than hoped. So the team continues to train it, for a few epochs,
            on 500 of the private records ("it has a guarantee already, and they are only a few"), and releases it with the statement
            "(2, 10⁻⁵)-DP".

            (a) Is the statement right for a record among the 500, and for the others? (b) Name two ways to improve the student
            which leave a guarantee, and say what each of them costs. At most ten sentences.
        """),
        rubric=code("""
            - (1 point) For the 500 the statement is false: the further training is no post-processing of the labels, it reads the
              records without noise, and no ε holds.
            - (1 point) As a guarantee of the mechanism it fails for all, since any record may be one of the 500; the part of the
              others that are fixed beforehand not to be used keeps (2, 1e-5) (either view, with the reason).
            - (2 points) Two ways with their costs, 1 point each: more labels from the teachers (more ε, by composition); a
              continued training by DP-SGD on the 500, whose ε is added for them; more public images or better features of them
              (free); another student on the same labels (free). No point for "fewer epochs" or "a smaller learning rate".
        """),
        points=4,
        answer=code("""
            (a) For a record among the 500 it is false: the second training is not computed from the released labels alone but reads
            these records, without noise, so there is no finite ε for them. Whoever was fixed beforehand not to be among the 500
            keeps (2, 1e-5): for this record the further training is computed from the labels and from other people's data. (b) They
            may ask the teachers for more labels, at more ε, counted for all labels together. They may train on with DP-SGD on the
            500, whose guarantee adds to (2, 1e-5) for these. Free of charge are more public images without labels, and another
            student on the same labels.
        """),
    )
