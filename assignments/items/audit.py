r"""Graded exercises of chapter 14: what counts, a form or losses prove, several looks, one run, the best threshold, noise
that was cut off, an input read off a gradient, a false claim, statements, an argument.

With upper limits of both error rates, each wrong with half of the alarm, epsilon is at least log((1 - beta - delta)/alpha) and
mu at least Phi^-1(1 - alpha) + Phi^-1(1 - beta). A loss of t or more with probability p proves t + log(1 - delta/p). Odds o
of a coin become at most o e^epsilon. A - e^epsilon B is largest for the event that the loss exceeds epsilon.
"""

from __future__ import annotations

import numpy as np

from assignments.item import Argued, Graded, Sheet
from assignments.items import drawing
from assignments.items.drawing import code, counterexample, function, number, statements
from dpml.audit import samples

IMPORTS = drawing.imports("from scipy import stats", "from dpml.audit import samples")


def make(rng: np.random.Generator) -> Sheet:
    """Draw the sheet."""
    proof = (most_alarms, known_form, known_losses)[rng.integers(3)]
    looks = several_events if rng.random() < 0.5 else several_times
    one_run = least_right if rng.random() < 0.5 else chance_of_right
    argued = published_bound() if rng.random() < 0.5 else best_of_many(rng)
    items = (proof(rng), looks(rng), one_run(rng), threshold(rng), cut_noise(rng), image_and_label(rng), advantage(rng))
    return Sheet("Graded exercises 14: Trust, but audit", IMPORTS, (*items, statements(rng, BANK), argued))


def words(text: str) -> str:
    return " ".join(text.split())


RUNS = """
A mechanism ran {runs} times on $D$ and {runs} times on a neighbour $D'$, all runs independent. A test that was fixed before
said "$D$" in {hits} of the runs on $D$
"""
LIMITS = """
Each of the two error rates gets its exact one-sided upper limit (Clopper and Pearson), wrong with probability at most half of
what may go wrong. `samples.upper_limit` may help.
"""
HALF = "each of the two limits may be wrong with half of what may go wrong, not with all of it."
OBSERVED = "these are the observed rates; without limits they prove nothing."


def counted(rng: np.random.Generator) -> tuple[int, float, float]:
    """A number of runs, a confidence, and what each of two limits may go wrong with."""
    confidence = float(rng.choice([0.9, 0.95, 0.99]))
    return 250 * int(rng.integers(80, 140)), confidence, round((1 - confidence) / 2, 6)


def most_alarms(rng: np.random.Generator) -> Graded:
    runs, confidence, alarm = counted(rng)
    hits = int(runs * rng.uniform(0.45, 0.6))
    delta = float(rng.choice([0.05, 0.08, 0.1]))  # so much that it counts for more than the limits
    epsilon = round(float(rng.uniform(1.0, 1.8)), 2)
    return number(
        "most_alarms",
        title="How many false alarms leave a proof?",
        asked=f"""
            {words(RUNS.format(runs=runs, hits=hits))}. The claim is $({epsilon}, {delta})$-DP. {words(LIMITS)}

            Set `most_alarms` to the largest number of the {runs} runs on $D'$ in which the test may have said "$D$" if the audit is
            to prove, with {100 * confidence:g} % confidence, that at $\\delta = {delta}$ the true $\\varepsilon$ is above {epsilon}.
        """,
        setup=f"""
            def most(alarm, delta={delta}, limit=samples.upper_limit):
                alarms = np.arange(1, {runs + 1})
                alpha = limit(alarms, trials={runs}, alarm=alarm)
                beta = limit({runs - hits}, trials={runs}, alarm=alarm)
                odds = np.maximum((1 - beta - delta) / alpha, (1 - alpha - delta) / beta)
                return int(alarms[odds > math.exp({epsilon})].max())
        """,
        right=f"most({alarm})",
        mistakes={
            "so many prove just too little.": f"most({alarm}) + 1",
            "delta is left out: so much is allowed whatever the data are.": f"most({alarm}, delta=0.0)",
            HALF: f"most({2 * alarm})",
            OBSERVED: f"most({alarm}, limit=lambda errors, *, trials, alarm: errors / trials)",
        },
        rel=0.0,
        points=3,
    )


def known_form(rng: np.random.Generator) -> Graded:
    runs, confidence, alarm = counted(rng)
    hits, alarms = (int(runs * share) for share in rng.uniform([0.65, 0.05], [0.85, 0.2]))
    moved = int(rng.integers(4, 10))
    right = f"{moved} / mu(limit({alarms}, {alarm}), limit({runs - hits}, {alarm}))"
    return number(
        "sigma",
        title="How much noise can there be?",
        asked=f"""
            {words(RUNS.format(runs=runs, hits=hits))} and in {alarms} of those on $D'$. The mechanism adds Gaussian noise to one number,
            which is larger by {moved} on $D$ than on $D'$; the standard deviation of the noise is not known. {words(LIMITS)}

            Set `sigma`, to at least four digits, to the value of which the audit may say with {100 * confidence:g} % confidence: the
            standard deviation of the noise is at most this.
        """,
        setup=f"""
            def limit(errors, alarm):
                return samples.upper_limit(errors, trials={runs}, alarm=alarm)

            def mu(alpha, beta):
                return stats.norm.isf(alpha) + stats.norm.isf(beta)
        """,
        right=right,
        mistakes={
            HALF: right.replace(f"{alarm}", f"{2 * alarm}"),
            OBSERVED: f"{moved} / mu({alarms / runs}, {1 - hits / runs})",
            "this is for a number that moves by 1.": right.replace(f"{moved} /", "1 /"),
            "this is mu, the distance in standard deviations; asked is the standard deviation.": right.removeprefix(f"{moved} / "),
            "both error rates count: mu is the sum of two quantiles.": f"{moved} / stats.norm.isf(limit({alarms}, {alarm}))",
        },
        points=3,
    )  # fmt: skip


def known_losses(rng: np.random.Generator) -> Graded:
    inputs = []
    for share in (0.02, 0.05, 0.1, 0.3, 0.004):
        runs = 500 * int(rng.integers(4, 30))
        delta = round(share * float(rng.uniform(0.1, 0.4)), 5) if share > 0.01 else 0.02  # the last shows nothing
        limits = {"delta": delta, "confidence": float(rng.choice([0.9, 0.95, 0.99, 0.999]))}
        threshold = round(float(rng.uniform(1.0, 4.0)), 2)
        inputs.append({"exceeding": round(runs * share), "runs": runs, "threshold": threshold} | limits)
    limit = "samples.{which}_limit(exceeding, trials=runs, alarm={alarm})"
    return function(
        "proved",
        title="When the losses are known",
        asked="""
            Both densities of a mechanism are known, so the privacy loss $\\ell(y) = \\log(p_D(y)/p_{D'}(y))$ of each output is known. In
            `runs` independent runs on $D$ (and none on $D'$), `exceeding` outputs had a loss of at least `threshold`, a number fixed
            before.

            Write `proved(*, exceeding, runs, threshold, delta, confidence)`: how large $\\varepsilon$ must be at least, at this
            $\\delta$ and with this confidence. Use the exact lower limit (Clopper and Pearson; `samples.lower_limit`) for the
            probability of such a loss, and that for the true $\\varepsilon$ and every $t$ it is at least $\\delta \\ge
            P(\\ell \\ge t)\\,(1 - e^{\\varepsilon - t})$. Where that shows nothing, or a number below 0, the answer is 0.
        """,
        takes="*, exceeding, runs, threshold, delta, confidence",
        right="""
            p = {p}
            return max(0.0, {value}) if p > delta else 0.0
        """,
        parts={"p": limit, "which": "lower", "alarm": "1 - confidence", "value": "threshold + math.log(1 - delta / p)"},
        inputs=inputs,
        cases={
            "is 0 where no loss is so large": "f(exceeding=0, runs=100, threshold=1.0, delta=0.01, confidence=0.9) == 0",
            "is above 0 where half of the losses are large": "f(exceeding=50, runs=100, threshold=2.0, delta=0.01, confidence=0.9) > 0",
        },
        mistakes={
            "1 - confidence is halved: here is one rate with one limit.": {"alarm": "(1 - confidence) / 2"},
            "it uses the observed share; the probability may be smaller.": {"p": "exceeding / runs"},
            "this is the upper limit of the probability.": {"which": "upper"},
            "this is for delta = 0, where one such output is a proof.": {"value": "threshold"},
            "the sign is wrong: delta allows some large losses, so they prove less than the threshold.": {
                "value": "threshold + math.log(1 + delta / p)"
            },
            "this is delta over p; solve the inequality for epsilon: it has a logarithm.": {"value": "threshold - delta / p"},
        },
        hint="Put the limit p and t into the inequality, and solve it for epsilon.",
        points=3,
    )  # fmt: skip


BOUND = (
    "samples.epsilon_lower_bound(true_positives=hits[i], positives={runs}, false_positives=alarms[i], negatives={runs}, "
    "delta={delta}, confidence={confidence}).epsilon_at_least"
)
DIVIDED = "1 - (1 - confidence) / len(hits)"


def several_events(rng: np.random.Generator) -> Graded:
    inputs = []
    for events in (3, 4, 6, 9):
        runs = 500 * int(rng.integers(2, 10))
        shares = rng.uniform([[0.4], [0.08]], [[0.6], [0.2]], size=(2, events))
        hits, alarms = ([int(runs * share) for share in row] for row in shares)
        limits = {"delta": float(rng.choice([0.01, 0.02])), "confidence": float(rng.choice([0.9, 0.95, 0.99]))}
        inputs.append({"hits": hits, "alarms": alarms, "runs": runs} | limits)

    called = "[500, 550], alarms=[100, 90], runs=1000, delta=0.01, confidence={}"
    return function(
        "reported",
        title="Several events, one report",
        asked="""
            A mechanism ran `runs` times on $D$ and as often on a neighbour $D'$, all runs independent. Several events were fixed before,
            and *all were counted on the same runs*: event number $i$ happened in `hits[i]` of the runs on $D$ and in `alarms[i]` of those
            on $D'$. The auditor computes for each event how large $\\varepsilon$ must be at least, and reports the largest of these bounds.

            Write `reported(hits, *, alarms, runs, delta, confidence)`: the number that may be reported, so that the report is wrong with
            probability at most $1 -$ `confidence`, whatever the events have to do with each other. Each event gets the same share of what
            may go wrong. `samples.epsilon_lower_bound` computes the bound of one event.
        """,
        takes="hits, *, alarms, runs, delta, confidence",
        right=f"{{choose}}([{BOUND} for i in range(len(hits))])",
        parts={"choose": "max", "runs": "runs", "delta": "delta", "confidence": DIVIDED},
        inputs=inputs,
        cases={
            "is above 0 where events are much rarer on D'": f"f({called.format(0.95)}) > 0",
            "is smaller where more confidence is asked": f"f({called.format(0.99)}) < f({called.format(0.9)})",
        },
        mistakes={
            "each event has all of 1 - confidence here: together they fail several times as often.": {"confidence": "confidence"},
            "this is for independent events; these share their runs.": {"confidence": "confidence ** (1 / len(hits))"},
            "the function halves the share of an event for its two limits; this halves it once more.": {
                "confidence": "1 - (1 - confidence) / (2 * len(hits))"
            },
            "this is the smallest of the bounds. All hold together, so the largest may be reported.": {"choose": "min"},
            "this is the mean of the bounds. All hold together, so the largest may be reported.": {"choose": "np.mean"},
            "delta is left out.": {"delta": "0.0"},
        },
        hint="Several bounds hold together except with the sum of their chances to fail.",
        points=2,
    )  # fmt: skip


def looks(rng: np.random.Generator, *, at: int, between: tuple[float, float], factor: float = 1.0) -> dict[str, object]:
    """Counts at four looks; at look `at` the claim lies between the bounds for two divisors of what may go wrong."""
    runs = [int(n) for n in 500 * int(rng.integers(1, 5)) * np.array([1, 2, 4, 8])]
    confidence, delta = float(rng.choice([0.9, 0.95, 0.99])), float(rng.choice([0.005, 0.01]))
    hits, alarms = ([int(n * share) for n in runs] for share in rng.uniform([0.45, 0.1], [0.6, 0.15]))
    proved = [
        samples.epsilon_lower_bound(
            true_positives=hits[at], positives=runs[at], false_positives=alarms[at], negatives=runs[at],
            delta=delta, confidence=1 - (1 - confidence) / divisor,
        ).epsilon_at_least
        for divisor in between
    ]  # fmt: skip
    epsilon = round(factor * sum(proved) / 2, 4)
    counts = {"hits": hits, "alarms": alarms, "runs": runs}
    return counts | {"epsilon": epsilon, "delta": delta, "confidence": confidence}


def several_times(rng: np.random.Generator) -> Graded:
    inputs = [
        looks(rng, at=1, between=(1, 2)),
        looks(rng, at=1, between=(2, 4)),
        looks(rng, at=0, between=(4, 4), factor=0.8),
        looks(rng, at=3, between=(1, 1), factor=1.2),
        looks(rng, at=3, between=(1, 4)),
    ]

    called = "[50, 99], alarms=[50, 99], runs=[100, 200], epsilon=1.0, delta=0.0, confidence=0.95"
    return function(
        "refuted_after",
        title="Looking again and again",
        asked="""
            An audit of a claim of $(\\varepsilon, \\delta)$-DP is planned with several looks. At look number $i$ there have been `runs[i]` runs on
            $D$ and as many on a neighbour $D'$, and a fixed event happened in `hits[i]` of those on $D$ and in `alarms[i]` of those on
            $D'$, all counted from the start. At the first look whose bound is above `epsilon` the auditor stops and says "refuted". Before
            the start it was decided that each of the looks gets the same share of what may go wrong, so that the auditor says so of a
            true claim with probability at most $1 -$ `confidence`.

            Write `refuted_after(hits, *, alarms, runs, epsilon, delta, confidence)`: the number of runs on $D$ at that look, or 0 if
            no look refutes the claim. The three lists have the same length. `samples.epsilon_lower_bound` computes the bound of one look.
        """,
        takes="hits, *, alarms, runs, epsilon, delta, confidence",
        right=f"""
            for i in {{places}}:
                if {BOUND} > epsilon:
                    return {{after}}
            return {{never}}
        """,
        parts={"runs": "runs[i]", "delta": "delta", "confidence": DIVIDED, "after": "runs[i]", "places": "range(len(runs))",
               "never": "0"},
        inputs=inputs,
        cases={
            "is 0 where the event happens as often on both": f"f({called}) == 0",
        },
        mistakes={
            "each look has all of 1 - confidence here: together they fail several times as often.": {"confidence": "confidence"},
            "it divides by the looks so far; the looks to come are planned, and need their shares.": {
                "confidence": "1 - (1 - confidence) / (i + 1)"
            },
            "it looks at the end only; the plan was another one.": {"confidence": "confidence", "places": "[len(runs) - 1]"},
            "if no look refutes the claim, the answer is 0.": {"never": "runs[-1]"},
            "this is the number of the look; asked is the number of runs.": {"after": "i + 1"},
        },
        hint="Bounds at several looks hold together except with the sum of their chances to fail.",
    )  # fmt: skip


def least_right(rng: np.random.Generator) -> Graded:
    inputs = [
        {
            "epsilon": round(float(rng.uniform(0.2, 3.0)), 2),
            "guesses": guesses + int(rng.integers(0, guesses)),
            "confidence": float(rng.choice([0.9, 0.95, 0.99, 0.999])),
        }
        for guesses in (30, 100, 300, 1000, 2500)
    ]
    inputs.append(
        {"epsilon": 4.0, "guesses": int(rng.integers(10, 30)), "confidence": 0.99}
    )  # too few, if all are right
    odds = "math.exp(epsilon) / (1 + math.exp(epsilon))"
    return function(
        "least_right",
        title="How many right guesses refute a claim?",
        asked="""
            One run, many canaries: for each a fair coin decided, independently, whether it is in the data. The attacker sees the output
            and guesses `guesses` of the coins, a number fixed beforehand. Somebody claims that the mechanism is $(\\varepsilon, 0)$-DP
            under add/remove of one record.

            Write `least_right(epsilon, *, guesses, confidence)`: the smallest number of right guesses that refutes the claim with this
            confidence; 0 if even all of them do not. A number refutes it if so many *or more* have probability at most $1 -$ `confidence`
            under every mechanism and attack that the claim allows. `stats.binom` may help.
        """,
        takes="epsilon, *, guesses, confidence",
        right="""
            least = int(stats.binom.isf({alarm}, guesses, {p})){more}
            return least if least <= guesses else 0
        """,
        parts={"alarm": "1 - confidence", "p": odds, "more": " + 1"},
        inputs=inputs,
        cases={
            "is a number of guesses": "f(0.5, guesses=200, confidence=0.95) in range(1, 201)",
        },
        mistakes={
            "it counts the chance of more right guesses than this number; asked is so many or more.": {"more": ""},
            "1 - confidence is halved; here is one limit.": {"alarm": "(1 - confidence) / 2"},
            "this refutes a claim of epsilon = 0 only: guesses may be right more often than a coin.": {"p": "0.5"},
            "the odds of a right guess are e^epsilon, so its chance is e^epsilon / (1 + e^epsilon).": {"p": "1 - math.exp(-epsilon)"},
            "so many are right on average, if the claim just holds; more may be luck.": f"return math.ceil(guesses * {odds})",
        },
        hint="Each guess is right with at most the chance that odds of e^epsilon give.",
        points=3,
    )  # fmt: skip


def chance_of_right(rng: np.random.Generator) -> Graded:
    inputs = []
    for guesses, above in ((20, 1.0), (60, 2.0), (150, 2.5), (400, 3.0), (900, 1.5)):
        share, epsilon = float(rng.choice([0.1, 0.2, 0.3, 0.7])), round(float(rng.uniform(0.2, 1.5)), 2)
        p = share * np.exp(epsilon) / (1 - share + share * np.exp(epsilon))
        right = min(guesses, round(guesses * p + above * np.sqrt(guesses * p * (1 - p))))
        inputs.append({"right": right, "guesses": guesses, "share": share, "epsilon": epsilon})
    chance = "share * math.exp(epsilon) / (1 - share + share * math.exp(epsilon))"
    tail = "stats.binom.sf(right - 1, guesses, {})"
    return function(
        "chance",
        title="Canaries by coins that are not fair",
        asked="""
            One run, many canaries: each is in the data with probability `share`, independently of the others. The attacker sees the output
            and says of `guesses` canaries, a number fixed beforehand, that they are *in*; of the others nothing is said. The mechanism is
            $(\\varepsilon, 0)$-DP under add/remove of one record: given the output and all other coins, the output multiplies the odds
            in : out of a canary by a number between $e^{-\\varepsilon}$ and $e^{\\varepsilon}$.

            Write `chance(right, *, guesses, share, epsilon)`: the largest probability that `right` *or more* of these guesses are right
            which this argument leaves to an attacker. `stats.binom` may help.
        """,
        takes="right, *, guesses, share, epsilon",
        right=tail.format(chance),
        inputs=inputs,
        cases={
            "is a probability": "0 < f(8, guesses=10, share=0.3, epsilon=1.0) < 1",
        },
        mistakes={
            "this is for fair coins; here the odds before the output are share : 1 - share.": tail.format(
                "math.exp(epsilon) / (1 + math.exp(epsilon))"
            ),
            "e^epsilon multiplies the odds, not the probability.": tail.format("min(1.0, share * math.exp(epsilon))"),
            "this is for guesses that know nothing of the output.": tail.format("share"),
            "this is the chance of more than that many; asked is so many or more.": f"stats.binom.sf(right, guesses, {chance})",
            "this is the chance of exactly that many.": f"stats.binom.pmf(right, guesses, {chance})",
            "this is the chance of so many or fewer.": f"stats.binom.cdf(right, guesses, {chance})",
        },
        hint="First the chance that one guess is right, from its odds; then that of so many.",
        points=3,
    )  # fmt: skip


def threshold(rng: np.random.Generator) -> Graded:
    above, gaussian = bool(rng.random() < 0.5), bool(rng.random() < 0.5)
    inputs = []
    for moved in (0.5, 2.0, 3.0, 5.0, 1.5):
        answer = round(float(rng.uniform(-20, 20)), 1)
        noise = round(moved * float(rng.uniform(0.4, 1.8)), 2)
        epsilon = round(moved / noise * float(rng.uniform(0.2, 0.8)), 2)
        neighbour = round(answer - moved if above else answer + moved, 1)
        inputs.append({"answer": answer, "neighbour": neighbour, "epsilon": epsilon, "noise": noise})
    middle = "(answer + neighbour) / 2"
    right = {
        True: f"{middle} + epsilon * noise**2 / (answer - neighbour)",
        False: f"{middle} + epsilon * noise / 2 * np.sign(answer - neighbour)",
    }
    kind = "Gaussian noise of standard deviation $\\sigma$" if gaussian else "Laplace noise of scale $b$"
    below = "smaller" if above else "larger"
    limited = (
        "" if gaussian else " The arguments are such that $\\varepsilon b$ is below the distance of the two answers."
    )
    own = (
        {
            "the variance counts, the square of the standard deviation.": right[True].replace("noise**2", "noise"),
            "the distance of the two answers is left out: here it is not 1.": f"{middle} + epsilon * noise**2 * np.sign(answer - neighbour)",
        }
        if gaussian
        else {
            "the loss changes by 2/b where the output moves by 1 between the answers.": right[False].replace("noise / 2", "noise"),
            "epsilon is divided by b; it has to be multiplied.": right[False].replace("epsilon * noise", "epsilon / noise"),
        }
    )  # fmt: skip
    return function(
        "best_threshold",
        title="Where does an audit look best?",
        asked=f"""
            A number is released with {kind}. On $D$ the true number is
            `answer`, on a neighbour $D'$ it is `neighbour`, which is {below}. Somebody claims $(\\varepsilon, \\delta)$-DP. An audit
            takes the event $E$: "the release is {"above" if above else "below"} $t$". Many runs refute the claim if $P_D(E) -
            e^{{\\varepsilon}} P_{{D'}}(E)$ is above $\\delta$.

            Write `best_threshold(*, answer, neighbour, epsilon, noise)`: the $t$ for which $P_D(E) - e^{{\\varepsilon}} P_{{D'}}(E)$ is
            largest. `noise` is {kind.split()[-1]}.{limited}
        """,
        takes="*, answer, neighbour, epsilon, noise",
        right=right[gaussian],
        inputs=inputs,
        cases={
            "moves with the two numbers": "abs(f(answer={}, neighbour={}, epsilon=0.5, noise=1.0) - "
            "f(answer={}, neighbour={}, epsilon=0.5, noise=1.0) - 7) < 1e-9".format(*((9, 7, 2, 0) if above else (7, 9, 0, 2)))
        },
        mistakes={
            "half-way both are equally likely: that is the best guess, and what the claim allows is left out.": middle,
            "this lies on the side of D': the event must be rare there.": right[gaussian].replace(") / 2 + ", ") / 2 - "),
            "this is the true number on D; the best threshold depends on epsilon and on the noise.": "answer",
            "this is for the other noise.": right[not gaussian],
        }
        | own,
        hint="The event holds the outputs whose loss is above epsilon; find the output where the loss is epsilon.",
        points=3,
    )  # fmt: skip


def cut_noise(rng: np.random.Generator) -> Graded:
    inputs = [
        {"epsilon": round(float(rng.uniform(low, high)), 2), "most": most}
        for (low, high), most in zip(
            ((0.1, 0.2), (0.2, 0.4), (0.6, 0.9), (0.9, 1.3), (1.4, 2.0)),
            rng.permutation([1, 2, 3, 4, 5]).tolist(),
            strict=True,
        )
    ]
    given = """
        a = math.exp(-epsilon)
        return {}
    """
    uncut, beyond = "(1 - a) / (1 + a) * a**most", "a ** (most + 1) / (1 + a)"
    if rng.random() < 0.5:
        done = "draws $K$ again until $|K| \\le m$"
        right = "a**most / (1 + 2 * sum(a**k for k in range(1, most + 1)))"
        own = {
            "the law before the cut: what was beyond m went to all the others, and made them likelier.": uncut,
            "so often K is above m before it is drawn again; no output says that.": beyond,
        }
    else:
        done = "replaces $K$ by $m$ where it is above $m$, and by $-m$ where it is below $-m$"
        other = "max(0.0, a**most - (1 - a) * a ** (most - 2)) / (1 + a)"
        right = f"a**most / (1 + a) + {other}"
        own = {
            "what was beyond m is at m now: it adds to the chance of m.": uncut,
            "so often K is above m; K = m gives the same output.": beyond,
            "this is one edge; at the other, for a small epsilon, the ratio is above e^epsilon too.": "a**most / (1 + a)",
        }  # fmt: skip
    return function(
        "least_delta",
        title="Noise without far ends",
        asked=f"""
            A count is released as count $+ K$ with a whole number $K$, $P(K = k)$ proportional to $e^{{-\\varepsilon |k|}}$ for all whole $k$.
            This is $(\\varepsilon, 0)$-DP: neighbours differ in one added or removed record, so their counts by 1. "No output should
            be far off", says a programmer, and {done}, for a whole number $m \\ge 1$.

            Write `least_delta(*, epsilon, most)`: the smallest $\\delta$ with which the programmer's release is
            $(\\varepsilon, \\delta)$-DP, for the same $\\varepsilon$ and for $m$ = `most`.
        """,
        takes="*, epsilon, most",
        right=given.format(right),
        inputs=inputs,
        cases={
            "is above 0": "f(epsilon=1.0, most=3) > 0",
            "is smaller where less is cut off": "f(epsilon=1.0, most=6) < f(epsilon=1.0, most=2)",
        },
        mistakes={
            "this is the promise before the cut; now some outputs of one count are impossible for the other.": "0.0",
            "twice that: on one side of the definition only one edge is impossible for the other count.": given.format(f"2 * ({right})"),
        }
        | {text: given.format(wrong) for text, wrong in own.items()},
        hint="Go through the outputs o of one count: add up what P(o) exceeds e^epsilon times the other count's P(o) by.",
        points=3,
    )  # fmt: skip


def image_and_label(rng: np.random.Generator) -> Graded:
    updated = bool(rng.random() < 0.5)
    inputs = []
    for features, classes in ((3, 2), (4, 5), (6, 3), (5, 4)):
        errors = rng.dirichlet([2.0] * classes) - np.eye(classes)[rng.integers(classes)]
        gradient = np.outer(np.append(rng.uniform(0.1, 1.0, features), 1.0), errors)
        inputs.append(
            {"sent": gradient * rng.uniform(0.05, 0.5) / np.linalg.norm(gradient) * (-1.0 if updated else 1.0)}
        )
    best, other = ("argmax", "argmin") if updated else ("argmin", "argmax")

    what = "the negative of this, times a learning rate, which nobody else knows" if updated else "this"
    called = "f(np.array([[0.1, -0.1], [0.3, -0.3], [0.2, -0.2]]))"
    return function(
        "seen",
        title="What one update tells",
        asked=f"""
            A model without hidden layers classifies images: the scores of the classes are $W^\\top x + b$, their softmax is $p$, and the
            loss of an image $x$ with label $y$ is $-\\log p_y$. One person computes the gradient of the loss on *one* image,
            clips it (all of it together) to a Euclidean norm that nobody else knows, adds no noise, and sends {what}. What
            is sent has a row for each pixel and a column for each class; the last row is that of $b$.

            Write `seen(sent)`: the pair of the image, a one-dimensional array, and the label, a whole number from 0. The gradient in $b$ is
            $p$, less 1 at the place of the label; no class has probability 0 or 1.
        """,
        takes="sent",
        right="""
            label = int(np.{choose}(sent[-1]))
            return {image}, label
        """,
        parts={"image": "sent[:-1, label] / sent[-1, label]", "choose": best},
        inputs=inputs,
        cases={
            "returns two things, the image first": f"len({called}) == 2 and np.shape({called}[0]) == (2,)",
            "sees the same in half of what is sent": "np.allclose(f(np.array([[0.1, -0.1], [0.3, -0.3], [0.2, -0.2]]) / 2)[0], "
            f"{called}[0])",
        },
        mistakes={
            "the label has the other sign: p minus 1 is negative, and an update is the negative of a gradient.": {"choose": other},
            "a column is the image times what stands below it: divide by that.": {"image": "sent[:-1, label] / np.linalg.norm(sent)"},
            "the last row is that of b, not the first.": {"image": "sent[1:, label] / sent[0, label]"},
            "the image has the wrong sign: it and the 1 of b share their factor.": {"image": "-sent[:-1, label] / sent[-1, label]"},
            "the row of b is no pixel.": {"image": "sent[:, label] / sent[-1, label]"},
        },
        hint="Each column is the image and a 1 below it, times one number; the signs of these numbers give the label away.",
        points=3,
    )  # fmt: skip


def advantage(rng: np.random.Generator) -> Graded:
    most, delta = round(float(rng.uniform(0.03, 0.08)), 3), float(rng.choice([0.001, 0.002, 0.005]))
    epsilon = round(float(rng.uniform(0.8, 2.5)), 1)
    return counterexample(
        "tpr",
        "fpr",
        title="A small advantage, a small epsilon?",
        asked=f"""
            An attack on membership says "member" of members with probability TPR, and of others with probability FPR. A vendor writes:
            "No attack on our model has a TPR $-$ FPR above {most}. That is so little that the attacks cannot contradict our claim of
            $({epsilon}, {delta})$-DP."

            Refute the argument: set `tpr` and `fpr`, the exact rates of an attack, with TPR $-$ FPR above 0 and at most {most} and FPR at
            least 0.001, that no $({epsilon}, {delta})$-DP mechanism allows.
        """,
        right=(f"{0.001 + 0.9 * most:.5f}", "0.001"),
        formed=f"""
            tpr, fpr = answer
            if not (0.001 <= fpr < tpr <= 1):
                return "both must be probabilities, fpr at least 0.001 and tpr larger than fpr."
            return None if tpr - fpr <= {most} + 1e-12 else "tpr - fpr must be at most {most}."
        """,
        refutes=f"""
            tpr, fpr = answer
            if tpr > math.exp({epsilon}) * fpr + {delta} or 1 - fpr > math.exp({epsilon}) * (1 - tpr) + {delta}:
                return None
            return (
                "both inequalities of the definition hold for these rates: the false positives must be so rare that their share of "
                "e^epsilon is small as well (or the true negatives of the other side)."
            )
        """,
        wrong={
            "the same advantage in the middle": ("0.5", f"{0.5 - most:.3f}"),
            "false positives that are not rare": (f"{0.1 + most:.3f}", "0.1"),
            "an advantage that is too large": ("0.9", "0.1"),
        },
    )


BANK = [
    ("An audit that proves 0.3 with 95 % confidence contradicts no claim of ε = 1.", True,
     "it says at least 0.3, and 1 is at least 0.3."),
    ("From the same counts, a bound with 99 % confidence is smaller than one with 90 %.", True,
     "limits that are wrong more seldom lie further from the observed rates."),
    ("From the same counts, a larger δ in the claim makes the bound on ε larger.", False,
     "δ allows part of the difference, so less of it is proved of ε."),
    ("A bound of 1.2 at 95 % confidence shows for certain that a claim of ε = 1 is false.", False,
     "of all such audits of true claims, up to 5 % give such a bound."),
    ("With 1,000 runs on each side an audit by events cannot prove ε = 20, however bad the mechanism is.", True,
     "no error in 1,000 runs still leaves an error rate of some thousandths."),
    ("Who knows both densities can bound ε from below by runs on one of the two datasets.", True,
     "the loss of an output of D is known, so how often it is large on D is enough."),
    ("If error rates prove μ ≥ 1, then ε is at least that of Gaussian noise with σ = 1, whatever the mechanism is.", False,
     "the μ is proved for all; the ε only where the trade-off is known to be that of a Gaussian."),
    ("A program whose mechanism has a correct proof can be refuted by an audit, without bad luck.", True,
     "the proof is about the paper; the program may be another mechanism."),
    ("If no attack known today tells members from others, training is private.", False,
     "an attack bounds ε from below; another one, or a record that nobody tried, may show more."),
    ("An average advantage of 0 over all records is compatible with a record that is told for certain.", True,
     "privacy is for each record; one of many hardly moves an average, and errors on others may balance it."),
    ("A divisor that is the number of records in the batch is no problem for an audit in one run.", False,
     "it depends on the coins of the canaries, so the mechanism is another one than the claim is about."),
    ("Outputs of ordinary floating-point Laplace noise can rule out one of two neighbouring counts.", True,
     "only some floats can be reached from a count, and from another count other ones."),
    ("Clipping an example's gradient hides its input from whoever sees the update.", False,
     "it multiplies the gradients of weights and bias by the same number; noise hides."),
]  # fmt: skip


def published_bound() -> Argued:
    return Argued(
        name="published-bound",
        question=code(r"""
            Argue: measured, so guaranteed?

            A company has no proof for its training program. It audited it: 10,000 runs on each of two neighbouring datasets, the best of
            several known attacks chosen on other runs, exact limits. Result: ε is at least 0.2 with 99 % confidence. On its
            website it writes: "Independent tests have measured the privacy of our program. With 99 % confidence, ε = 0.2."

            Say what the audit did show and what the sentence claims; name three ways in which the true ε may be far above 0.2 although the
            audit was done correctly; and write a sentence that the company may publish. At most ten sentences.
        """),
        rubric=code("""
            - (1 point) The audit is a lower bound: with 99 % confidence ε is not below 0.2. The sentence claims an upper bound or a value.
            - (2 points) Three ways: another pair of datasets, another attack or event, too few runs for a larger bound (with N runs not
              above about log N), rare outputs at a small δ. 1 point for two of them.
            - (1 point) A sentence such as "our tests do not contradict a claim of ε of at least 0.2; nothing is promised", or that a
              guarantee needs a proof about the program.
        """),
        points=4,
        answer=code("""
            The audit shows that, for its pair of datasets, no ε below 0.2 is true, except with probability 1 %. The sentence turns that
            around: it reads as if ε were no larger than 0.2. The true ε may be much larger. Another pair of neighbours, such as one with an
            extreme record, may move the output further. Another attack, or another event, may tell the two apart better; the known ones
            need not be the best. And outputs that occur once in a million runs decide about ε at a small δ, while 10,000 runs do not
            show them: even of a program without noise they prove less than about log 10,000 = 9. The company may write: "In our tests
            we found evidence for ε of at least 0.2; this is no guarantee, which only a proof about the program could give."
        """),
    )


def best_of_many(rng: np.random.Generator) -> Argued:
    attacks, claim = int(rng.integers(3, 9)) * 10, float(rng.choice([0.5, 1.0, 2.0]))
    found, false = round(1.2 * claim, 1), round(0.05 * attacks, 1)
    return Argued(
        name="best-of-many",
        question=code(f"""
            Argue: {attacks} attacks, and one of them won

            A library claims ε = {claim:g} (δ = 0). A tester tries {attacks} attacks on the same runs, each with an event fixed before,
            and computes for each a bound with 95 % confidence. All but one of the bounds are below {claim:g}; one is {found:g}. He opens an
            issue: "With 95 % confidence your library has ε of at least {found:g}. It is broken."

            Say what is wrong with the confidence; how many attacks may be expected to give a bound above a true claim at most; and name two ways
            to find out whether the library is broken, with what each costs. May the tester, if the library is sound, say that
            {attacks - 1} of his attacks confirm it? At most ten sentences.
        """),
        rubric=code(f"""
            - (1 point) 95 % holds for one bound fixed in advance; the largest of {attacks} is wrong with a probability of which only
              "at most {attacks} times 5 %", so nothing, is known.
            - (1 point) Expected number of false alarms: at most 0.05 times {attacks} = {false:g}; one such bound is no surprise.
            - (2 points) Two ways with their costs: share the 5 % out (each bound at 1 - 0.05/{attacks}: smaller bounds, or more runs); fresh
              runs for the one attack that won (twice the work, full 95 %); reading the code. 1 point for one way, or without costs.
            - (1 point) No: a bound below a claim proves nothing for it.
        """),
        points=5,
        answer=code(f"""
            A bound at 95 % is wrong with probability at most 5 % if it was the one that was to be reported. Here the largest of {attacks} is
            reported, and the probability that at least one of them is wrong is only known to be at most {attacks} times 5 %, which
            says nothing. Of {attacks} bounds at 95 % up to {false:g} are too high on average although the claim is true, so one is no
            surprise. The tester can compute each bound with confidence 1 - 0.05/{attacks}; then all hold together with 95 %, but each
            is smaller, so a real fault needs more runs to show. Or he takes the attack that won, fixes it, and runs the library
            again: with fresh runs one bound at 95 % is honest, at the price of these runs. The other {attacks - 1} attacks confirm nothing:
            a bound below the claim means that this attack, with so many runs, found no contradiction.
        """),
    )
