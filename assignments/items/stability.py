r"""Graded exercises of chapter 07: the distance of another function, a test with the least threshold, how far is far enough,
how many answers to expect, how much the models of M_samp must agree, wrong distances, statements, an argument.

M_stab releases f(D) if d + Lap(1/epsilon) > log(1/delta)/epsilon. Its d moves by at most 1 between neighbours, and is 0 on
both sides of a change of f; it is (epsilon, delta/2)-DP. With a score that moves by s, noise and threshold are s times as
large; with the threshold s log(1/(2 delta))/epsilon it is (epsilon, delta)-DP.
"""

from __future__ import annotations

import math

import numpy as np

from assignments.item import Argued, Graded, Sheet
from assignments.items import drawing
from assignments.items.drawing import code, counterexample, function, mechanism, number, statements, tex

IMPORTS = drawing.imports()

M_STAB = r"""
$M_{\mathrm{stab}}$ releases the exact answer $f(D)$ if $d + \mathrm{Lap}(1/\varepsilon) > \log(1/\delta)/\varepsilon$, where
$d$ is the distance of $D$ to instability, and otherwise says "fail".
"""


def make(rng: np.random.Generator) -> Sheet:
    """Draw the sheet."""
    far = votes_added(rng) if rng.random() < 0.5 else quota(rng)
    enough = distance_needed(rng) if rng.random() < 0.5 else epsilon_needed(rng)
    models = largest_q(rng) if rng.random() < 0.5 else needed_agreement(rng)
    argued = changed_answer() if rng.random() < 0.5 else again_until(rng)
    items = (
        far,
        tested_release(rng),
        enough,
        expected(rng),
        models,
        wrong_distance(rng),
        statements(rng, BANK),
        argued,
    )
    return Sheet("Graded exercises 07: Privacy by stability", IMPORTS, items)


def votes_added(rng: np.random.Generator) -> Graded:
    inputs = []
    for classes in (2, 3, 4, 5):
        counts = rng.integers(0, 12, size=classes)
        counts[rng.integers(classes)] += int(rng.integers(3, 9))
        inputs.append({"counts": counts})
    inputs += [{"counts": np.array(c)} for c in ([4, 4], [4, 5], [5, 4], [3, 7, 6], [2, 0, 9])]
    moved = """
        winner = int(np.argmax(counts))
        changes = []
        for label, votes in enumerate(counts):
            if label != winner:
                gap = int(counts[winner] - votes)
                changes.append(gap // 2 + 1 if label > winner else (gap + 1) // 2)
        return min(changes) - 1
    """
    return function(
        "distance",
        title="The distance of a vote in which voters come and go",
        asked=r"""
            The winner of a vote is the label with the most votes; of several with as many, the lowest label wins. Two datasets are
            neighbours if one of them has one vote more (add/remove): a vote is added to or removed from any label.

            Write `distance(counts)`. `counts` is a NumPy array of the votes for labels $0, 1, \dots$, at least two of them. It returns
            the largest $k$ such that no $k$ changes, one after the other and chosen in the worst way, change the winner: a whole number,
            0 or more.
        """,
        takes="counts",
        right="""
            winner = int(np.argmax(counts))
            changes = []
            for label, votes in enumerate(counts):
                if label != winner:
                    changes.append(int(counts[winner] - votes){tie})
            return min(changes){less}
        """,
        parts={"tie": " + (label > winner)", "less": " - 1"},
        inputs=inputs,
        cases={
            "is a whole number, 0 or more": "f(np.array([5, 2])) >= 0 and int(f(np.array([5, 2]))) == f(np.array([5, 2]))",
            "is 0 where one vote more makes another label win": "f(np.array([2, 2])) == 0",
        },
        mistakes={
            "this is the number of changes that turn the winner; one less is safe.": {"less": ""},
            "this is for votes that move from a label to another; here a vote comes or goes.": moved,
            "the tie is decided by the label: a lower one wins it, a higher one does not.": {"tie": " + 1"},
            "every tie counts for the rival here; the lowest label wins ties.": {"tie": ""},
        },
        hint="For each rival: how many changes until it wins? Mind who wins a tie.",
        rel=1e-9,
    )  # fmt: skip


def quota(rng: np.random.Generator) -> Graded:
    inputs = []
    for _ in range(5):
        n = int(rng.integers(5, 60))
        inputs.append({"yes": int(rng.integers(0, n + 1)), "n": n, "quota": int(rng.integers(1, n + 1))})
    n = int(rng.integers(20, 40))
    inputs += [{"yes": n // 2 + step, "n": n, "quota": n // 2} for step in (-1, 0, 3)]
    return function(
        "distance",
        title="The distance of a decision",
        asked=r"""
            Of $n$ people, a number `yes` say "yes" and the others "no". The decision is "accepted" if at least `quota` say yes, and
            "refused" otherwise, with $1 \le$ `quota` $\le n$. Neighbours differ in the answer of one person (replace-one).

            Write `distance(*, yes, n, quota)`: the largest $k$ such that no change of $k$ answers changes the decision, a whole number,
            0 or more. Not every argument has to play a part.
        """,
        takes="*, yes, n, quota",
        right="yes - quota if yes >= quota else quota - yes - 1",
        inputs=inputs,
        cases={
            "is a whole number, 0 or more": "f(yes=7, n=10, quota=4) >= 0 and int(f(yes=7, n=10, quota=4)) == f(yes=7, n=10, quota=4)",
            "is 0 where one answer decides": "f(yes=4, n=10, quota=4) == 0",
        },
        mistakes={
            "this is the number of answers that turn the decision; one less is safe.": "yes - quota + 1 if yes >= quota else quota - yes",
            "the two sides differ: with the quota just reached one answer refuses, one below it one answer accepts.": "abs(yes - quota)",
            "half a gap is for votes that move between two counts; here there is one count.": "abs(2 * yes - n) // 2",
        },
        hint="Try the smallest case on both sides of the quota by hand.",
        rel=1e-9,
    )  # fmt: skip


def tested_release(rng: np.random.Generator) -> Graded:
    s = int(rng.integers(1, 4))
    epsilon, delta = float(rng.choice([0.5, 0.8, 1.0])), float(rng.choice([0.02, 0.05, 0.1]))
    near = round(s * math.log(1 / (2 * delta)) / epsilon)
    least = f"{s} * math.log(1 / (2 * delta)) / epsilon"
    mistakes = {
        "this threshold promises half of the delta, and so fails more often than it has to.": {
            "threshold": f"{s} * math.log(1 / delta) / epsilon"
        },
        "this threshold is too low: at score 0 the answer must come with a probability of at most delta.": {
            "threshold": f"{s} * math.log(1 / (4 * delta)) / epsilon"
        },
    }
    if s > 1:
        lesser = {"scale": "1", "threshold": "math.log(1 / (2 * delta)) / epsilon"}
        mistakes["noise and threshold are for a score that moves by 1."] = lesser
    moves = f"at most {s}" if s > 1 else "at most 1"
    return mechanism(
        "tested_release",
        title="Release or fail, with the least threshold",
        asked=rf"""
            A score says how safe the answer $f(D)$ is. Between neighbours it moves by {moves}; and if the answers of two neighbours
            differ, the score is 0 for both.

            Write `tested_release(answer, *, score, epsilon, delta, rng)`: add Laplace noise to the score and return the answer, as it
            is, if the sum exceeds a threshold, otherwise $-1$ ("fail"). The whole must be $(\varepsilon, \delta)$-DP, by the two
            cases of the proof for $M_{{\mathrm{{stab}}}}$: the noise as small as the case of equal answers allows, then the *least*
            threshold that the case of different answers allows, where all of $\delta$ may be used. It is $0 < \delta < 1/2$; `answer` is
            a whole number. Take all randomness from `rng`.
        """,
        takes="answer, *, score, epsilon, delta",
        right="""
            noisy = score + rng.laplace(scale={scale} / epsilon)
            return answer if noisy > {threshold} else -1
        """,
        law="""
            gap = score - {threshold}
            z = -gap * epsilon / (noise * {scale})
            released = math.exp(-z) / 2 if z > 0 else 1 - math.exp(z) / 2
            return laws.discrete({answer: released, -1: 1 - released})
        """,
        parts={"scale": s, "threshold": least},
        called={"answer": 3, "score": 4, "epsilon": 1.0, "delta": 0.01},
        settings=[
            {"answer": 2, "score": near, "epsilon": epsilon, "delta": delta},
            {"answer": 2, "score": near + s, "epsilon": epsilon, "delta": delta},
            {"answer": 5, "score": 0, "epsilon": 2.0, "delta": 0.2},
            {"answer": 0, "score": 4 * s, "epsilon": 0.7, "delta": 0.05},
        ],
        neighbours=[(0, 1)],
        mistakes=mistakes,
        unexplained={
            "the test without noise": f"return answer if score > {least} else -1",
            "noise on the answer": f"return int(round(answer + rng.laplace(scale={s} / epsilon)))",
        },
    )


def distance_needed(rng: np.random.Generator) -> Graded:
    epsilon, delta = float(rng.choice([0.1, 0.2, 0.3, 0.4])), float(rng.choice([1e-4, 1e-5, 1e-6, 1e-7]))
    beta = float(rng.choice([0.01, 0.02, 0.05, 0.1]))
    right = f"math.ceil((math.log(1 / {delta}) + math.log(1 / (2 * {beta}))) / {epsilon})"
    return number(
        "needed",
        title="How far is far enough?",
        asked=rf"""
            {code(M_STAB)}

            Set `needed` to the smallest whole number $d$ for which the answer comes with a probability of at least ${1 - beta:g}$, for
            $\varepsilon = {epsilon:g}$ and $\delta = {tex(delta)}$.
        """,
        right=right,
        mistakes={
            "noise above 0 and below 0 are equally likely: half of the tail is on the harmless side.": right.replace(
                f"(2 * {beta})", f"{beta}"
            ),
            "at the threshold itself it still fails in one of two runs.": f"math.ceil(math.log(1 / {delta}) / {epsilon})",
            "rounded down, it fails a little too often.": f"{right} - 1",
            "without noise one change would be enough to be stable, but the test asks for more.": "1",
        },
        rel=0.0,
    )


def epsilon_needed(rng: np.random.Generator) -> Graded:
    distance, delta = int(rng.integers(8, 90)), float(rng.choice([1e-4, 1e-5, 1e-6, 1e-7]))
    beta = float(rng.choice([0.01, 0.02, 0.05, 0.1]))
    right = f"(math.log(1 / {delta}) + math.log(1 / (2 * {beta}))) / {distance}"
    return number(
        "smallest_epsilon",
        title="Which epsilon makes it answer?",
        asked=rf"""
            {code(M_STAB)}

            The data have the distance $d = {distance}$, and $\delta = {tex(delta)}$ is given. Set `smallest_epsilon`, to at least four
            digits, to the smallest $\varepsilon$ for which the answer comes with a probability of at least ${1 - beta:g}$. (Of course
            such an $\varepsilon$ must be fixed without looking at $d$; take ${distance}$ for a guess from public data.)
        """,
        right=right,
        mistakes={
            "noise above 0 and below 0 are equally likely: half of the tail is on the harmless side.": right.replace(
                f"(2 * {beta})", f"{beta}"
            ),
            "at the threshold itself it still fails in one of two runs.": f"math.log(1 / {delta}) / {distance}",
            "a longer distance needs a smaller epsilon, in proportion to 1/d.": f"{right} * {distance}",
        },
    )


def expected(rng: np.random.Generator) -> Graded:
    answers = bool(rng.random() < 0.5)
    inputs = [
        {"distances": rng.integers(0, top, size=n), "epsilon": float(e), "delta": float(d)}
        for top, n, e, d in zip(
            (8, 30, 60, 60), (1, 4, 6, 12), rng.choice([0.2, 0.3, 0.5, 1.0], size=4, replace=False),
            rng.choice([0.01, 1e-3, 1e-4], size=4), strict=True,
        )
    ]  # fmt: skip
    inputs.append({"distances": np.array([0, 5, 20, 80]), "epsilon": 0.5, "delta": 1e-3})
    name = "expected_answers" if answers else "expected_failures"
    part, other = ("answered", "1 - answered") if answers else ("1 - answered", "answered")
    single = f"f(np.array([0]), epsilon=1.0, delta=0.1) - {0.05 if answers else 0.95}"
    return function(
        name,
        title="How many answers can be expected?" if answers else "How many failures can be expected?",
        asked=rf"""
            {code(M_STAB)} It is run once for each of several questions, each time with the same $\varepsilon$ and $\delta$ and fresh
            noise.

            Write `{name}(distances, *, epsilon, delta)`: the expected number of {"answers" if answers else "failures"}, where `distances`
            is a NumPy array of the distances of the questions.
        """,
        takes="distances, *, epsilon, delta",
        right="""
            result = 0.0
            for d in distances:
                x = epsilon * d - math.log(1 / delta)
                answered = {answered}
                result += {part}
            return result
        """,
        parts={"answered": "math.exp(x) / 2 if x <= 0 else 1 - math.exp(-x) / 2", "part": part},
        inputs=inputs,
        cases={
            "is delta/2 at distance 0" if answers else "is 1 - delta/2 at distance 0": f"abs({single}) < 1e-12",
        },
        mistakes={
            "this counts without the noise; near the threshold both happen.": {"answered": "float(x > 0)"},
            "beyond the threshold the tail is on the other side.": {"answered": "min(1.0, math.exp(x) / 2)"},
            "the Laplace density is symmetric: each tail has one half.": {"answered": "min(1.0, math.exp(x))"},
            "answers and failures have changed places.": {"part": other},
        },
        hint="Laplace noise of scale b exceeds t > 0 with probability e^(-t/b)/2, and -t with 1 less that.",
    )  # fmt: skip


M_SAMP = r"""
$M_{\mathrm{samp}}$ trains $n_T$ models, each on a random part that holds every record with probability $q$. If no record is in
more than $2qn_T$ parts, it takes $d = (c_1 - c_2)/(4qn_T) - 1$, where $c_1 \ge c_2$ are the two largest numbers of equal votes,
and releases the most frequent answer if $d + \mathrm{Lap}(1/\varepsilon) > \log(1/\delta)/\varepsilon$.
"""


def drawn_samp(rng: np.random.Generator) -> tuple[float, float, float, str]:
    epsilon, delta = float(rng.choice([0.5, 1.0, 2.0])), float(rng.choice([1e-5, 1e-6, 1e-7]))
    beta = float(rng.choice([0.01, 0.02, 0.05]))
    return epsilon, delta, beta, f"(math.log(1 / {delta}) + math.log(1 / (2 * {beta}))) / {epsilon}"


def largest_q(rng: np.random.Generator) -> Graded:
    epsilon, delta, beta, distance = drawn_samp(rng)
    agreement = float(rng.choice([0.75, 0.8, 0.9]))
    lead = f"(2 * {agreement} - 1)"
    return number(
        "largest_q",
        title="How large may the parts be?",
        asked=rf"""
            {code(M_SAMP)}

            Of the models, {100 * agreement:g} % give one answer, and all the others agree on a second one. Set `largest_q`, to at least
            four digits, to the largest $q$ for which the answer is released with a probability of at least ${1 - beta:g}$, given that no
            record is in too many parts, for $\varepsilon = {epsilon:g}$ and $\delta = {tex(delta)}$. Take $2qn_T$ as it is, without
            rounding.
        """,
        right=f"{lead} / (4 * ({distance} + 1))",
        mistakes={
            "the 1 that is subtracted from the scaled lead is missing.": f"{lead} / (4 * ({distance}))",
            "the lead is over the second answer, not the share of the first.": f"{agreement} / (4 * ({distance} + 1))",
            "both counts move by up to 2 q n_T, so the lead moves by twice that.": f"{lead} / (2 * ({distance} + 1))",
            "at the threshold itself it still fails in one of two runs.": f"{lead} / (4 * (math.log(1 / {delta}) / {epsilon} + 1))",
        },
    )


def needed_agreement(rng: np.random.Generator) -> Graded:
    epsilon, delta, beta, distance = drawn_samp(rng)
    exact = (math.log(1 / delta) + math.log(1 / (2 * beta))) / epsilon
    q = float(f"{rng.uniform(0.3, 0.8) / (4 * (exact + 1)):.2g}")
    return number(
        "agreement",
        title="How much must the models agree?",
        asked=rf"""
            {code(M_SAMP)}

            There are two possible answers. Set `agreement`, to at least four digits, to the smallest share of the models that must give
            the first answer, for it to be released with a probability of at least ${1 - beta:g}$, given that no record is in too many
            parts, for $q = {q:g}$, $\varepsilon = {epsilon:g}$ and $\delta = {tex(delta)}$. Take shares as they are, without rounding to
            whole models.
        """,
        right=f"(1 + 4 * {q} * ({distance} + 1)) / 2",
        mistakes={
            "the 1 that is subtracted from the scaled lead is missing.": f"(1 + 4 * {q} * ({distance})) / 2",
            "this is the lead over the second answer, not the share of the first.": f"4 * {q} * ({distance} + 1)",
            "both counts move by up to 2 q n_T, so the lead moves by twice that.": f"(1 + 2 * {q} * ({distance} + 1)) / 2",
            "at the threshold itself it still fails in one of two runs.": f"(1 + 4 * {q} * (math.log(1 / {delta}) / {epsilon} + 1)) / 2",
        },
    )


def wrong_distance(rng: np.random.Generator) -> Graded:
    epsilon, delta = float(rng.choice([0.5, 0.8, 1.0, 1.2])), float(rng.choice([1e-3, 1e-4, 1e-5]))
    gap = math.floor(math.log(1 / delta) / epsilon)
    whole = bool(rng.random() < 0.5)
    words = "the gap $c_1 - c_2$ itself" if whole else "half the gap $c_1 - c_2$, rounded up to a whole number"
    score = "first - second" if whole else "math.ceil((first - second) / 2)"
    right = [f"[{gap + 4}, 4, 0]", f"[{gap + 3}, 5, 0]"] if whole else ["[8, 7, 0]", "[7, 8, 0]"]
    return counterexample(
        "votes",
        "neighbour",
        title="Refute it: another distance",
        asked=rf"""
            {code(M_STAB)} With the right $d$ it is $(\varepsilon, \delta/2)$-DP.

            The answer is the winner of a vote between three labels; of several with as many votes, the lowest label wins. Neighbours
            differ in one vote, which has moved from a label to another. A program takes for $d$ {words}, where $c_1 \ge c_2$ are the two
            largest counts: "That measures just as well how clear the vote is."

            Refute it for $\varepsilon = {epsilon:g}$ and $\delta = {tex(delta)}$: set `votes` and `neighbour` to two lists of three
            whole numbers, with as many votes, at most 1,000, on which the program is not $(\varepsilon, \delta/2)$-DP.
        """,
        right=right,
        formed="""
            one, other = (np.asarray(part, dtype=float) for part in answer)
            if one.shape != (3,) or other.shape != (3,) or min(one.min(), other.min()) < 0:
                return "both must be lists of three numbers, 0 or more."
            if (one != np.floor(one)).any() or (other != np.floor(other)).any() or not 0 < one.sum() <= 1000:
                return "both must hold whole numbers, at most 1,000 votes in all."
            return None if sorted(one - other) == [-1, 0, 1] else "they must differ by one vote that has moved to another label."
        """,
        refutes=f"""
            def law(counts):
                second, first = sorted(counts)[-2:]
                x = {epsilon} * ({score}) - math.log(1 / {delta})
                fails = 1 - math.exp(x) / 2 if x <= 0 else math.exp(-x) / 2
                chances = [0.0, 0.0, 0.0, fails]
                chances[list(counts).index(first)] = 1 - fails
                return np.array(chances)

            one, other = (law([float(c) for c in part]) for part in answer)
            worst = max(np.maximum(p - math.exp({epsilon}) * r, 0).sum() for p, r in ((one, other), (other, one)))
            if worst <= {delta} / 2 * (1 + 1e-6):
                return "on these the program keeps the promise. Does its number move by 1 at most, and is it 0 where the winner changes?"
            return None
        """,
        wrong={
            "a vote that is far too clear": ["[500, 4, 0]", "[499, 5, 0]"],
            "the vote moves between two losers": ["[300, 4, 0]", "[300, 3, 1]"],
        },
        points=3,
    )  # fmt: skip


BANK = [
    ("A distance to instability moves by at most 1 between neighbours.", True,
     "what is k steps from a change is at least k - 1 steps from it on a neighbour."),
    ("If the answers of two neighbours differ, both have the distance 0.", True, "one change is enough to reach the other."),
    ("$M_{\\mathrm{stab}}$ adds noise to the answer that it releases.", False, "noise is in the test alone; the answer is exact."),
    ("With $\\delta = 0$, $M_{\\mathrm{stab}}$ can still release answers that differ between some neighbours.", False,
     "such an answer is impossible on the neighbour, so its probability must be covered by delta; the threshold is infinite."),
    ("If no single replaced record can change the answer, it is released with high probability.", False,
     "distance 1 is far below the threshold log(1/delta)/epsilon."),
    ("The distance itself may be published along with the answer, since the test has used it already.", False,
     "it is a function of the data, without noise."),
    ("$M_{\\mathrm{stab}}$ may be used for any function, numeric or not, whose distance can be computed.", True,
     "the proof uses the distance alone."),
    ("A lower bound on the distance, which moves by at most 1 between neighbours and is never negative, may be used in its "
     "place.", True, "it is 0 wherever the distance is, and that is all that the proof needs."),
    ("Whether the mechanism failed is a part of its output, which its guarantee covers.", True,
     "fail is one of the outcomes in the proof."),
    ("In $M_{\\mathrm{samp}}$ each record lies in exactly one part.", False,
     "each record is in each part by a coin of its own, so in about q n_T of them."),
    ("Twice the $\\varepsilon$ halves the distance that is needed for the same $\\delta$ and the same probability of an answer.", True,
     "both the threshold and the noise are in proportion to 1/epsilon."),
    ("Two questions that both fail cost nothing.", False, "each run costs its epsilon and delta, whatever comes out."),
]  # fmt: skip


def changed_answer() -> Argued:
    return Argued(
        name="changed-answer",
        question=code(rf"""
            Prove it: where the answer changes

            {code(M_STAB)} The distance is the largest $k$ such that no $k$ changes of records change $f$. $D$ and $D'$ are neighbours
            with $f(D) \ne f(D')$.

            Prove that for every event $E$, $P[M(D) \in E] \le P[M(D') \in E] + \delta/2$. Then say what fails in the proof if a program
            computes a distance that is larger by 1 for all datasets. At most ten sentences.
        """),
        rubric=code("""
            - (1 point) Both distances are 0, since one change turns each answer into the other.
            - (1 point) At distance 0 an answer comes with probability P[Lap(1/ε) > log(1/δ)/ε] = δ/2, and "fail" with 1 - δ/2, the
              same for both datasets.
            - (1 point) An event is split: "fail" has equal probabilities on both sides, f(D) adds at most δ/2.
            - (1 point) With a distance larger by 1 an answer that is impossible on the neighbour comes with δ e^ε/2, more than δ/2.
              No point for "the distance is then not stable" without the probability.
        """),
        points=4,
        answer=code("""
            One change turns D into D', where f differs, so no k >= 1 is safe for D, and its distance is 0; the same for D'. At
            distance 0 the answer is released if Lap(1/ε) exceeds log(1/δ)/ε, with probability e^(-log(1/δ))/2 = δ/2. So both fail with
            probability 1 - δ/2; otherwise D gives f(D) and D' gives f(D'). An event E has under D at most the probability of "fail",
            where "fail" is in E, plus δ/2; under D' it has at least that of "fail". The difference is at most δ/2. With a distance
            larger by 1 both would release with probability δ e^ε/2, and f(D), impossible under D', would have that probability.
        """),
    )


def again_until(rng: np.random.Generator) -> Argued:
    epsilon, runs = float(rng.choice([0.5, 1.0])), int(rng.choice([10, 20, 50]))
    return Argued(
        name="again-until",
        question=code(rf"""
            Argue: again until it answers

            {code(M_STAB)} It is $(\varepsilon, \delta/2)$-DP. A program runs it with $\varepsilon = {epsilon:g}$ and $\delta = 10^{{-6}}$;
            when it fails, it runs again on the same question with fresh noise, until an answer comes. "A failure tells nothing, and
            there is only one answer, so we pay for one run," says its author.

            (a) Take two neighbours with different answers. What does the program return on each, and which guarantee is left? (b) The
            author now stops after at most {runs} runs. Which pair $(\varepsilon', \delta')$ is certain for that? At most ten sentences.
        """),
        rubric=code(f"""
            - (1 point) With no limit an answer comes with certainty, the exact f(D): the waiting only takes longer.
            - (1 point) So neighbours with different answers are told apart with certainty: no ε with δ < 1.
            - (2 points) {runs} runs are composed: {runs} ε = {runs * epsilon:g} and {runs} δ/2 = {runs / 2:g}e-6 by adding up (a
              sharper theorem for a larger δ' is as good), and the output is post-processing of all of them. 1 point where only ε or
              only δ is multiplied. No point for "failures are free".
        """),
        points=4,
        answer=code(f"""
            (a) Each run answers with a positive probability, at distance 0 with δ/2, so sooner or later an answer comes, and it is the
            exact f(D). On two neighbours with different answers the program returns f(D) and f(D') with certainty, so no ε with a δ
            below 1 is left. (b) What comes out is computed from {runs} runs at most, each of them ({epsilon:g}, 0.5e-6)-DP. By adding
            up it is ({runs * epsilon:g}, {runs / 2:g}e-6)-DP; stopping early and returning the first answer is post-processing of all
            runs.
        """),
    )
