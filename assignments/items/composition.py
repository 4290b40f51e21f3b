r"""Graded exercises of chapter 02: a budget and its steps, the exact delta of unlike coins, counts of groups, noise in
proportion, a false claim about delta, statements, a proof.

k coins of parameter epsilon have loss (2X - k) epsilon with X binomial; delta is E[1 - e^(total - loss)]_+. Laplace
noise b_i on numbers that a record moves by s_i costs the sum of s_i/b_i, Gaussian noise sigma_i as much as noise 1 on
the root of the sum of (s_i/sigma_i)^2.
"""

from __future__ import annotations

import math

import numpy as np

from assignments.item import Argued, Graded, Sheet
from assignments.items import drawing
from assignments.items.drawing import code, counterexample, function, mechanism, number, statements, tex

IMPORTS = drawing.imports("from dpml import mechanisms", "from dpml.accounting import composition")


def make(rng: np.random.Generator) -> Sheet:
    """Draw the sheet."""
    budget = how_many_steps(rng) if rng.random() < 0.5 else how_much_for_a_step(rng)
    coins = two_kinds_of_coins(rng) if rng.random() < 0.5 else silent_coins(rng)
    claim = group_claim(rng) if rng.random() < 0.5 else twice_claim(rng)
    argued = adaptive_proof() if rng.random() < 0.5 else disjoint_proof()
    items = (budget, coins, group_counts(rng), noise_in_proportion(rng), claim, statements(rng, BANK), argued)
    return Sheet("Graded exercises 02: Composition", IMPORTS, items)


def how_many_steps(rng: np.random.Generator) -> Graded:
    epsilon, total = float(rng.choice([0.01, 0.012, 0.015, 0.018])), float(rng.choice([0.9, 1.1, 1.3, 1.6]))
    delta = float(rng.choice([1e-4, 1e-5, 1e-6]))
    added = math.floor(total / epsilon + 1e-9)
    spread = math.sqrt(2 * math.log(1 / delta))
    printed = math.floor(
        ((math.sqrt(spread**2 + 4 * math.expm1(epsilon) * total / epsilon) - spread) / (2 * math.expm1(epsilon))) ** 2
    )
    return number(
        "steps",
        title="How many steps does the budget allow?",
        asked=rf"""
            Each step of an algorithm is ${epsilon:g}$-DP, and nothing else is known about the steps. All of them
            together must be $({total:g}, {tex(delta)})$-DP for certain.

            Set `steps` to the largest number of steps that this allows. `composition.optimal_delta` and
            `composition.optimal` know the best theorem.
        """,
        setup=f"""
            def fits(k):
                return composition.optimal_delta(epsilon={epsilon}, delta=0.0, k=k, total_epsilon={total}) <= {delta}

            low, high = 1, 2**14
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if fits(middle) else (low, middle)
        """,
        right="low",
        mistakes={
            "with so many the total is just above the budget.": "low + 1",
            "this adds the epsilons up; at a positive delta more is allowed.": f"{added}",
            "this comes from the advanced bound in its printed form, which is not the best.": f"{printed}",
            "the square root of k times epsilon is the size of the walk of the loss, which it often exceeds.": "math.floor"
            f"(({total} / {epsilon}) ** 2)",
        },
        rel=0.0,
    )


def how_much_for_a_step(rng: np.random.Generator) -> Graded:
    k, total = int(rng.integers(5, 40)) * 10, float(rng.choice([0.8, 1.0, 1.5, 2.0]))
    delta = float(rng.choice([1e-4, 1e-5, 1e-6]))
    spread = math.sqrt(2 * k * math.log(1 / delta))
    low, high = 0.0, total
    for _ in range(60):
        middle = (low + high) / 2
        if middle * spread + k * middle * math.expm1(middle) <= total:
            low = middle
        else:
            high = middle
    return number(
        "step_epsilon",
        title="How much may a step cost?",
        asked=rf"""
            An algorithm has {k} steps. Each will be $\varepsilon$-DP, with the same $\varepsilon$, and nothing else is
            known about them. All together must be $({total:g}, {tex(delta)})$-DP for certain.

            Set `step_epsilon` to the largest such $\varepsilon$, to at least four digits. `composition.optimal_delta`
            and `composition.optimal` know the best theorem.
        """,
        setup=f"""
            low, high = 0.0, {total}
            for _ in range(50):
                middle = (low + high) / 2
                if composition.optimal_delta(epsilon=middle, delta=0.0, k={k}, total_epsilon={total}) <= {delta}:
                    low = middle
                else:
                    high = middle
        """,
        right="low",
        mistakes={
            "this adds the epsilons up; at a positive delta each step may cost more.": f"{total} / {k}",
            "this comes from the advanced bound in its printed form, which is not the best.": f"{low}",
            "the square root of k times epsilon is the size of the walk of the loss, which it often exceeds.": f"{total} / "
            f"math.sqrt({k})",
        },
    )


COIN = r"""
A coin with parameter $\varepsilon$ tells one bit by randomized response: the truth with probability
$e^\varepsilon/(1 + e^\varepsilon)$, else the opposite. The bit is 1 under $D$ and 0 under its neighbour $D'$.
"""


def two_kinds_of_coins(rng: np.random.Generator) -> Graded:
    inputs = []
    for _ in range(5):
        a, b = (round(float(x), 2) for x in rng.uniform([0.15, 0.6], [0.5, 1.2]))
        k, m = (int(x) for x in rng.integers(2, 7, size=2))
        total = round(float(rng.uniform(0.15, 0.7)) * (k * a + m * b), 2)
        inputs.append({"epsilon_a": a, "k": k, "epsilon_b": b, "m": m, "total_epsilon": total})
    mean = "(k * epsilon_a + m * epsilon_b) / (k + m)"
    return function(
        "mixed_delta",
        title="Coins of two kinds",
        asked=rf"""{code(COIN)} All answers are independent.

Write `mixed_delta(*, epsilon_a, k, epsilon_b, m, total_epsilon)`: the smallest $\delta$ for which $k$ coins with parameter
`epsilon_a` and $m$ coins with parameter `epsilon_b` are together (`total_epsilon`, $\delta$)-DP, exactly.""",
        takes="*, epsilon_a, k, epsilon_b, m, total_epsilon",
        right="""
            def losses(epsilon, n):
                truth = 1 / (1 + math.exp(-epsilon))
                return [
                    ({steps} * epsilon, math.comb(n, x) * truth**x * (1 - truth) ** (n - x)) for x in range(n + 1)
                ]

            return sum(
                p * r * {excess}
                for a, p in losses({a}, k)
                for b, r in losses({b}, m)
            )
        """,
        parts={
            "steps": "(2 * x - n)", "excess": "max(0.0, 1 - math.exp(total_epsilon - a - b))", "a": "epsilon_a",
            "b": "epsilon_b",
        },
        inputs=inputs,
        cases={
            "is 0 for one coin at its own epsilon": "abs(f(epsilon_a=0.5, k=1, epsilon_b=1.0, m=0, total_epsilon=0.5)) < 1e-12",
            "is 0 where the epsilons add up to the total": "abs(f(epsilon_a=0.5, k=2, epsilon_b=1.0, m=1, "
            "total_epsilon=2.0)) < 1e-12",
        },
        mistakes={
            "outcomes with a loss below the total must count 0, not a negative number.": {
                "excess": "(1 - math.exp(total_epsilon - a - b))"
            },
            "this is the probability that the loss exceeds the total, an upper bound.": {
                "excess": "(a + b > total_epsilon + 1e-9)"
            },
            "all coins have the mean of the two parameters here; the loss is another.": {"a": mean, "b": mean},
            "a coin that points to D' has a loss of minus epsilon, not 0.": {"steps": "x"},
        },
        hint="Each pair of counts of true answers has one loss and one probability.",
        points=3,
    )  # fmt: skip


def silent_coins(rng: np.random.Generator) -> Graded:
    inputs = []
    for _ in range(5):
        epsilon, answered = round(float(rng.uniform(0.3, 1.1)), 2), round(float(rng.uniform(0.2, 0.8)), 2)
        k = int(rng.integers(3, 9))
        total = round(float(rng.uniform(0.1, 0.5)) * k * epsilon, 2)
        inputs.append({"epsilon": epsilon, "k": k, "answered": answered, "total_epsilon": total})
    return function(
        "silent_delta",
        title="Coins that may be silent",
        asked=rf"""{code(COIN)} But each coin answers only with probability
`answered`, whatever the bit is, and otherwise says "no answer". All coins are independent.

Write `silent_delta(*, epsilon, k, answered, total_epsilon)`: the smallest $\delta$ for which what $k$ such coins say is
together (`total_epsilon`, $\delta$)-DP, exactly.""",
        takes="*, epsilon, k, answered, total_epsilon",
        right="""
            truth = 1 / (1 + math.exp(-epsilon))
            result = 0.0
            for n in range(k + 1):
                asked = math.comb(k, n) * {answered}**n * (1 - {answered}) ** (k - n)
                for x in range(n + 1):
                    chance = math.comb(n, x) * truth**x * (1 - truth) ** (n - x)
                    loss = (2 * x - {n}) * epsilon
                    result += asked * chance * {excess}
            return result
        """,
        parts={"answered": "answered", "n": "n", "excess": "max(0.0, 1 - math.exp(total_epsilon - loss))"},
        inputs=inputs,
        cases={
            "is 0 for one coin at its own epsilon": "abs(f(epsilon=0.5, k=1, answered=0.4, total_epsilon=0.5)) < 1e-12",
            "is 0 if no coin answers": "abs(f(epsilon=0.5, k=3, answered=0.0, total_epsilon=0.2)) < 1e-12",
        },
        mistakes={
            "outcomes with a loss below the total must count 0, not a negative number.": {
                "excess": "(1 - math.exp(total_epsilon - loss))"
            },
            "this is the probability that the loss exceeds the total, an upper bound.": {
                "excess": "(loss > total_epsilon + 1e-9)"
            },
            "a silent coin counts as a lie here, but its loss is 0.": {"n": "k"},
            "this is for coins that all answer.": {"answered": "1.0"},
        },
        hint="Sum over how many coins answer, and how many of these tell the truth.",
        points=3,
    )


PROMISE = {True: r"$(\varepsilon, \delta)$-DP", False: r"$\varepsilon$-DP"}

# How one person moves counts of groups: in words, by how much in the L1 and the L2 norm, in how many counts.
MEMBERSHIPS = {
    "one": ("Each person is in exactly one of the groups. Two datasets are neighbours if one of them has one person more "
            "(add/remove).", "1", "1", 1),
    "replaced": ("Each person is in exactly one of the groups. Two datasets are neighbours if they differ in one person, "
                 "who may be in another group (replace-one).", "2", "math.sqrt(2)", 2),
    "two": ("A person may be in up to two of the groups. Two datasets are neighbours if one of them has one person more "
            "(add/remove).", "2", "math.sqrt(2)", 2),
    "three": ("A person may be in up to three of the groups. Two datasets are neighbours if one of them has one person "
              "more (add/remove).", "3", "math.sqrt(3)", 3),
}  # fmt: skip


def group_counts(rng: np.random.Generator) -> Graded:
    asked = list(MEMBERSHIPS)[rng.integers(4)]
    members, one_norm, two_norm, moved = MEMBERSHIPS[asked]
    gaussian = bool(rng.random() < 0.5)
    k = int(rng.integers(5, 8))
    counts = rng.integers(20, 300, size=k)
    other = counts.copy()
    changed = rng.permutation(k)[:moved]
    other[changed] += 1
    if asked == "replaced":
        other[changed[0]] -= 2
    budgets = [
        {"epsilon": float(e)} | ({"delta": float(d)} if gaussian else {})
        for e, d in zip(rng.choice([0.5, 0.8, 1.2, 2.0], size=2, replace=False), [1e-3, 1e-5], strict=True)
    ]
    takes = "counts, *, epsilon, delta" if gaussian else "counts, *, epsilon"
    size = "mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)" if gaussian else "1 / epsilon"
    right = two_norm if gaussian else one_norm
    draw, part = ("normal", "laws.normal") if gaussian else ("laplace", "laws.laplace")

    every = "math.sqrt(len(counts))" if gaussian else "len(counts)"
    known = {
        "this takes every count for one of a composition, as if one person moved all of them.": every,
        "this covers one count that moves by 1; look at how many one person can move.": "1",
    }
    if gaussian:
        known["Gaussian noise needs the L2 norm of the move, the root of the squares, not their sum."] = one_norm
    else:
        known["the L2 norm is for Gaussian noise; Laplace noise needs the sum of the moves."] = two_norm
    promise, noise = PROMISE[gaussian], "Gaussian" if gaussian else "Laplace"
    return mechanism(
        "group_counts",
        title="Counts of several groups",
        asked=rf"""
            {members}

            Write `group_counts({takes}, rng)`. `counts` is a NumPy array with the number of people in each group. It
            returns an array with a noisy count of each group, and *all of it together* is {promise}. Use
            {noise} noise, independent and of the same size for each group, and no more
            than needed. Do not round, and take all randomness from `rng`.
        """,
        takes=takes,
        right=f"counts + rng.{draw}(scale={{factor}} * {size}{{each}})",
        law=f"[{part}(count, noise * {{factor}} * {size}) for count in counts]",
        parts={"factor": right, "each": ", size=len(counts)"},
        called={"counts": np.array([3, 5, 8, 2]), "epsilon": 1.0} | ({"delta": 1e-3} if gaussian else {}),
        returns=(4,),
        settings=[{"counts": counts} | budgets[0], {"counts": other} | budgets[0], {"counts": counts[:4]} | budgets[1]],
        neighbours=[(0, 1)],
        mistakes={text: {"factor": factor} for text, factor in known.items() if factor != right},
        unexplained={"one noise for all": {"each": ""}, "no noise": "counts + 0.0"},
    )


def noise_in_proportion(rng: np.random.Generator) -> Graded:
    gaussian = bool(rng.random() < 0.5)
    inputs = [
        {
            "sensitivities": rng.choice([0.5, 1.0, 2.0, 3.0, 5.0], size=n, replace=False),
            "weights": rng.choice([1.0, 2.0, 3.0, 4.0, 6.0], size=n, replace=False),
            "epsilon": float(rng.choice([0.3, 0.7, 1.5])),
        }
        | ({"delta": float(rng.choice([1e-3, 1e-5, 1e-6]))} if gaussian else {})
        for n in (2, 3, 4, 4)
    ]
    takes = "sensitivities, *, weights, epsilon, delta" if gaussian else "sensitivities, *, weights, epsilon"
    name, noise, letter, size = (
        ("deviations", "Gaussian", r"\sigma", "standard deviation") if gaussian else ("scales", "Laplace", "b", "scale")
    )
    base = "mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)" if gaussian else "(1 / epsilon)"
    add_up = f"weights * {base} * np.sum(sensitivities / weights)"
    root = f"weights * {base} * np.sqrt(np.sum((sensitivities / weights) ** 2))"
    squares = "the shares of Gaussian noise add up in squares."
    if not gaussian:
        squares = "squares are for Gaussian noise; losses under Laplace noise add up."
    called = "np.array([1.0, 2.0]), weights=np.array([1.0, 3.0]), epsilon=1.0" + (", delta=1e-5" if gaussian else "")
    return function(
        name,
        title="Noise in proportion",
        asked=rf"""
            Several numbers about the same people are released, number $i$ with {noise} noise of
            {size} ${letter}_i$. One person can move number $i$ by up to
            $s_i$, and all of them at once by so much. Some numbers may be noisier than others: ${letter}_i$ is to be
            proportional to a given weight $w_i > 0$.

            Write `{name}({takes})`. `sensitivities` and `weights` are NumPy arrays of the $s_i$ and the $w_i$. It
            returns an array of the smallest ${letter}_i$ with which all numbers together are
            {PROMISE[gaussian]}.
        """,
        takes=takes,
        right=root if gaussian else add_up,
        inputs=inputs,
        cases={
            "is proportional to the weights": f"abs(f({called})[1] / f({called})[0] - 3) < 1e-9",
            "has one entry for each number": f"np.shape(f({called})) == (2,)",
        },
        mistakes={
            "the sensitivities are added up without the weights.": f"weights * {base} * np.sum(sensitivities)",
            "this gives each number the same share of the budget, and leaves the weights out.": "len(weights) * "
            f"sensitivities * {base}",
            squares: add_up if gaussian else root,
            "this covers each number alone, not all together.": f"weights * {base} * np.max(sensitivities / weights)",
        },
        hint="What does number i cost at a scale of c w_i? Choose c so that the costs add up to the budget.",
        rel=1e-5,
        points=3,
    )  # fmt: skip


def group_claim(rng: np.random.Generator) -> Graded:
    epsilon, delta = float(rng.choice([0.5, 0.8, 1.0, 1.3])), float(rng.choice([0.01, 0.02, 0.05]))
    return counterexample(
        "yes",
        title="Refute a claim about groups of two",
        asked=rf"""
            A mechanism answers "yes" or "no". $D_0$ and $D_1$ are neighbours, and so are $D_1$ and $D_2$, but not $D_0$
            and $D_2$. A colleague claims: "If the mechanism is $(\varepsilon, \delta)$-DP, then
            $P_0 \le e^{{2\varepsilon}} P_2 + 2\delta$ and $P_2 \le e^{{2\varepsilon}} P_0 + 2\delta$ for every event.
            Both numbers double."

            Refute the claim for $\varepsilon = {epsilon:g}$ and $\delta = {tex(delta)}$. Set `yes` to three probabilities of
            "yes", under $D_0$, $D_1$ and $D_2$. Between neighbours, $(\varepsilon, \delta)$-DP must hold for both events
            in both directions.
        """,
        right=[f"({delta} * (1 + math.exp({epsilon})), {delta}, 0.0)"],
        formed="""
            numbers = np.asarray(answer, dtype=float)
            if numbers.shape != (3,) or not ((numbers >= 0) & (numbers <= 1)).all():
                return "it must hold three numbers from 0 to 1."
            return None
        """,
        refutes=f"""
            def delta(p, r, epsilon):
                events = ((p, r), (r, p), (1 - p, 1 - r), (1 - r, 1 - p))
                return max(a - math.exp(epsilon) * b for a, b in events)

            first, middle, last = (float(p) for p in answer)
            if max(delta(first, middle, {epsilon}), delta(middle, last, {epsilon})) > {delta} * (1 + 1e-9):
                return "the mechanism is not private enough between neighbours."
            if delta(first, last, 2 * {epsilon}) <= 2 * {delta} * (1 + 1e-9):
                return "the claim holds for these. Take the worst case of each step, one after the other."
            return None
        """,
        wrong={
            "both deltas used, no epsilon": [f"({2 * delta}, {delta}, 0.0)"],
            "not private between neighbours": ["(1.0, 0.0, 0.0)"],
            "randomized response without a delta": [f"(0.5, {0.5 * math.exp(-epsilon)}, {0.5 * math.exp(-2 * epsilon)})"],
        },
    )  # fmt: skip


def twice_claim(rng: np.random.Generator) -> Graded:
    epsilon, delta = float(rng.choice([0.2, 0.5, 0.8, 1.0])), float(rng.choice([0.01, 0.02, 0.05]))
    t = math.exp(epsilon) / (1 + math.exp(epsilon))
    return counterexample(
        "under_D",
        "under_neighbour",
        title="Refute a claim about two runs",
        asked=rf"""
            A colleague claims: "If $M$ is $(\varepsilon, \delta)$-DP, then two independent runs of $M$ on the same data
            are together $(2\varepsilon, \delta)$-DP. Only $\varepsilon$ adds up: $\delta$ is the probability that
            something goes wrong, and that is the same for all runs."

            Refute the claim for $\varepsilon = {epsilon:g}$ and $\delta = {tex(delta)}$. $M$ has as many outcomes as you
            like, at most 10. Set `under_D` and `under_neighbour` to two lists of as many probabilities of them, under
            $D$ and under a neighbour. Each list adds up to 1, and one run must be $(\varepsilon, \delta)$-DP in both
            directions.
        """,
        right=[f"[{delta}, 0.0, 1 - {delta}]", f"[0.0, {delta}, 1 - {delta}]"],
        formed="""
            one, other = (np.asarray(part, dtype=float) for part in answer)
            if one.ndim != 1 or one.shape != other.shape or not 2 <= len(one) <= 10:
                return "both must be lists of the same length, from 2 to 10."
            if min(one.min(), other.min()) < 0 or max(abs(one.sum() - 1), abs(other.sum() - 1)) > 1e-9:
                return "each list must hold probabilities that add up to 1."
            return None
        """,
        refutes=f"""
            def delta(p, r, epsilon):
                return max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, r), (r, p)))

            one, other = (np.asarray(part, dtype=float) for part in answer)
            if delta(one, other, {epsilon}) > {delta} * (1 + 1e-9):
                return "one run is not private enough for the claim to speak of it."
            if delta(np.outer(one, one), np.outer(other, other), 2 * {epsilon}) <= {delta} * (1 + 1e-6):
                return "two runs have no larger delta here. Let each run have a chance of its own to show everything."
            return None
        """,
        wrong={
            "randomized response, with no delta": [f"[{t}, {1 - t}]", f"[{1 - t}, {t}]"],
            "one run is not private": ["[1.0, 0.0]", "[0.0, 1.0]"],
            "the same on both sides": ["[0.5, 0.5]", "[0.5, 0.5]"],
        },
    )  # fmt: skip


BANK = [
    ("A mechanism that is chosen after seeing the output of the first one, both with fresh noise and each $0.5$-DP: "
     "the two are together 1-DP.", True, "basic composition holds for adaptive choices as well."),
    ("Ten $0.1$-DP counts are averaged, and only the average is published. It is $0.1$-DP.", False,
     "the average is post-processing of ten answers, which cost ten times as much."),
    ("Ten Gaussian answers with the same $\\sigma$ to ten counts are as private as one of them with $\\sigma/\\sqrt{10}$.",
     True, "ten moves of 1 have Euclidean length root 10."),
    ("If two mechanisms are $(1, 10^{-6})$-DP each, both together are $(2, 10^{-6})$-DP.", False,
     "deltas add up as well."),
    ("From $k$ answers that are $\\varepsilon$-DP each, with $k\\varepsilon^2 = 1$, follows 1-DP with $\\delta = 0$.", False,
     "without a delta only k times epsilon is certain."),
    ("The printed advanced bound, $\\varepsilon\\sqrt{2k\\ln(1/\\delta')} + k\\varepsilon(e^\\varepsilon - 1)$, is above "
     "$k\\varepsilon$ for $k = 1$, whatever $\\varepsilon > 0$ and $\\delta' \\le 0.01$ are.", True,
     "its first term alone is more than three times epsilon there."),
    ("Among all $\\varepsilon$-DP mechanisms, $k$ runs of randomized response have the largest $\\delta$ at every total "
     "$\\varepsilon'$.", True, "every pair of outputs of an epsilon-DP mechanism can be made from its coin."),
    ("The optimal composition theorem gives the smallest $\\varepsilon$ of $k$ Laplace mechanisms.", False,
     "it is the best for those who know epsilon alone; Laplace noise is less harmful than coins."),
    ("An analyst may stop asking as soon as the answers look good, as long as the sum of the $\\varepsilon$ of all pure "
     "answers so far stays within a budget fixed beforehand.", True,
     "on every path the losses are within the budget."),
    ("If one person replaced moves the first count and another person moves the second, two counts together cost only "
     "one of them.", False, "the guarantee is for the person who can move both, unless the groups are disjoint."),
    ("Counts of disjoint groups, with Laplace noise of scale $1/\\varepsilon$ each, are together $\\varepsilon$-DP when a "
     "person is added or removed, however many groups there are.", True, "one person moves one of the counts by 1."),
    ("If the same noisy answer is sent to 100 people, 100 times its $\\varepsilon$ is spent.", False,
     "a copy of an output is post-processing; only fresh noise costs again."),
]  # fmt: skip


def adaptive_proof() -> Argued:
    return Argued(
        name="adaptive-proof",
        question=code(r"""
            Prove it: the second question depends on the first answer

            $M_1$ is $\varepsilon_1$-DP and has finitely many outcomes. For each outcome $y$, $M_2(\cdot, y)$ is
            $\varepsilon_2$-DP. On a dataset $D$, first $y = M_1(D)$ is drawn, then $z = M_2(D, y)$, with fresh randomness
            and finitely many outcomes; the pair $(y, z)$ is published.

            Prove that the pair is $(\varepsilon_1 + \varepsilon_2)$-DP, in at most ten sentences. Then say in one sentence
            where the proof would break if $M_2$ used the random numbers of $M_1$ again.
        """),
        rubric=code("""
            - (1 point) It writes P[(y, z)] as P[M1(D) = y] times P[M2(D, y) = z], for the same y on both sides.
            - (1 point) It bounds each factor by its own e^ε times the one on D', the second for this fixed y.
            - (1 point) It sums over the pairs of an event, and does not stop at single outcomes.
            - (1 point) It says that with shared random numbers the probability of z given y is not that of M2(D, y), so
              the product is wrong. No point for "the epsilons add up because losses add up": that is what is to be proved.
              No point where independence of y and z is claimed: z depends on y.
        """),
        points=4,
        answer=code("""
            Let D and D' be neighbours. Since M2 draws fresh randomness, P[(y, z)] = P[M1(D) = y] P[M2(D, y) = z]. By the
            guarantee of M1 the first factor is at most e^ε1 P[M1(D') = y]. For this y the mechanism M2(., y) is ε2-DP, so
            the second is at most e^ε2 P[M2(D', y) = z]. The product of the bounds is e^(ε1+ε2) times the probability of
            (y, z) on D'. Summed over the pairs of any event this is the claim. If M2 used the random numbers of M1, then,
            given y, z would no longer have the law of M2(D, y), and the first equation would fail.
        """),
    )


def disjoint_proof() -> Argued:
    return Argued(
        name="disjoint-proof",
        question=code(r"""
            Prove it: disjoint groups

            The records of a dataset are divided into $k$ groups by a rule that looks at each record alone. $M_1, \dots,
            M_k$ are $\varepsilon$-DP when a record is added or removed. $M_i$ runs on group $i$, all with independent
            randomness, and all $k$ outputs are published.

            (a) Prove that this is $\varepsilon$-DP when a record is added or removed. (b) Which $\varepsilon'$ holds for
            all such mechanisms when a record is replaced by another one? Why? At most ten sentences in all.
        """),
        rubric=code("""
            - (1 point) It says that one record more changes one group only, by one record, and no other group.
            - (1 point) By independence the probability of all outputs is a product, in which one factor changes, by at most
              e^ε; the others are equal and cancel.
            - (1 point) ε' = 2ε, since the old record leaves one group and the new one joins another: two factors change.
            - (1 point) It says why not less in general (the old and the new record may be in different groups), or why 2ε
              follows from (a) by way of the dataset without the record. No point for kε (basic composition, true but not
              asked), nor for ε with the reason that "the groups are disjoint".
        """),
        points=4,
        answer=code("""
            (a) The rule looks at each record alone, so a record more is one record more in one group j, and the other groups
            are as before. The outputs are independent, so the probability of (y1, ..., yk) is the product of those of yi on
            group i. Between neighbours only the factor j differs, by at most e^ε, since Mj is ε-DP under add/remove. Summed
            over an event this is the claim. (b) 2ε: remove the old record, then add the new one, two steps of (a). The
            records may lie in two groups, and then two factors change, each by up to e^ε, so less is not true in general.
        """),
    )
