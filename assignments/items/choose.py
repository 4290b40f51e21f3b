r"""Graded exercises of chapter 09: a lead and a budget, noise for votes, private labels, teachers that are right by
chance, other neighbours, a false claim about one vote, statements, an argument.

If one record moves the counts of all questions by r in the L2 norm, Gaussian noise of r times that for sensitivity 1 is
enough; Laplace noise goes by the L1 norm. The difference of two noisy counts has the root of 2 times the deviation.
"""

from __future__ import annotations

import numpy as np

from assignments.item import Argued, Graded, Sheet
from assignments.items import drawing
from assignments.items.drawing import code, counterexample, function, mechanism, number, statements, tex

IMPORTS = drawing.imports("from scipy.special import ndtr, ndtri", "from dpml import mechanisms")


def make(rng: np.random.Generator) -> Sheet:
    """Draw the sheet."""
    budget = least_lead(rng) if rng.random() < 0.5 else most_labels(rng)
    labels = noisy_labels(rng) if rng.random() < 0.5 else two_class_labels(rng)
    argued = dropped_teachers() if rng.random() < 0.5 else common_scaling()
    items = (
        budget, votes_noise(rng), labels, chance_right(rng), other_neighbours(rng), one_vote_claim(rng),
        statements(rng, BANK), argued,
    )  # fmt: skip
    return Sheet("Graded exercises 09: DP-SGD or PATE?", IMPORTS, items)


def drawn_budget(rng: np.random.Generator) -> tuple[float, float, float]:
    """Epsilon, delta, and the share of labels that noise may spoil."""
    return (
        float(rng.choice([1.0, 2.0, 3.0, 5.0])),
        float(rng.choice([1e-4, 1e-5, 1e-6])),
        float(rng.choice([0.01, 0.03, 0.1])),
    )


SETTING = r"""
Two classes, {teachers} teachers. Every question gets a label by GNMax: Gaussian noise of standard deviation $\sigma$, in
votes, on each count, and the larger noisy count wins. Neighbours differ in one replaced record, which changes one vote in
each question. $\sigma$ is the smallest with which the noisy counts of all questions together are
$({epsilon:g}, {delta})$-DP.
"""


def least_lead(rng: np.random.Generator) -> Graded:
    epsilon, delta, lost = drawn_budget(rng)
    teachers, queries = 50 * int(rng.integers(4, 11)), 20 * int(rng.integers(1, 11))
    sigma = f"mechanisms.gaussian_sigma(epsilon={epsilon}, delta={delta})"
    return number(
        "least_lead",
        title="How clear must the votes be?",
        asked=f"{code(SETTING).format(teachers=teachers, epsilon=epsilon, delta=tex(delta))}\n\n"
        f"{queries} questions are asked. Set `least_lead`, to at least four digits, to the smallest lead of the winning "
        f"class, as a share of the {teachers} votes, at which the noise makes the wrong class win with probability at "
        f"most {lost:g}. (It may come out above 1: then no votes are clear enough.)",
        right=f"2 * math.sqrt({queries}) * {sigma} * ndtri(1 - {lost}) / {teachers}",
        mistakes={
            "a root of 2 is missing: a vote that moves changes two counts, and the difference of two has two noises.": "math."
            f"sqrt(2 * {queries}) * {sigma} * ndtri(1 - {lost}) / {teachers}",
            "a vote that moves changes two counts, and what decides is the difference of two noisy ones.": "math.sqrt("
            f"{queries}) * {sigma} * ndtri(1 - {lost}) / {teachers}",
            "this is the noise for a single question.": f"2 * {sigma} * ndtri(1 - {lost}) / {teachers}",
            "this is in votes, not a share of them.": f"2 * math.sqrt({queries}) * {sigma} * ndtri(1 - {lost})",
            "only noise of one sign spoils the label: one tail of the normal law.": f"2 * math.sqrt({queries}) * {sigma} * "
            f"ndtri(1 - {lost} / 2) / {teachers}",
        },
    )


def most_labels(rng: np.random.Generator) -> Graded:
    epsilon, delta, lost = drawn_budget(rng)
    teachers, lead = 20 * int(rng.integers(4, 11)), float(rng.choice([0.4, 0.5, 0.6, 0.7, 0.8]))
    sigma = f"mechanisms.gaussian_sigma(epsilon={epsilon}, delta={delta})"
    most = f"({lead} * {teachers} / ({{}} * {sigma} * ndtri(1 - {lost}))) ** 2"
    return number(
        "most_labels",
        title="How many labels can be had?",
        asked=f"{code(SETTING).format(teachers=teachers, epsilon=epsilon, delta=tex(delta))}\n\n"
        f"On every question the winning class leads by {100 * lead:g} % of the votes. Set `most_labels` to the largest "
        f"number of questions for which the noise makes the wrong class win with probability at most {lost:g} on each.",
        right=f"math.floor({most.format(2)})",
        mistakes={
            "a root of 2 is missing: a vote that moves changes two counts, and the difference of two has two noises.": "math."
            f"floor({most.format('math.sqrt(2)')})",
            "with so many the probability is just above what is allowed: round down.": f"math.floor({most.format(2)}) + 1",
            "a vote that moves changes two counts, and what decides is the difference of two noisy ones.": f"math.floor({most.format(1)})",
            "the noise grows with the root of the number of questions, so that number goes with the square.": "math.floor("
            f"math.sqrt({most.format(2)}))",
        },
        rel=0.0,
    )


# How one record moves votes: in words, the L2 norm of the move over all questions, typical mistakes.
MOVES = {
    "shards": (
        r"A person may have records in up to $t$ = `moved` of the shards, and neighbours differ in one person's records, "
        r"all of them replaced. Each of these teachers may then vote for another class, in every question.",
        "moved * math.sqrt(2 * queries)",
        {
            "all the votes may go from the same class to the same other one: two counts move by t each, and squares "
            "count.": "math.sqrt(2 * moved * queries)",
            "this protects a person in one shard.": "math.sqrt(2 * queries)",
            "two counts move by t; Gaussian noise needs the root of the sum of their squares.": "2 * moved * "
            "math.sqrt(queries)",
        },
    ),
    "names": (
        r"In each question a teacher names $t$ = `moved` different classes, of more than $2t$, and each of them gets a "
        r"vote. Neighbours differ in one replaced record, which may change all that one teacher names, in every question.",
        "math.sqrt(2 * moved * queries)",
        {
            "no count moves by more than one: 2t counts move by one each.": "moved * math.sqrt(2 * queries)",
            "this is for a single named class.": "math.sqrt(2 * queries)",
            "the names that go and those that come all move a count.": "math.sqrt(moved * queries)",
        },
    ),
    "joins": (
        r"Each teacher has $t$ = `moved` votes, all for one class. Neighbours: a teacher more or less takes part, with a "
        r"shard of its own; the other teachers stay as they are.",
        "moved * math.sqrt(queries)",
        {
            "a teacher that joins takes no votes from another class: one count moves in each question.": "moved * math.sqrt("
            "2 * queries)",
            "all its votes are for the same class: one count moves by t.": "math.sqrt(moved * queries)",
            "this is for a teacher with one vote.": "math.sqrt(queries)",
        },
    ),
}  # fmt: skip


def votes_noise(rng: np.random.Generator) -> Graded:
    words, right, mistakes = MOVES[list(MOVES)[rng.integers(3)]]
    inputs = [
        {"queries": int(q), "moved": int(t), "epsilon": float(e), "delta": float(d)}
        for q, t, e, d in zip(
            rng.integers(2, 900, size=5), [2, 3, 5, 2, 4], rng.choice([0.5, 1.0, 2.0, 4.0, 8.0], size=5),
            rng.choice([1e-3, 1e-5, 1e-6], size=5), strict=True,
        )
    ]  # fmt: skip
    size = " * mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)"
    wasteful = (
        right.replace("queries", "1") + " * mechanisms.gaussian_sigma(epsilon=epsilon / queries, delta=delta / queries)"
    )
    call = "f(queries={}, moved={}, epsilon=1.0, delta=1e-5)"
    return function(
        "votes_noise",
        title="How far does a record move the votes?",
        asked=f"{words}\n\nWrite `votes_noise(*, queries, moved, epsilon, delta)`: the smallest standard deviation, in "
        "votes, of independent Gaussian noise on every count with which the noisy counts of all `queries` questions "
        "together are $(\\varepsilon, \\delta)$-DP. (`moved` is at least 2.)",
        takes="*, queries, moved, epsilon, delta",
        right=right + size,
        inputs=inputs,
        cases={
            "is a positive number": f"0 < {call.format(10, 2)} < 1e6",
            "does not shrink when more is moved": f"{call.format(10, 3)} >= {call.format(10, 2)}",
        },
        mistakes={text: wrong + size for text, wrong in mistakes.items()}
        | {
            "each question gets a share of the budget; all counts are one vector, whose length grows with the root.": wasteful,
            "this is the noise of one question.": right.replace("queries", "1") + size,
        },
        hint="Write the counts of all questions below each other: how long is the difference of two such vectors at most?",
        rel=1e-5,
    )


def noisy_labels(rng: np.random.Generator) -> Graded:
    joins = bool(rng.random() < 0.5)
    moved = int(rng.integers(2, 4))
    if joins:
        words = f"Each teacher has {moved} votes in each question, all for one class. Two datasets are neighbours if one of "
        words += "them has a teacher more, with a shard of its own."
        right, other = f"{moved} * len(counts)", f"{2 * moved} * len(counts)"
        reason = "a teacher that joins moves one count in each question, not two."
    else:
        words = f"A person has records in up to {moved} shards, and two datasets are neighbours if they differ in one "
        words += f"person's records. Then up to {moved} votes go elsewhere in each question."
        right, other = f"{2 * moved} * len(counts)", f"{moved} * len(counts)"
        reason = "a vote that goes elsewhere moves two counts by one each."
    wrong = {
        reason: other,
        "each question spends all of epsilon, but the costs of the questions add up.": right.replace(
            "len(counts)", "1"
        ),
        f"this is for a single vote, not {moved}.": right.replace(
            str(moved if joins else 2 * moved), "1" if joins else "2"
        ),
    }
    shift = int(rng.integers(0, 3))
    settings = [
        {"counts": np.array(rows), "epsilon": epsilon}
        for rows, epsilon in (
            ([[3 + shift, 1], [4 + shift, 2]], 2.5 * moved),
            ([[3 + shift + (moved if joins else -1), 1 + (0 if joins else 1)], [4 + shift, 2]], 2.5 * moved),
            ([[4 + shift, 1, 0]], 0.7 * moved),
            ([[5, 2, 0], [0, 1 + shift, 8], [3, 3, 3], [2, 9, 1]], 4.0 * moved),
        )
    ]
    return mechanism(
        "release_labels",
        title="Labels from noisy counts",
        asked=f"{words}\n\nWrite `release_labels(counts, *, epsilon, rng)`. `counts` is an array with a row of votes for each "
        "question. Add independent Laplace noise to every count, so that *all noisy counts together* are "
        "$\\varepsilon$-DP, with no more noise than that takes. Return a tuple with one label for each row, the number of "
        "the class with the largest noisy count. Take all randomness from `rng`.",
        takes="counts, *, epsilon",
        right="""
            noisy = counts + rng.laplace(scale={size} / epsilon, size={shape})
            return tuple(noisy.argmax(axis=1).tolist())
        """,
        law="""
            from dpml.pate import voting

            return [laws.labels(row) for row in voting.argmax_probabilities(counts, scale=noise * {size} / epsilon)]
        """,
        parts={"size": right, "shape": "np.shape(counts)"},
        called={"counts": np.array([[3, 1], [2, 2], [0, 5]]), "epsilon": 1.0},
        returns=(3,),
        settings=settings,
        neighbours=[],
        mistakes={text: {"size": size} for text, size in wrong.items()},
        unexplained={
            "no noise": "tuple(counts.argmax(axis=1).tolist())",
            "one noise for all classes": {"shape": "(len(counts), 1)"},
        },
    )


def two_class_labels(rng: np.random.Generator) -> Graded:
    sigma = "mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)"
    wrong = {
        "a vote that moves changes two counts by one each.": f"math.sqrt(len(counts)) * {sigma}",
        "this is the noise of one question; the same record votes in all.": f"math.sqrt(2) * {sigma}",
        "the questions are added up in the L1 norm; Gaussian noise needs the L2 norm.": f"2 * len(counts) * {sigma}",
        "each question gets a share of epsilon, which takes more noise than one long vector.": "math.sqrt(2) * "
        "mechanisms.gaussian_sigma(epsilon=epsilon / len(counts), delta=delta / len(counts))",
    }
    lead = int(rng.integers(3, 8))
    epsilon, delta = float(rng.choice([1.0, 1.5, 2.0])), float(rng.choice([1e-2, 1e-3]))
    rows = [[10 + lead, 10], [9, 11 + lead], [12, 10]]
    settings = [
        {"counts": np.array(counts), "epsilon": e, "delta": d}
        for counts, e, d in (
            (rows, epsilon, delta),
            ([[9 + lead, 11], [10, 10 + lead], [11, 11]], epsilon, delta),
            ([[8 + lead, 6]], epsilon, delta),
            ([[14 + lead, 5], [3, 11 + lead], [9 + lead, 2], [4, 16], [13, 5]], 2 * epsilon, 1e-4),
        )
    ]
    return mechanism(
        "release_labels",
        title="Labels of two classes by Gaussian noise",
        asked=r"""
            Two datasets are neighbours if they differ in one replaced record, which may move one vote from one class to the
            other in each question.

            Write `release_labels(counts, *, epsilon, delta, rng)`. `counts` is an array with a row of two counts for each
            question. Add independent Gaussian noise to every count, so that *all noisy counts together* are
            $(\varepsilon, \delta)$-DP, with no more noise than that takes (`mechanisms.gaussian_sigma` is exact). Return a
            tuple with one label for each row, 0 or 1, the number of the larger noisy count. Take all randomness from `rng`.
        """,
        takes="counts, *, epsilon, delta",
        right="""
            noisy = counts + rng.normal(scale={size}, size=counts.shape)
            return tuple(noisy.argmax(axis=1).tolist())
        """,
        law="""
            from scipy.special import ndtr

            first = ndtr((counts[:, 0] - counts[:, 1]) / (math.sqrt(2) * noise * {size}))
            return [laws.discrete({0: p, 1: 1 - p}) for p in first.tolist()]
        """,
        parts={"size": f"math.sqrt(2 * len(counts)) * {sigma}"},
        called={"counts": np.array([[3, 1], [2, 2], [0, 5]]), "epsilon": 1.0, "delta": 1e-3},
        returns=(3,),
        settings=settings,
        neighbours=[],
        mistakes={text: {"size": size} for text, size in wrong.items()},
        unexplained={"no noise": "tuple(counts.argmax(axis=1).tolist())"},
    )


def chance_right(rng: np.random.Generator) -> Graded:
    gaussian = bool(rng.random() < 0.5)
    letter = "sigma" if gaussian else "scale"
    inputs = [
        {"teachers": int(k), "accuracy": round(float(a), 2), letter: round(float(s), 1)}
        for k, a, s in zip(
            rng.integers(5, 60, size=5), rng.uniform(0.55, 0.8, size=5), rng.uniform(1.5, 9.0, size=5), strict=True
        )
    ]
    if gaussian:
        noise = "Gaussian noise of standard deviation `sigma`"
        tail = "ndtr(gap / (math.sqrt(2) * sigma))"
        one = "ndtr(gap / sigma)"
        told = "`ndtr` is the normal distribution function."
    else:
        noise = "Laplace noise of scale `scale`"
        tail = "0.5 + math.copysign(0.5 - (1 + abs(gap) / (2 * scale)) * math.exp(-abs(gap) / scale) / 2, gap)"
        one = "0.5 + math.copysign(0.5 - math.exp(-abs(gap) / scale) / 2, gap)"
        told = (
            "The difference of two independent Laplace noises of scale $b$ exceeds $g \\ge 0$ with probability "
            "$\\frac12\\bigl(1 + \\frac{g}{2b}\\bigr)e^{-g/b}$."
        )
    total = """
        result = 0.0
        for right in range(teachers + 1):
            gap = 2 * right - teachers
            chance = math.comb(teachers, right) * accuracy**right * (1 - accuracy) ** (teachers - right)
            result += chance * ({})
        return result
    """
    return function(
        "chance_right",
        title="How often is a noisy label right?",
        asked=f"""
            Two classes. Each of K = `teachers` teachers votes for the true class with probability `accuracy`, independently
            of the others. Each of the two counts gets independent {noise}, in votes, and the larger one wins.

            Write `chance_right(*, teachers, accuracy, {letter})`: the probability, exactly, that the true class wins. It is
            over the teachers' votes and the noise. {told}
        """,
        takes=f"*, teachers, accuracy, {letter}",
        right=total.format(tail),
        inputs=inputs,
        cases={
            "is one half for teachers that guess": f"abs(f(teachers=9, accuracy=0.5, {letter}=2.0) - 0.5) < 1e-9",
            "is a probability": f"0 < f(teachers=10, accuracy=0.7, {letter}=3.0) < 1",
        },
        mistakes={
            "the number of right votes varies; this puts its mean in its place.": f"""
                gap = (2 * accuracy - 1) * teachers
                return {tail}
            """,
            "this takes the noise of one count; what decides is the difference of two.": total.format(one),
            "this is the majority without noise.": total.format("(gap > 0) + 0.5 * (gap == 0)"),
            "the gap is that of the two counts: right ones less wrong ones.": total.replace(
                "2 * right - teachers", "right - teachers / 2"
            ).format(tail),
        },
        hint="Sum over the number of right votes: each gives a gap between the two counts.",
        points=3,
    )


def other_neighbours(rng: np.random.Generator) -> Graded:
    inputs = [
        {"epsilon": round(float(e), 2), "delta": float(d)}
        for e, d in zip(rng.uniform(0.3, 3.0, size=5), rng.choice([1e-3, 1e-5, 1e-6], size=5), strict=True)
    ]
    size = int(rng.integers(2, 5))
    if size == 2:
        words = (
            "A report quotes PATE for a *replaced* record and DP-SGD for one *added or removed*. To compare them, the "
        )
        words += "promise of the second is needed for a replaced record: one removed, then another one added."
        asked = "one replaced record"
    else:
        words = "A report quotes DP-SGD for one *record* added or removed, and another method for one *person*. Here a person "
        words += f"has exactly {size} records, which come and go together."
        asked = f"one person, {size} records, added or removed"
    terms = " + ".join(["1", "math.exp(epsilon)", *(f"math.exp({k} * epsilon)" for k in range(2, size))])
    wrong = {
        "the deltas are not just added up: all but the last step come with a factor from the steps before.": f"({size} * "
        f"epsilon, {size} * delta)",
        "delta grows as well.": f"({size} * epsilon, delta)",
        "epsilon grows with every step from neighbour to neighbour.": f"(epsilon, {size} * delta)",
        "only the first step has no factor; not every step has the largest one.": f"({size} * epsilon, {size} * "
        f"math.exp({size - 1} * epsilon) * delta)",
    }
    return function(
        "promise",
        title="One table, two kinds of neighbours",
        asked=f"""
            {words} The mechanism is $(\\varepsilon, \\delta)$-DP for one record added or removed.

            Write `promise(*, epsilon, delta)`. It returns the pair $(\\varepsilon', \\delta')$ that follows from the
            definition alone for {asked}, by going from neighbour to neighbour: the $\\varepsilon'$ that adds up over the
            steps, and the smallest $\\delta'$ that follows with it.
        """,
        takes="*, epsilon, delta",
        right=f"({size} * epsilon, delta * ({terms}))",
        inputs=inputs,
        cases={
            "is a pair": "len(f(epsilon=0.5, delta=1e-5)) == 2",
            "keeps delta = 0": "abs(f(epsilon=0.5, delta=0.0)[1]) < 1e-12",
        },
        mistakes=wrong,
        hint="Write down the inequality for each step, and put one into the other.",
    )


def one_vote_claim(rng: np.random.Generator) -> Graded:
    teachers, classes = 5 * int(rng.integers(6, 13)), int(rng.integers(2, 4))
    epsilon = float(rng.choice([0.5, 0.8, 1.0, 1.5]))
    rest = [0] * (classes - 2)
    half = teachers // 2
    even = [half, teachers - half, *rest]
    return counterexample(
        "votes",
        "neighbour",
        "winner",
        title="Refute it: one vote, one over epsilon",
        asked=rf"""
            {teachers} teachers, {classes} classes. Each count gets independent Laplace noise of scale $1/\varepsilon$, in votes,
            and only the number of the largest noisy count is told (0 to {classes - 1}). Two histograms of votes are neighbours
            if one vote has gone from one class to another. A colleague claims: "The label is $\varepsilon$-DP. One record is one
            vote."

            Refute it for $\varepsilon = {epsilon:g}$: set `votes` and `neighbour`, two lists of {classes} whole numbers with sum
            {teachers}, and `winner`, such that this winner is more than $e^\varepsilon$ times as likely under one of them as under
            the other. `voting.argmax_log_probabilities(counts, scale=...)` of `dpml.pate` has the logarithms, exactly.
        """,
        right=[f"{[0, teachers, *rest]}", f"{[1, teachers - 1, *rest]}", "0"],
        formed=f"""
            votes, neighbour, winner = answer
            one, other = (np.asarray(part, dtype=float) for part in (votes, neighbour))
            for counts in (one, other):
                if counts.shape != ({classes},) or (counts < 0).any() or (counts % 1 > 0).any() or counts.sum() != {teachers}:
                    return "both must hold {classes} whole numbers from 0 on, with sum {teachers}."
            if sorted((other - one).tolist()) != sorted([1.0, -1.0, *[0.0] * {classes - 2}]):
                return "in neighbours one vote has gone from one class to another."
            if isinstance(winner, bool) or winner not in range({classes}):
                return "the winner must be a whole number from 0 to {classes - 1}."
            return None
        """,
        refutes=f"""
            from dpml.pate import voting

            votes, neighbour, winner = answer
            one, other = (
                voting.argmax_log_probabilities(np.array(counts, dtype=float), scale=1 / {epsilon})[int(winner)]
                for counts in (votes, neighbour)
            )
            if abs(one - other) <= {epsilon} * (1 + 1e-9):
                return "this winner tells them apart too little. Think of a class that hardly ever wins."
            return None
        """,
        wrong={
            "a tie": [f"{even}", f"{[half + 1, teachers - half - 1, *rest]}", "0"],
            "the clear winner": [f"{[0, teachers, *rest]}", f"{[1, teachers - 1, *rest]}", "1"],
            "three votes moved": [f"{[0, teachers, *rest]}", f"{[3, teachers - 3, *rest]}", "0"],
        },
    )


BANK = [
    ("The teachers of PATE may overfit their shards; the promise for the released labels stays the same.", True,
     "the theorem asks only that a teacher sees its own shard."),
    ("A student that is asked a million times costs more privacy than one that is asked once.", False,
     "the student is post-processing of the released labels."),
    ("With twice the teachers, at the same lead as a share, the same budget and the same error, four times as many labels "
     "can be had.", True, "their number goes with the square of the lead in votes."),
    ("The data-dependent epsilon of PATE may be published beside the epsilon of DP-SGD, since it is the more exact one.",
     False, "it is computed from the private votes, and it is no promise for neighbours."),
    ("In DP-SGD the deviation of the noise on each coordinate does not grow with the number of parameters, but the length of "
     "the noise vector does.", True, "each coordinate gets sigma times the clip norm; the length goes with the root of d."),
    ("PATE with random forests as teachers has no promise, since a forest has no gradients to clip.", False,
     "how a teacher is trained does not matter."),
    ("Dropping the teachers that do worst on a private validation set leaves the promise as it was.", False,
     "which teachers vote then depends on records outside of their shards."),
    ("If the best of twenty private runs is published, chosen by its accuracy on private data, the epsilon of that run "
     "covers the choice.", False, "all runs and the choice have looked at the data."),
    ("With ten times the records, and teachers as good as before, PATE can have ten times the teachers.", True,
     "the shards keep their size."),
    ("DP-SGD can train on records that have no public counterpart; PATE needs public inputs.", True,
     "votes need something to vote on that is not private."),
    ("If fewer than half of PATE's labels are right, its student must be wrong on more than half of the test images.", False,
     "wrong labels spread over the classes, and a student averages over many."),
]  # fmt: skip


def dropped_teachers() -> Argued:
    return Argued(
        name="dropped-teachers",
        question=code(r"""
            Argue: only good teachers vote

            Sixty teachers are trained on disjoint shards. One record of each shard is set aside for validation, and the 60
            records of the validation set are private as well. The ten teachers with the lowest accuracy on the whole
            validation set are left out; the other 50 vote, and labels are released by a mechanism that is
            $(\varepsilon, \delta)$-DP for votes that differ in one voter. Neighbours differ in one replaced record.

            A colleague says: "By the theorem of PATE the labels are $(\varepsilon, \delta)$-DP. It does not matter how teachers
            are made." Which step of the proof fails, and how many votes may one record move? Describe a case. Then change the
            procedure so that the statement holds. At most ten sentences.
        """),
        rubric=code("""
            - (1 point) It names the step: neighbours must differ in one voter at most. A validation record is seen by all
              teachers' scores, so it decides who votes.
            - (1 point) It gives a case in which one record changes more than one voter, for instance scores that are tied or
              one apart, so that up to ten teachers leave and ten others come. A claim without a case gets no point.
            - (1 point) It says what this does to the votes: with ten voters exchanged, ten votes of each question may move.
            - (1 point) A repair that works: validate on public records; or each teacher on its own shard alone against a fixed
              threshold; or noise for ten votes; or a private choice that is paid for. "Add more noise" without an amount gets
              no point.
        """),
        points=4,
        answer=code("""
            The proof says that neighbours differ in one shard, so in one teacher, so in one voter. Here a validation record is
            part of the score of all 60 teachers, and so decides which 50 vote. On the other 59 records let twenty teachers
            share a score far below all others, and let ten of them be right on the last record: the other ten are left out. With
            another record in its place it may be the other way round, and then ten voters are exchanged for ten others. So
            ten votes may move in each question, and the mechanism is private for one. The statement holds if the validation
            records are public, or if each teacher is judged on its own shard by a threshold that was fixed beforehand: then one
            record still decides about one voter only, who may leave, which the mechanism must cover as well.
        """),
    )


def common_scaling() -> Argued:
    return Argued(
        name="common-scaling",
        question=code(r"""
            Argue: inputs that were scaled together

            A project has 40 shards with a teacher each. Before the data are cut, every input is scaled: the mean of *all*
            private records is subtracted, and the result is divided by their standard deviation. Public inputs are scaled in
            the same way. Labels are then released by a mechanism that is $(\varepsilon, \delta)$-DP for votes that differ in
            one voter. Neighbours differ in one replaced record.

            Are the labels $(\varepsilon, \delta)$-DP in the private records? Say which assumption decides it, give a case that
            shows how far the votes can move, and propose a repair. At most ten sentences.
        """),
        rubric=code("""
            - (1 point) It says no (not by this argument), and names the assumption: a teacher may see its own shard only, and
              here each sees the mean and deviation of all records.
            - (1 point) A case: one extreme record moves mean or deviation so far that all inputs look alike to every teacher,
              or cross a threshold.
            - (1 point) The consequence: all 40 votes may move in each question, not one, so that the mechanism promises
              nothing like epsilon. "It becomes a little less private" without a number of votes gets no point.
            - (1 point) A repair: constants from public data or from domain knowledge; scaling by each shard for itself (public
              inputs by each teacher's own numbers); or a private mean and deviation, whose cost is added.
        """),
        points=4,
        answer=code("""
            No. The theorem lets a teacher be anything that sees its own shard only; here each teacher's inputs depend on the
            mean and deviation of all records. Let one record be replaced by an enormous one: the deviation becomes so large that
            all scaled inputs are nearly zero, in all shards, and every teacher may vote for another class than before. So one
            record moves all 40 votes in every question, while the mechanism is private for one. A repair is to scale by numbers
            that were fixed without these data, or to let each teacher scale its own shard and the public inputs by its own
            mean and deviation; or to release mean and deviation privately, of clipped values, and to add what that costs.
        """),
    )
