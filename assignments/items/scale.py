r"""Graded exercises of chapter 15: how many records, the noise of a run, shares of which some are missing, a count that is
shared, a search on full batches, a claim about noise and curvature, statements, an argument.

Neighbours differ in one added or removed record unless an item says otherwise. In units of the clip norm C the mean of a
batch of B has noise $\sigma/B$; k - a shares of variance $\sigma^2/(k - t)$ have the multiplier
$\sigma\sqrt{(k - a)/(k - t)}$.
"""

from __future__ import annotations

import numpy as np

from assignments.item import Argued, Graded, Sheet
from assignments.items import drawing
from assignments.items.drawing import code, counterexample, function, mechanism, number, statements

IMPORTS = drawing.imports("from dpml import mechanisms", "from dpml.accounting import pld")


def make(rng: np.random.Generator) -> Sheet:
    """Draw the sheet."""
    run = times_the_least(rng) if rng.random() < 0.5 else parameter_noise(rng)
    shares = what_is_left(rng) if rng.random() < 0.5 else size_of_a_share(rng)
    argued = three_for_one() if rng.random() < 0.5 else two_tables()
    items = (records(rng), run, shares, shared(rng), search(rng), curvature(rng), statements(rng, BANK), argued)
    return Sheet("Graded exercises 15: At scale", IMPORTS, items)


def records(rng: np.random.Generator) -> Graded:
    moved = int(rng.integers(1, 3))
    words = (
        "in one added or removed record" if moved == 1 else "in one replaced record, so that it moves by at most $2C$"
    )
    q, sigma = round(float(rng.uniform(0.002, 0.02)), 4), round(float(rng.uniform(0.7, 2.5)), 2)
    clip, s = float(rng.choice([0.3, 3.0, 4.0])), float(rng.choice([1e-3, 4e-4, 2e-4]))
    return number(
        "records",
        title="How many records?",
        asked=f"""
            A run draws each record with probability $q = {q:g}$ in each step, clips gradients to length $C = {clip:g}$, adds Gaussian
            noise to their sum and divides by $qn$. The accountant asks for the noise multiplier $\\sigma = {sigma:g}$: the standard
            deviation on the sum is $\\sigma$ times the most that the sum moves between neighbours, and these differ {words}. Set
            `records` to the number $n$ of records, not rounded, at which each coordinate of the mean has noise of standard deviation
            ${s:g}$.
        """,
        right="{sum} / ({rate} * {goal})",
        parts={"sum": f"{moved} * {sigma} * {clip}", "rate": q, "goal": s},
        mistakes={
            "this is the size of a batch; the records are as many over q.": {"rate": 1},
            "σ counts in units of the most that the sum moves, which is in proportion to C.": {
                "sum": f"{moved} * {sigma}"
            },
            f"neighbours that differ {'by a replaced' if moved == 2 else 'by one more'} record move the sum by "
            f"{'2C' if moved == 2 else 'C'}.": {"sum": f"{3 - moved} * {sigma} * {clip}"},
            "the noise of the mean falls as 1/n, not as the root of it.": f"({moved} * {sigma} * {clip} / {s}) ** 2 / {q}",
        },
    )


def plans(rng: np.random.Generator) -> list[dict[str, object]]:
    sizes = [(200, 2000, 60), (50, 5000, 400), (1000, 1000, 25), (300, 6000, 150)]
    return [
        {"batch": b, "n": n, "steps": t, "epsilon": round(float(rng.uniform(0.8, 5.0)), 2), "delta": d}
        for (b, n, t), d in zip(sizes, (1e-5, 1e-6, 1e-5, 1e-6), strict=True)
    ]


NOISE = """
A run takes `steps` steps on Poisson batches of expected size `batch` from `n` records, divides each noisy sum by `batch`, and has the
least noise with which all of it is $(\\varepsilon, \\delta)$-DP. `pld.noise_multiplier(q=, steps=, epsilon=, delta=)` and
`mechanisms.gaussian_sigma(epsilon=, delta=)` are at hand.
"""
SIGMA = "pld.noise_multiplier(q=batch / n, steps=steps, epsilon=epsilon, delta=delta)"
ONE = "mechanisms.gaussian_sigma(epsilon=epsilon, delta=delta)"


def times_the_least(rng: np.random.Generator) -> Graded:
    called = "batch=100, n=1000, steps=20, epsilon=2.0, delta=1e-5"
    return function(
        "times_the_least",
        title="How far above full batches?",
        asked=f"""{code(NOISE)}

Write `times_the_least(*, batch, n, steps, epsilon, delta)`: the noise on a coordinate of the *average of all noisy means*, over the
noise that the same average has if every step uses all records at the same $(\\varepsilon, \\delta)$.""",
        takes="*, batch, n, steps, epsilon, delta",
        right="{sigma} * n / (batch * {root} * {one})",
        parts={"sigma": SIGMA, "root": "math.sqrt(steps)", "one": ONE},
        inputs=plans(rng),
        cases={
            "is above 0": f"f({called}) > 0",
            "falls as the batch grows, in a usual plan": f"f({called.replace('100', '200', 1)}) < f({called})",
        },
        mistakes={
            "the average of independent noises has the deviation of one over the root of their number.": {"root": "1"},
            "it divides by the number of steps; deviations fall with its root.": {"root": "steps"},
            "with all records it is the noise of one Gaussian mechanism on the mean of n.": {"one": f"({ONE} / n)"},
            "noise for a single step is not enough for all.": {"sigma": SIGMA.replace("steps=steps", "steps=1")},
        },
        hint="σ/(B√T) in the run; with all records the T steps are one Gaussian mechanism.",
        rel=1e-4,
        points=3,
    )


def parameter_noise(rng: np.random.Generator) -> Graded:
    called = "rate=0.1, batch=100, n=1000, steps=20, epsilon=2.0, delta=1e-5"
    inputs = [plan | {"rate": round(float(rng.uniform(0.01, 0.9)), 3)} for plan in plans(rng)]
    return function(
        "parameter_noise",
        title="How much noise is in a parameter?",
        asked=f"""{code(NOISE)}

The optimizer is plain gradient descent with learning rate `rate`. Write `parameter_noise(*, rate, batch, n, steps, epsilon, delta)`:
the standard deviation, in units of the clip norm, of the noise that all steps *together* have added to one parameter, if the gradients
did not depend on it.""",
        takes="*, rate, batch, n, steps, epsilon, delta",
        right="{rate} * {sigma} * {root} / {divisor}",
        parts={"rate": "rate", "sigma": SIGMA, "root": "math.sqrt(steps)", "divisor": "batch"},
        inputs=inputs,
        cases={
            "is above 0": f"f({called}) > 0",
            "is in proportion to the learning rate": (
                f"abs(f({called.replace('rate=0.1', 'rate=0.2')}) / f({called}) - 2) < 1e-6"
            ),
        },
        mistakes={
            "this is the noise of one step.": {"root": "1"},
            "independent noises add up by their variances, not by their deviations.": {"root": "steps"},
            "the sum is divided by the batch, not by all records.": {"divisor": "n"},
            "noise for a single step is not enough for all.": {"sigma": SIGMA.replace("steps=steps", "steps=1")},
            "the learning rate multiplies the noise as well.": {"rate": "1"},
        },
        hint="Each step adds noise of ησ/B, and T of them are independent.",
        rel=1e-4,
        points=3,
    )


PROCESSES = """
Each of $k$ = `k` processes adds independent Gaussian noise to the clipped sum of its own part of the records, before anybody knows who
will be lost, and only the total of what arrives is published. Of the processes `lost` are lost with their noise, and another `curious`
put their own shares of the noise together to attack the others.
"""


def drawn_processes(rng: np.random.Generator) -> list[dict[str, int]]:
    found = [(10, 2, 1), (16, 3, 4), (25, 0, 5), (40, 8, 2), (7, 2, 2)]
    return [{"k": k, "lost": a, "curious": b} for k, a, b in (found[i] for i in rng.permutation(5)[:4])]


def what_is_left(rng: np.random.Generator) -> Graded:
    inputs = [
        case | {"t": int(rng.integers(0, 3)), "sigma": round(float(rng.uniform(0.8, 4.0)), 2), "delta": 1e-6}
        for case in drawn_processes(rng)
    ]
    honest = "(k - lost - curious)"
    return function(
        "left_epsilon",
        title="What is left of the promise?",
        asked=f"""{code(PROCESSES)}

The shares have variance $\\sigma^2C^2/(k - t)$ on each coordinate. Write `left_epsilon(*, k, t, lost, curious, sigma, delta)`: the
least ε at this δ that holds for one step, without sampling, for a record of one of the others against those who are curious.
`mechanisms.gaussian_epsilon(sigma=, delta=)` is at hand.""",
        takes="*, k, t, lost, curious, sigma, delta",
        right="mechanisms.gaussian_epsilon(sigma=sigma * {factor}, delta=delta)",
        parts={"factor": f"math.sqrt({honest} / {{planned}})", "planned": "(k - t)"},
        inputs=inputs,
        cases={
            "is above 0": "f(k=5, t=1, lost=1, curious=0, sigma=2.0, delta=1e-5) > 0",
            "is larger for less noise": "f(k=5, t=1, lost=1, curious=0, sigma=1.0, delta=1e-5) > "
            "f(k=5, t=1, lost=1, curious=0, sigma=2.0, delta=1e-5)",
        },
        mistakes={
            "the curious know their own noise and subtract it.": {"factor": "math.sqrt((k - lost) / {planned})"},
            "the noise of those who are lost is missing.": {"factor": "math.sqrt((k - curious) / {planned})"},
            "variances add up: the deviation goes with the root.": {"factor": f"{honest} / {{planned}}"},
            "each share is one of k - t.": {"planned": "k"},
        },
        hint="Who holds noise that the attackers do not know? Add up its variances.",
    )


def size_of_a_share(rng: np.random.Generator) -> Graded:
    inputs = [
        case | {"sigma": round(float(rng.uniform(0.8, 4.0)), 2), "clip_norm": float(rng.choice([0.5, 1.5, 2.0]))}
        for case in drawn_processes(rng)
    ]
    return function(
        "share_deviation",
        title="How large is a share?",
        asked=f"""{code(PROCESSES)}

Write `share_deviation(*, k, lost, curious, sigma, clip_norm)`: the least standard deviation of each share, equal for all processes,
with which the total still has the noise multiplier `sigma` for a record of the others, against those who are curious, if up to `lost`
are lost and up to `curious` are curious. One record moves the sum by at most `clip_norm`.""",
        takes="*, k, lost, curious, sigma, clip_norm",
        right="sigma * {clip} / {root}",
        parts={"clip": "clip_norm", "root": "math.sqrt(k - lost - curious)"},
        inputs=inputs,
        cases={
            "is above 0": "f(k=5, lost=1, curious=0, sigma=2.0, clip_norm=1.0) > 0",
            "is less than all of the noise": "f(k=5, lost=1, curious=0, sigma=2.0, clip_norm=1.0) < 2.0",
        },
        mistakes={
            "the curious know their own noise and subtract it.": {"root": "math.sqrt(k - lost)"},
            "the noise of those who are lost is missing.": {"root": "math.sqrt(k - curious)"},
            "this plans for nobody.": {"root": "math.sqrt(k)"},
            "variances add up: divide by the root.": {"root": "(k - lost - curious)"},
            "the noise is in proportion to the clip norm.": {"clip": "1.0"},
        },
        hint="The variances of k - lost - curious shares must add up to that of all the noise.",
    )


def shared(rng: np.random.Generator) -> Graded:
    lost = bool(rng.random() < 0.5)
    who = (
        "up to `at_most` of them may be lost: those at the places in `away` never arrive, with count and noise"
        if lost
        else "up to `at_most` of them may be curious: those at the places in `away` do all that they should, and know their own "
        "shares of the noise, which therefore hide nothing from them"
    )
    here = "[r for r in range(len(counts)) if r not in away]" if lost else "list(range(len(counts)))"
    settings = [
        {"counts": rng.integers(0, 30, 4), "away": (1, 2), "at_most": 2, "epsilon": 1.0},
        {"counts": rng.integers(0, 30, 3), "away": (), "at_most": 0, "epsilon": 0.5},
        {"counts": rng.integers(0, 30, 5), "away": (0,), "at_most": 3, "epsilon": 2.0},
    ]
    return mechanism(
        "shared_count",
        title="A whole number in shares",
        asked=rf"""
            Each of $k$ processes has a count of its own records, and {who}. Published is the total of what arrives, a whole number.
            It shall be $\varepsilon$-DP, against the curious too, by two-sided geometric noise $P(j) \propto e^{{-\varepsilon |j|}}$
            that exactly $k -$ `at_most` shares make up; no process may draw all of it, and none knows who is in `away`.

            A fact: if $G$ and $G'$ are independent negative binomial numbers with parameters $1/m$ and $1 - e^{{-\varepsilon}}$
            (NumPy: `rng.negative_binomial(1 / m, 1 - math.exp(-epsilon))`), the sum of $m$ independent copies of $G - G'$ is such
            noise.

            Write `shared_count(counts, *, away, at_most, epsilon, rng)`. `counts` is an array of whole numbers, `away` a tuple of
            places. Take all randomness from `rng`.
        """,
        takes="counts, *, away, at_most, epsilon",
        right="""
            here = {here}
            shares = rng.negative_binomial({shape}, 1 - math.exp(-{scale}), size=(2, len(counts)))
            return int(sum({count} for r in here)){rest}
        """,
        law="""
            from scipy import stats

            here = {here}
            shape = len(here) * {shape}
            part = stats.nbinom.pmf(np.arange(400), shape, 1 - math.exp(-{scale} / noise))
            other = part if {two} else np.eye(1, 400)[0]
            both = np.convolve(part, other[::-1])[249:550]
            total = int(sum(counts[r] for r in here)){rest}
            return laws.discrete(dict(zip(range(total - 150, total + 151), (both / both.sum()).tolist())))
        """,
        parts={
            "here": here,
            "shape": "(1 / (len(counts) - at_most))",
            "scale": "epsilon",
            "count": "counts[r] + shares[0, r] - shares[1, r]",
            "two": "True",
            "rest": "",
        },
        called=settings[0],
        settings=settings,
        neighbours=[],
        mistakes={
            "its shares plan for nobody: too little noise is left of those that count.": {"shape": "(1 / len(counts))"},
            "each process draws all of the noise; a share is enough.": {"shape": "1.0"},
            "a share is the difference of two numbers: noise that is never negative betrays the larger count.": {
                "count": "counts[r] + shares[0, r]",
                "two": "False",
            },
            "the noise goes with 1/ε: this is that of ε/2, twice as much as needed.": {"scale": "epsilon / 2"},
        },
        unexplained={
            "no noise": f"""
                here = {here}
                return int(sum(counts[r] for r in here))
            """,
            "one noise for all": f"""
                here = {here}
                return int(sum(counts[r] for r in here) + rng.geometric(1 - math.exp(-epsilon / 2)))
            """,
        },
    )


def search(rng: np.random.Generator) -> Graded:
    trials, part = int(rng.integers(3, 12)), int(rng.choice([2, 4, 5]))
    steps, quiet = 20 * int(rng.integers(5, 20)), int(rng.choice([2, 3]))
    sigma = round(float(rng.uniform(1.1, 2.0)) * float(np.sqrt(steps)), 1)
    return number(
        "all_epsilon",
        title="A search and a run",
        asked=f"""
            {trials} learning rates are tried in trials of {steps // part} steps each, and then the best is used in a run of {steps} steps.
            Every step uses *all* records (no sampling): a Gaussian mechanism of noise multiplier {sigma:g} in the run, and of {quiet} times
            as much in the trials. Which rate was best was decided on public images. Set `all_epsilon` to the least ε at $\\delta =
            10^{{-5}}$ that holds for trials and run together, for one added or removed record.
            `mechanisms.gaussian_epsilon(sigma=, delta=)` is at hand. (Gaussian mechanisms of multipliers $\\sigma_i$ are together as
            private as one of $1/\\sigma^2 = \\sum_i 1/\\sigma_i^2$.)
        """,
        right="mechanisms.gaussian_epsilon(sigma={sigma} / math.sqrt({run} + {trials}), delta=1e-5)",
        parts={"sigma": sigma, "run": steps, "trials": f"{trials} * {steps // part} / {quiet**2}"},
        mistakes={
            "the trials saw the same records: they count as well.": {"trials": 0},
            "the run itself counts, too.": {"run": 0},
            "all trials count, not only the one that was chosen.": {"trials": f"{steps // part} / {quiet**2}"},
            "more noise in the trials makes them cheaper, by its square.": {
                "trials": f"{trials} * {steps // part} / {quiet}"
            },
            "the trials have more noise than the run.": {"trials": f"{trials} * {steps // part}"},
        },
    )


def curvature(rng: np.random.Generator) -> Graded:
    d, size = int(rng.integers(3, 6)), round(float(rng.uniform(1.0, 4.0)), 1)
    up = int(rng.integers(1, d))  # so many directions curve upwards
    right = [size if i < up else -2.0 * size * d for i in range(d)]
    return counterexample(
        "hessian",
        title="Refute a claim about noise and curvature",
        asked=rf"""
            A step moves the parameters of a quadratic loss with Hessian $H$ (symmetric, {d} by {d}) and adds noise of mean 0 and variance
            $s^2 > 0$ to each of the {d} parameters, independently. A colleague claims: "If the loss curves upwards in {up} of {d}
            orthogonal directions at least, noise makes its expected value after the step larger, or leaves it."

            Refute it: set `hessian` to such an $H$, a list of {d} lists, with exactly {up} positive eigenvalues, for which the noise
            makes the expected loss smaller. All entries are from $-1000$ to $1000$.
        """,
        right=[f"np.diag({right}).tolist()"],
        formed=f"""
            H = np.asarray(answer, dtype=float)
            if H.shape != ({d}, {d}) or not (np.abs(H) <= 1000).all() or not np.allclose(H, H.T):
                return "it must be a symmetric matrix of {d} by {d} numbers from -1000 to 1000."
            return None
        """,
        refutes=f"""
            H = np.asarray(answer, dtype=float)
            if (np.linalg.eigvalsh(H) > 1e-9).sum() != {up}:
                return "it does not have exactly {up} positive eigenvalues."
            if np.trace(H) > -1e-9:
                return "the noise does not make the expected loss smaller. What of H decides that?"
            return None
        """,
        wrong={
            "too many positive eigenvalues": [f"np.eye({d}).tolist()"],
            "a positive trace": [f"np.diag({[4.0 if i < up else -1e-3 for i in range(d)]}).tolist()"],
            "no positive eigenvalue": [f"(-np.eye({d})).tolist()"],
        },
    )


BANK = [
    ("At equal $q$, $T$, ε and δ the noise multiplier does not depend on the number of records.", True,
     "the worst pair of laws of a step knows q and σ alone."),
    ("At equal $q$, $T$, ε and δ twice the records have half the noise on the mean.", True, "the same σ over twice the batch."),
    ("At equal batch and number of steps more records never need more noise.", True, "q falls, and with it σ at most."),
    ("At equal batch and number of steps the noise of the mean falls as 1/n.", False, "it falls with σ alone, much slower."),
    ("At equal ε and δ, with all records in each step, the average of all noisy means has the same noise for every T.", True,
     "σ grows with the root of T, and the average takes that back."),
    ("At every ε and δ the larger of two batches has the smaller noise on its mean.", False,
     "for one step with a large δ and an ε near 0 the smaller one wins."),
    ("At equal noise on each coordinate the expected squared length of the noise is in proportion to $d$.", True,
     "the variances add up."),
    ("A model of twice the parameters loses twice as much to the noise, whatever the loss.", False,
     "on a quadratic loss the trace of the Hessian counts, and flat directions add nothing to it."),
    ("Norms of gradients may be rounded roughly, as clipping is rough anyway.", False,
     "a norm taken for too small lets a longer gradient in than the noise is made for."),
    ("Computing per-example norms without forming the gradients takes less memory for every network.", False,
     "for convolutions what is kept instead can be larger."),
    ("If each of k processes adds a k-th of the variance and one is lost, the promise is broken.", True,
     "the noise that is left is smaller than planned."),
    ("A process that lies can take the privacy of the others' records away, whatever the shares plan for.", False,
     "it takes away its own share of the noise, for which a plan can make up."),
    ("A trial whose model is thrown away costs no privacy.", False, "the choice was made from it."),
    ("A learning rate that was chosen on public data costs no privacy.", True, "the private records were not looked at."),
]  # fmt: skip


def three_for_one() -> Argued:
    return Argued(
        name="three-for-one",
        question=code(r"""
            Argue: a report with one ε

            A team trains a model on 20,000 private records. It tries six learning rates, each in a full run with the noise for
            $(2, 10^{-6})$-DP, on 16,000 of the records, compares the accuracies on the other 4,000, and then trains once more on all
            20,000 at the best rate, with the noise for $(2, 10^{-6})$-DP. It publishes the last model, the best rate and: "All
            training was $(2, 10^{-6})$-differentially private."

            For which records is what about this sentence wrong? Write a statement of two to four sentences that is right, and name two
            ways in which the team could have kept a total of $\varepsilon = 2$. You need no new number.
        """),
        rubric=code("""
            - (1 point) The 16,000: six runs and the last one add up; each by itself is (2, 1e-6)-DP, together they are not.
            - (1 point) The 4,000: the published rate depends on accuracies that were computed from them without noise, so that no
              epsilon holds for the choice.
            - (1 point) A right statement: per run, with delta and neighbours, and that the choice is not covered (or the composed
              number for the 16,000, and none for the others).
            - (1 point) Two ways: public or other data for the search; one budget for all seven runs with more noise, and a noisy
              comparison; fewer, shorter or noisier trials accounted together; a random number of trials by a theorem that covers it.
        """),
        points=4,
        answer=code("""
            A record among the 16,000 is seen by six trials and by the last run, so that seven losses add up; 2 is the epsilon of each
            run alone. A record among the 4,000 decides with others which rate wins, and the accuracies had no noise: the published
            rate, and the model that follows from it, have no epsilon for these. Right is: "Each of seven runs was (2, 1e-6)-DP for
            one added or removed record. The learning rate was chosen by six of them and by accuracies on 4,000 private records;
            this choice is not covered." The team could search on public data, or give all seven runs together one budget of 2, with
            more noise in each and a noisy comparison of the accuracies.
        """),
    )


def two_tables() -> Argued:
    return Argued(
        name="two-tables",
        question=code(r"""
            Argue: a table at the same ε

            A paper compares its method M with DP-SGD. Both rows say $\varepsilon = 2$. M has the noise multiplier 1.1 and 3,746 steps;
            DP-SGD has 0.7 and 691 steps, "since its budget is spent then". M is some points better. The paper concludes that M's way of
            treating gradients is better.

            Why does the conclusion not follow, although both budgets are right? Describe an experiment that would decide it, say which
            numbers must be the same in it and which must not have been chosen for one side alone, and what you would report beside the
            two accuracies.
        """),
        rubric=code("""
            - (1 point) The two rows differ in more than the method: noise and number of steps. 691 steps may be too few, whatever is
              done with the gradients.
            - (1 point) DP-SGD can have 3,746 steps at the same epsilon with another noise multiplier, which an accountant finds; that
              is the row to compare with.
            - (1 point) The same: data, network, neighbours, delta, sampling, steps or a search over them for both; learning rate and
              clip norm chosen with equal care for both.
            - (1 point) Reported: several seeds and their spread, how choices were made and whether epsilon covers that.
        """),
        points=4,
        answer=code("""
            The rows differ in the method, in the noise and in the number of steps, and a few hundred steps may be too few for any
            method. The budget does not force them on DP-SGD: with a multiplier above 0.7, which an accountant computes, it may take
            3,746 steps at the same epsilon. So train both with the same data, network, neighbours, delta, sampling and number of steps,
            DP-SGD with the noise that makes its epsilon equal, and with learning rate and clip norm searched as carefully for one as
            for the other. Report means and spread over several seeds, the noise and the steps of each row, how the choices were made,
            and whether the epsilon covers them.
        """),
    )
