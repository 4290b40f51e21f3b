r"""Graded exercises of chapter 11: what liars can push through a trimmed sum, one step with its test, equal privacy, where F
settles, a claim about one record, the direction of a clipped sum, statements, an argument.

If k of the liars let themselves be left out, F - k honest gradients are, and the other liars may be as long as the shortest
of these. The trimmed sum of one parameter has noise sigma tau R after a passed test and sigma R after a failed one.
"""

from __future__ import annotations

import numpy as np

from assignments.item import Argued, Graded, Sheet
from assignments.items import drawing
from assignments.items.drawing import code, counterexample, function, mechanism, number, statements
from dpml.accounting import pld
from dpml.ptr import privacy

IMPORTS = drawing.imports("from dpml.accounting import pld", "from dpml.ptr import privacy")


def make(rng: np.random.Generator) -> Sheet:
    """Draw the sheet."""
    push = worst_push(rng) if rng.random() < 0.5 else least_trim(rng)
    equal = noise_with_test(rng) if rng.random() < 0.5 else steps_without_test(rng)
    claim = share_of_the_batch(rng) if rng.random() < 0.5 else median_claim(rng)
    argued = moved_by_outcomes() if rng.random() < 0.5 else less_noise_for_outliers()
    items = (push, private_step(rng), equal, settles(rng), claim, statements(rng, BANK), argued)
    return Sheet("Graded exercises 11: Private and robust SGD", IMPORTS, items)


RULE = r"""
The trimmed sum of a batch leaves out the $F$ = `trim` gradients that are longest before clipping, clips the others to length
$R$ = `bound`, and adds them up; if there are not more than $F$, it is zero. A batch holds the honest gradients, whose lengths
are the array `honest`, and `liars` corrupted ones. Who sends these knows the honest ones, and chooses any lengths; of equal
lengths the honest gradient is left out first. The *push* is the sum of the lengths, after clipping, of the corrupted gradients
that are not left out.
"""

PUSH = """
longest = np.sort(honest)[::-1]
push = 0.0
for given_up in range({}):
    left = trim - given_up
    most = bound if left == 0 else min(bound, longest[left - 1]) if left <= len(longest) else 0.0
    push = max(push, (liars - given_up) * most)
"""


def drawn_lengths(rng: np.random.Generator, size: int, bound: float) -> np.ndarray:
    """A few lengths beyond the bound, most of them below."""
    return np.round(
        bound * np.concatenate([rng.uniform(0.1, 0.9, size - size // 4), rng.uniform(1.2, 2.5, size // 4)]), 3
    )


def worst_push(rng: np.random.Generator) -> Graded:
    inputs = []
    for size, trim, liars in ((6, 2, 2), (8, 3, 5), (9, 4, 2), (12, 4, 4), (12, 6, 3), (10, 0, 2), (7, 5, 7)):
        bound = float(rng.choice([0.5, 1.0, 2.0, 3.0]))
        honest = rng.permutation(drawn_lengths(rng, size, bound))
        inputs.append({"honest": honest, "trim": trim, "liars": liars, "bound": bound})
    inputs.append({"honest": np.array([0.3, 0.8, 0.2, 0.9, 0.1]), "trim": 3, "liars": 3, "bound": 1.0})
    right = PUSH.format("min(trim, liars) + 1") + "return push"
    sample = "np.array([0.4, 0.8, 0.3, 0.6])"
    return function(
        "worst_push",
        title="What liars can push through a trimmed sum",
        asked=f"{code(RULE)}\n\nWrite `worst_push(honest, *, trim, liars, bound)`: the largest push that is possible.",
        takes="honest, *, trim, liars, bound",
        right=right,
        inputs=inputs,
        cases={
            "is not above what clipping allows": f"f({sample}, trim=1, liars=2, bound=1.0) <= 2.0",
            "is 0 without liars": f"abs(f({sample}, trim=1, liars=0, bound=1.0)) < 1e-12",
        },
        mistakes={
            "this is what clipping allows, without trimming.": "liars * bound",
            "liars that are shorter than the honest ones are not left out; trimming does not know who lies.": "max(0, liars - "
            "trim) * bound",
            "some liars may let themselves be left out, so that fewer honest gradients are, and the others may be longer.": (
                PUSH.format("1") + "return push"
            ),
            "a liar that is left in is clipped as well.": right.replace(
                "min(bound, longest[left - 1])", "longest[left - 1]"
            ),
        },
        hint="Let k liars be so long that they are left out. How long may the others be?",
        points=3,
    )


def least_trim(rng: np.random.Generator) -> Graded:
    inputs = []
    for size, liars in ((8, 2), (10, 3), (12, 4), (9, 1), (14, 5), (12, 6)):
        bound = float(rng.choice([0.5, 1.0, 2.0, 3.0]))
        limit = round(float(rng.uniform(0.15, 0.7)) * liars * bound + 0.0001, 4)
        honest = rng.permutation(drawn_lengths(rng, size, bound))
        inputs.append({"honest": honest, "liars": liars, "bound": bound, "limit": limit})
    inputs.append({"honest": np.array([0.3, 0.8, 0.2, 0.9, 0.1]), "liars": 3, "bound": 1.0, "limit": 1.2})
    shape = """
        for trim in range(len(honest) + liars + 1):
        {}
            if push <= limit:
                return trim
    """

    def searched(tries: str, clipped: str = "min(bound, longest[left - 1])") -> str:
        lines = code(PUSH.format(tries).replace("min(bound, longest[left - 1])", clipped)).splitlines()
        return code(shape).format("\n".join("    " + line for line in lines))

    sample = "np.array([0.4, 0.8, 0.3, 0.6])"
    return function(
        "least_trim",
        title="How much must be trimmed against these liars?",
        asked=f"{code(RULE)}\n\nWrite `least_trim(honest, *, liars, bound, limit)`: the least $F$ with which no push is above "
        "`limit`, a number above 0. It may be larger than the number of honest gradients.",
        takes="honest, *, liars, bound, limit",
        right=searched("min(trim, liars) + 1"),
        inputs=inputs,
        cases={
            "is a whole number": f"f({sample}, liars=2, bound=1.0, limit=0.7) % 1 == 0",
            "is 0 where clipping is enough": f"f({sample}, liars=2, bound=1.0, limit=2.5) == 0",
        },
        mistakes={
            "trimming does not know who lies: as many as there are liars may not be enough, or more than needed.": "liars",
            "this is one too few.": searched("min(trim, liars) + 1").replace("return trim", "return max(0, trim - 1)"),
            "some liars may let themselves be left out, so that fewer honest gradients are, and the others may be longer.": (
                searched("1")
            ),
            "this leaves out all liars that could be there only if they are the longest, which they avoid.": "max(0, liars - "
            "int(limit / bound))",
        },
        hint="For a given F let k liars be so long that they are left out. How long may the others be?",
        points=3,
    )  # fmt: skip


def private_step(rng: np.random.Generator) -> Graded:
    mean = bool(rng.random() < 0.5)
    bound = float(rng.choice([2.0, 3.0, 5.0]))
    over = " / expected" if mean else ""
    released = "the sum divided by `expected`, a constant," if mean else "the sum itself, not a mean,"
    takes = "gradients, *, ids, trim, tau, sigma, scale, delta0" + (", expected" if mean else "")
    start = f"""
        lengths = np.abs(gradients)
        clipped = np.clip(gradients, -{bound}, {bound})
        stays = np.lexsort((ids, lengths))[: max(0, len(lengths) - trim)]
        margin = max(0, trim - np.count_nonzero(lengths > {{long}}))
        threshold = scale * math.log(0.5 / delta0)
    """

    changes = {
        "tau is in units of R: the long gradients are those above tau R.": {"long": "tau"},
        "tau is in units of R, and so is the noise after a passed test.": {"passed": "sigma * tau"},
        "the noise after a passed test is smaller by tau; that is what the test is for.": {
            "passed": f"sigma * {bound}"
        },
        "after a failed test the sum is not trimmed.": {"rest": "clipped[stays].sum()"},
        "after a failed test the noise must cover all of R.": {"failed": f"sigma * tau * {bound}"},
        "after a passed test the longest are left out.": {"kept": "clipped.sum()"},
    }
    if mean:
        changes["the number of gradients that came tells about the records; the divisor is a constant."] = {
            "divided": " / max(1, len(lengths))"
        }
    values = np.round(
        bound * np.concatenate([rng.uniform(0.1, 0.3, 7), -rng.uniform(0.7, 0.9, 2), rng.uniform(1.5, 2.0, 3)]), 2
    )
    order = rng.permutation(12)
    delta0 = float(rng.choice([0.05, 0.1]))
    more = {"expected": 8.0} if mean else {}
    # Margins of about 2, 0 and 8; ties in length; an empty batch.
    settings = [
        {"gradients": values[order], "ids": order + 100, "trim": 7, "tau": 0.5, "sigma": 0.4, "scale": 1.0, "delta0": delta0},
        {"gradients": values[order], "ids": order + 100, "trim": 4, "tau": 0.5, "sigma": 0.4, "scale": 1.0, "delta0": delta0},
        {"gradients": values[order], "ids": order + 100, "trim": 10, "tau": 0.35, "sigma": 0.3, "scale": 2.0, "delta0": 0.1},
        {"gradients": bound * np.array([1.2, 0.1, -1.2, 0.2, 1.2]), "ids": np.array([7, 3, 9, 4, 8]), "trim": 4, "tau": 0.6,
         "sigma": 0.25, "scale": 0.5, "delta0": 0.2},
        {"gradients": np.zeros(0), "ids": np.zeros(0, dtype=int), "trim": 3, "tau": 0.5, "sigma": 0.5, "scale": 1.0,
         "delta0": 0.1},
    ]  # fmt: skip
    settings[3]["ids"] = rng.permutation(settings[3]["ids"])
    settings = [{**setting, **more} for setting in settings]
    return mechanism(
        "private_step",
        title="One step with its test",
        asked=rf"""
            A model has a single parameter, so that a gradient is a number and its length the absolute value. Neighbours differ in
            one example added or removed; $R = {bound:g}$, and `tau`, below 1, is in units of $R$.

            Write `private_step({takes}, rng)`, one step of trimmed SGD with propose-test-release. `gradients` and `ids` are arrays,
            perhaps empty. The test adds Laplace noise of scale `scale` to the safety margin of the trimmed sum, and passes if this
            exceeds the threshold that a batch with margin 0 exceeds with probability `delta0`. If it passes, the `trim` gradients
            that were longest before clipping are left out (of equal lengths the larger id first), the others are clipped to
            $[-R, R]$ and added up, with Gaussian noise of `sigma` times what the sum can then move by. If it fails, all are clipped
            and added up, with noise of `sigma` times $R$. Return {released} as one number. Take all randomness from `rng`.
        """,
        takes=takes,
        right=f"""{start.rstrip()}
        if margin{{noise}} > threshold:
            total = {{kept}} + rng.normal(scale={{passed}})
        else:
            total = {{rest}} + rng.normal(scale={{failed}})
        return total{{divided}}
        """,
        law=f"""{start.rstrip()}
        t = (threshold - margin) / scale
        p = math.exp(-t) / 2 if t > 0 else 1 - math.exp(t) / 2
        small = laws.normal({{kept}}{{divided}}, noise * {{passed}}{{divided}})
        large = laws.normal({{rest}}{{divided}}, noise * {{failed}}{{divided}})
        return laws.mixture([p, 1 - p], [small, large])
        """,
        parts={
            "long": f"tau * {bound}",
            "passed": f"sigma * tau * {bound}",
            "failed": f"sigma * {bound}",
            "rest": "clipped.sum()",
            "divided": over,
            "kept": "clipped[stays].sum()",
            "noise": " + rng.laplace(scale=scale)",
        },
        called=settings[0],
        settings=settings,
        neighbours=[],
        mistakes=changes,
        unexplained={"a test without noise": {"noise": ""}},
        points=4,
    )


def drawn_run(rng: np.random.Generator) -> dict[str, float]:
    """The settings of a run: sampling, steps, delta, and those of the test."""
    return {
        "q": float(rng.choice([0.005, 0.01, 0.02])), "steps": 100 * int(rng.integers(3, 16)), "delta": 1e-5,
        "tau": float(rng.choice([0.4, 0.5, 0.6, 0.7])), "scale": float(rng.choice([1.0, 1.5, 2.0])),
        "delta0": 1e-8,
    }  # fmt: skip


RUN = r"""
Trimmed SGD with propose-test-release runs ${steps}$ steps on Poisson samples with $q = {q:g}$; the test has $\tau = {tau:g}$ (in
units of $R$), Laplace noise of scale $b = {scale:g}$, and $\delta_0 = 10^{{-8}}$. $\delta = 10^{{-5}}$ for the whole run, and
neighbours differ in one example added or removed.
"""


def noise_with_test(rng: np.random.Generator) -> Graded:
    run, sigma = drawn_run(rng), round(float(rng.uniform(1.2, 2.2)), 3)
    target = round(privacy.epsilon(**run, sigma=sigma).epsilon, 5)  # so that sigma is the answer
    common = f"q={run['q']}, steps={run['steps']}, delta={run['delta']}"
    settings = f"{common}, tau={run['tau']}, scale={run['scale']}, delta0=1e-8"
    return Graded(
        name="noise-with-test",
        question="The noise that the test asks for\n\n"
        f"{code(RUN).format(**run)}\n\nSet `noise_with_test` to the smallest multiplier $\\sigma$ (the noise is $\\sigma R$ "
        f"after a failed test) for which the run is $({target}, 10^{{-5}})$-DP, to within 0.5 %. It is between 1 and 3. "
        "`privacy` and `pld` have tight accountants for runs with and without the test.",
        stub="noise_with_test = ...",
        solution=code(f"""
            low, high = 1.0, 3.0
            for _ in range(12):
                middle = (low + high) / 2
                if privacy.epsilon({settings}, sigma=middle).epsilon > {target}:
                    low = middle
                else:
                    high = middle
            noise_with_test = high
        """),
        visible='checks.form(noise_with_test, name="noise_with_test")',
        hidden=code(f"""
            plain = pld.noise_multiplier({common}, epsilon={target})
            checks.number(
                noise_with_test,
                name="noise_with_test",
                expected={sigma},
                rel=5e-3,
                mistakes=[
                    checks.Mistake(plain, "this is the noise of plain DP-SGD; the test costs privacy as well."),
                    checks.Mistake({run["tau"] * sigma}, "this is the noise after a passed test."),
                ],
            )
        """),
        points=2,
        wrong={
            "plain DP-SGD": f"noise_with_test = pld.noise_multiplier({common}, epsilon={target})",
            "the noise after a passed test": f"noise_with_test = {run['tau'] * sigma}",
        },
    )


def steps_without_test(rng: np.random.Generator) -> Graded:
    run = drawn_run(rng)
    sigma = round(float(rng.uniform(1.6, 2.6)), 1)
    spends = privacy.epsilon(**run, sigma=sigma).epsilon
    matched = pld.noise_multiplier(q=run["q"], steps=int(run["steps"]), delta=run["delta"], epsilon=spends)
    # With the matched noise the number of steps would be the same.
    plain = round(matched * float(rng.choice([rng.uniform(0.84, 0.93), rng.uniform(1.08, 1.2)])), 3)
    common = f"q={run['q']}, delta={run['delta']}"
    spent = f"privacy.epsilon({common}, steps={run['steps']}, sigma={sigma}, tau={run['tau']}, scale={run['scale']}, "
    spent += "delta0=1e-8).epsilon"
    return number(
        "steps_without_test",
        title="How many steps for the same privacy?",
        asked=f"{code(RUN).format(**run)} After a failed test the noise is $\\sigma R$ with $\\sigma = {sigma:g}$.\n\nPlain DP-SGD "
        f"has the noise multiplier {plain:g}. Set `steps_without_test` to the number of steps after which it has spent the same "
        "$\\varepsilon$, to within 1 %. `privacy` and `pld` have tight accountants for runs with and without the test.",
        setup=f"""
            spent = {spent}
            low, high = 1, 2**17
            while high - low > 1:
                middle = (low + high) // 2
                if pld.epsilon({common}, steps=middle, sigma={plain}).epsilon <= spent:
                    low = middle
                else:
                    high = middle
        """,
        right="low",
        mistakes={
            "with as many steps the two do not spend the same.": f"{run['steps']}",
            "the number of steps does not go with the square of the noise once the test is paid for.": "round("
            f"{run['steps']} * ({plain} / {sigma}) ** 2)",
        },
        rel=1e-2,
    )


def settles(rng: np.random.Generator) -> Graded:
    inputs = [
        {"count": int(c), "up": int(u), "down": int(d), "scale": round(float(b), 2), "delta0": float(e)}
        for c, (u, d), b, e in zip(
            rng.integers(0, 200, size=6), [(1, 1), (5, 2), (9, 1), (1, 3), (2, 7), (3, 4)], rng.uniform(0.6, 3.0, size=6),
            rng.choice([1e-4, 1e-6, 1e-8], size=6), strict=True,
        )
    ]  # fmt: skip
    return function(
        "settles",
        title="Where F settles",
        asked=r"""
            The test of a step passes if the safety margin $\max(0, F - c)$ plus Laplace noise of scale $b$ (`scale`) exceeds
            $b\log\frac{1}{2\delta_0}$, where $c$ = `count` gradients are longer than $\tau R$, the same number in every step. After
            a failed test $F$ is raised by `up`, after a passed one it is lowered by `down`. It settles where it moves neither up nor
            down on average. ($F$ may be any number here, and is far from both ends of its range.)

            Write `settles(*, count, up, down, scale, delta0)`: the pair of the share of tests that pass there, and of that $F$.
        """,
        takes="*, count, up, down, scale, delta0",
        right="""
            share = {share}
            extra = scale * math.log(1 / (2 * (1 - share))) if share > 0.5 else scale * math.log(2 * share)
            return share, {count}scale * math.log(1 / ({factor} * delta0)) + extra
        """,
        parts={"share": "up / (up + down)", "count": "count + ", "factor": "2"},
        inputs=inputs,
        cases={
            "is a pair": "len(f(count=90, up=3, down=2, scale=1.0, delta0=1e-8)) == 2",
            "has a share from 0 to 1": "0 <= f(count=90, up=3, down=2, scale=1.0, delta0=1e-8)[0] <= 1",
        },
        mistakes={
            "half of the tests pass only if F moves up and down by the same amount.": {"share": "0.5"},
            "if failures move F more, it settles higher, and more tests pass.": {"share": "down / (up + down)"},
            "this is the margin; F is larger by the number of long gradients.": {"count": ""},
            "a margin of 0 passes with delta0, half of the probability of a noise of this size.": {"factor": "1"},
            "at the threshold itself half of the tests pass.": "(up / (up + down), count + scale * math.log(1 / (2 * delta0)))",
        },
        hint="share times down = (1 - share) times up. Which margin passes with this probability?",
        points=3,
    )


def share_of_the_batch(rng: np.random.Generator) -> Graded:
    k, bound = int(rng.integers(2, 6)), float(rng.choice([1.0, 2.0, 5.0, 10.0]))
    most = 3 * k + 2
    right = [-bound] + [0.1 * bound] * (k - 2)
    same = [-bound] + [0.1 * bound] * (k - 1)
    return counterexample(
        "batch",
        "added",
        title="Refute it: a share of the batch",
        asked=rf"""
            A model has a single parameter, so that a gradient is a number. A step leaves out the $F$ gradients with the largest
            absolute values (of equal ones the later in the batch first), clips the others to $[-R, R]$, $R = {bound:g}$, and adds
            them up. $F$ is the number of gradients in the batch divided by {k}, rounded down. A colleague claims: "One gradient
            more moves this sum by at most $R$, as it does the plain sum of clipped gradients. So noise for $R$ is enough."

            Refute it: set `batch` to a list of 1 to {most} numbers, and `added` to a number that comes at its end, such that the
            sum moves by more than $R$.
        """,
        right=[f"{right}", f"{0.9 * bound}"],
        formed=f"""
            batch, added = (np.asarray(part, dtype=float) for part in answer)
            if batch.ndim != 1 or not 1 <= len(batch) <= {most} or not np.isfinite(batch).all():
                return "the batch must be a list of 1 to {most} numbers."
            return None if added.shape == () and np.isfinite(added) else "what is added must be one finite number."
        """,
        refutes=f"""
            def total(gradients):
                gradients = np.asarray(gradients, dtype=float)
                kept = np.argsort(np.abs(gradients), kind="stable")[: len(gradients) - len(gradients) // {k}]
                return np.clip(gradients[kept], -{bound}, {bound}).sum()

            batch, added = answer
            longer = [*batch, added]
            if len(longer) // {k} == len(batch) // {k}:
                return "F is the same for both batches, and then the claim holds."
            if abs(total(longer) - total(batch)) <= {bound} * (1 + 1e-9):
                return "F grows, but the sum moves by R at most. Which gradient leaves the sum, which one enters?"
            return None
        """,
        wrong={
            "F stays": [f"{same}", f"{0.9 * bound}"],
            "the added one is left out itself": [f"{right}", f"{5 * bound}"],
            "both have the same sign": [f"{[-x for x in right]}", f"{0.9 * bound}"],
        },
    )


def median_claim(rng: np.random.Generator) -> Graded:
    k, bound = int(rng.integers(3, 8)), float(rng.choice([1.0, 2.0, 5.0, 10.0]))
    m = 2 * k + 1
    return counterexample(
        "batch",
        "added",
        title="Refute it: a robust rule needs less noise",
        asked=rf"""
            A model has a single parameter, so that a gradient is a number. A step clips all gradients to $[-R, R]$, $R = {bound:g}$,
            and takes their median (of an even number, the mean of the middle two). A colleague claims: "One gradient more among
            {m} moves the mean of the clipped gradients by at most $2R/{m + 1}$. The median ignores outliers, so that it moves even
            less: noise for $2R/{m + 1}$ is enough for it."

            Refute it: set `batch` to a list of {m} numbers, and `added` to one number more, such that the median moves by more than
            $2R/{m + 1}$.
        """,
        right=[f"{[-bound] * k + [bound] * (k + 1)}", f"{-bound}"],
        formed=f"""
            batch, added = (np.asarray(part, dtype=float) for part in answer)
            if batch.shape != ({m},) or not np.isfinite(batch).all():
                return "the batch must be a list of {m} numbers."
            return None if added.shape == () and np.isfinite(added) else "what is added must be one finite number."
        """,
        refutes=f"""
            batch, added = answer
            before, after = (np.median(np.clip(part, -{bound}, {bound})) for part in (batch, [*batch, added]))
            if abs(after - before) <= 2 * {bound} / {m + 1} * (1 + 1e-9):
                return "the median moves too little. What lies on either side of it decides, not the size of the new number."
            return None
        """,
        wrong={
            "an outlier": [f"{[0.0] * m}", f"{1000 * bound}"],
            "an even spread": [f"{[round(bound * (i - k) / k, 6) for i in range(m)]}", f"{bound}"],
            "all at one end": [f"{[bound] * m}", f"{-bound}"],
        },
    )


BANK = [
    ("The trimmed sum ignores up to $F$ gradients that are longer than all others.", True, "these are left out."),
    ("Because the trimmed sum ignores outliers, one example moves it by less than $R$ in every batch.", False,
     "if all have length R, one more pushes another one of length R into the sum."),
    ("Clipping alone lets $k$ corrupted gradients move the sum by at most $kR$.", True, "each has length R at most."),
    ("After a failed test the step may be left out of the accounting, since nothing was trimmed.", False,
     "the accountant covers both outcomes beforehand, and the outcome itself is released."),
    ("$F$ may be lowered after each passed test: that depends on released outcomes only.", True,
     "it is post-processing, and the next step is private for every F."),
    ("$F$ may be set to the number of gradients above $\\tau R$ in the batch plus 18.", False,
     "this is computed from the batch itself, without noise."),
    ("A rule that raises $F$ after a passed test and lowers it after a failed one settles where half of the tests pass.", False,
     "it is positive feedback, and runs to one of its ends."),
    ("Two private methods with the same noise multiplier have the same epsilon after as many steps.", False,
     "a test costs privacy as well; only an accountant compares."),
    ("With an empty batch the step may release 0 without noise, since there is nobody to protect.", False,
     "an exact 0 tells that nobody was drawn."),
    ("A larger $R$ makes more tests pass, and the noise larger.", True,
     "fewer gradients exceed tau R, and the noise is in units of R."),
    ("If the $F$ longest gradients are always left out, examples that the model gets wrong are left out more often than "
     "others.", True, "their gradients are the long ones."),
    ("Random wrong labels harm a clipped sum less than as many wrong labels that agree.", True,
     "votes in all directions cancel."),
]  # fmt: skip


def moved_by_outcomes() -> Argued:
    return Argued(
        name="moved-by-outcomes",
        question=code(r"""
            Argue: two ways to move F

            Both programs train with a trimmed sum, propose-test-release, and the same settings. Program A changes $F$ after each
            step: up by 5 if the test of this step failed, else down by 5. Program B sets $F$ before each step to the number of
            gradients of this batch that are longer than $\tau R$, plus 40, so that the test nearly always passes. The accountant
            knows the price of one step with a fixed $F$, and adds up the steps.

            For which program does this account hold? Give the argument for it, with the property of composition that it needs, and
            a case for the other program: neighbours, and what happens to the sum. At most ten sentences.
        """),
        rubric=code("""
            - (1 point) It holds for A and not for B.
            - (1 point) For A: given the outcomes so far, F is a fixed number; each step is private for every F, and composition
              allows later mechanisms that are chosen from earlier outputs (adaptively). No point for "F is random".
            - (1 point) For B: one more example that is longer than tau R raises F by one.
            - (1 point) What follows in numbers: the sum is then compared for two values of F. For example two long gradients change
              places, so that the sum moves by more than R (up to 2R); or the margin is 40 for every batch, so that the test tests
              nothing, and the small noise meets batches in which one record can move the sum by R.
        """),
        points=4,
        answer=code("""
            The account holds for A. Whether a test passed is a function of what is released (the noisy margin), so that given the
            released outputs so far F is a number; the next step is private for each F, and composition allows each mechanism to
            be chosen from the earlier outputs. It does not hold for B, where F is a function of the batch. The margin is F minus
            the number of long gradients, so 40 for every batch: the test always passes and tests nothing. Let all gradients of a
            batch be just below tau R, so that F is 40. With one more, longer than tau R, F is 41: the long one is left out, and so
            is another one that was in the sum. And with ten more such records, one after the other, it goes on in this way. So the
            sum moves although the new record is not in it, and if the new one is just below tau R at F = 40, it is in. The proof
            compares two batches under the same F, and this is not what B does.
        """),
    )


def less_noise_for_outliers() -> Argued:
    return Argued(
        name="less-noise-for-outliers",
        question=code(r"""
            Argue: robust, so private with less noise?

            A group clips gradients to length $R$, leaves out the $F = 64$ longest of about 256, and adds Gaussian noise of standard
            deviation $0.75\,\sigma R$ to the sum, in every step, without any test. "DP-SGD adds $\sigma R$ to 256 gradients. We add
            up three quarters of them, and the quarter that could do harm is not among them. So three quarters of the noise give
            the same $\varepsilon$." Neighbours differ in one example added or removed.

            Refute the claim: say what is true of trimming, give two neighbouring batches that show how far the sum can move, say
            which noise multiplier the accountant must be told, and name one way to really use less noise. At most ten sentences.
        """),
        rubric=code("""
            - (1 point) True: the F longest cannot enter the sum; but an added long record pushes another one into it. Robustness
              is about this batch, privacy about all pairs of neighbours.
            - (1 point) Two neighbours in numbers: for example all gradients have length R (or more) and equal direction; one more
              moves the sum by R.
            - (1 point) So the sensitivity is R, and the multiplier is 0.75 sigma, with a larger epsilon than DP-SGD at sigma.
            - (1 point) A way: a private test that the local sensitivity is small (propose-test-release), whose cost is added; or a
              smaller R, which clips more; or noise of another accounting. "Trim more" gets no point.
        """),
        points=4,
        answer=code("""
            It is true that the 64 longest gradients of a batch are not in its sum. But privacy compares this batch with one that
            has a record more. Let all 256 gradients be the same vector of length R: the sum holds 192 of them. With one more, 257,
            of which 64 are left out, it holds 193, and has moved by R: the new record took a place among those left out and pushed
            another one in. So the sensitivity is R, as for DP-SGD, and noise of 0.75 sigma R is a multiplier of 0.75 sigma: the
            epsilon is larger. And the signal is smaller by a quarter as well. Less noise is possible after a private test that no
            record nearby moves the sum by more than tau R, whose own cost has to be added; or with a smaller R.
        """),
    )
