r"""Graded exercises of chapter 04: the log-moment of a mechanism, training in phases, a budget turned into steps or
noise, one step, where a rule ends, noise multipliers, statements, an argument.

alpha(lambda) = log E[e^(lambda L)] is lambda times the Rényi divergence of order lambda + 1. For whole training runs
the alphas add up, and epsilon = (alpha + log(1/delta))/lambda for every lambda.
"""

from __future__ import annotations

import numpy as np

from assignments.item import Argued, Graded, Sheet
from assignments.items import drawing
from assignments.items.drawing import code, counterexample, function, mechanism, number, statements, tex
from dpml.accounting import moments

IMPORTS = drawing.imports("from dpml import mechanisms", "from dpml.accounting import moments, rdp")


def make(rng: np.random.Generator) -> Sheet:
    """Draw the sheet."""
    alpha = (coin_moment, laplace_moment, gaussian_moment)[rng.integers(3)]
    budget = steps_within(rng) if rng.random() < 0.5 else noise_for(rng)
    step = update(rng) if rng.random() < 0.5 else fixed_size_step(rng)
    claim = leading_term(rng) if rng.random() < 0.5 else short_grid(rng)
    argued = tail_proof() if rng.random() < 0.5 else other_neighbours(rng)
    items = (alpha(rng), phases(rng), budget, step, claim, multiplier(rng), statements(rng, BANK), argued)
    return Sheet("Graded exercises 04: The moments accountant", IMPORTS, items)


MOMENT = r"""
The privacy loss $L$ of an output is the logarithm of its probability (or density) under $D$ over that under a neighbour
$D'$, and the output is drawn under $D$. The log-moment is $\alpha(\lambda) = \log E[e^{\lambda L}]$ for $\lambda > 0$.
"""
ORDER = "this is the Rényi divergence of order lambda + 1; the log-moment is lambda times as large."


def drawn_orders(rng: np.random.Generator) -> list[float]:
    return [round(float(x), 1) for x in rng.uniform([0.3, 1.5, 4.0, 8.0, 2.0], [0.9, 3.5, 7.0, 20.0, 6.0])]


def coin_moment(rng: np.random.Generator) -> Graded:
    inputs = [
        {"lam": lam, "epsilon": round(float(e), 2)}
        for lam, e in zip(drawn_orders(rng), rng.uniform(0.2, 2.0, size=5), strict=True)
    ]
    truth = "truth = 1 / (1 + math.exp(-epsilon))\n"
    right = "math.log(truth * math.exp(lam * epsilon) + (1 - truth) * math.exp(-lam * epsilon))"
    return function(
        "alpha",
        title="The log-moment of a coin",
        asked=rf"""{code(MOMENT)}

Randomized response tells a bit, 1 under $D$ and 0 under $D'$: the truth with probability
$e^\varepsilon/(1 + e^\varepsilon)$, else the opposite. Write `alpha(lam, *, epsilon)`: its log-moment, exactly.""",
        takes="lam, *, epsilon",
        right=f"{truth}return {right}",
        inputs=inputs,
        cases={
            "is 0 at epsilon = 0": "abs(f(2.0, epsilon=0.0)) < 1e-12",
            "is at most lambda times epsilon": "f(3.0, epsilon=0.5) <= 1.5 + 1e-12",
        },
        mistakes={
            ORDER: f"{truth}return {right} / lam",
            "the expectation is taken under D', where the truth is the other bit.": f"{truth}return "
            "math.log((1 - truth) * math.exp(lam * epsilon) + truth * math.exp(-lam * epsilon))",
            "this is the largest loss, times lambda.": "lam * epsilon",
            "the mean stands inside the exponential; this is lambda times the mean loss.": "lam * epsilon * "
            "math.tanh(epsilon / 2)",
        },
        hint="There are two outcomes: each has a loss and a probability.",
    )


def laplace_moment(rng: np.random.Generator) -> Graded:
    inputs = [
        {"lam": lam, "scale": round(float(b), 2)}
        for lam, b in zip(drawn_orders(rng), rng.uniform(0.5, 4.0, size=5), strict=True)
    ]
    return function(
        "alpha",
        title="The log-moment of Laplace noise",
        asked=rf"""{code(MOMENT)}

A number that is 1 under $D$ and 0 under $D'$ is released with Laplace noise of scale $b$ (density
$e^{{-|x|/b}}/(2b)$). Write `alpha(lam, *, scale)`: its log-moment, exactly. Split the integral where the loss bends, at 0 and
at 1.""",
        takes="lam, *, scale",
        right="""
            ahead = ({lam} + 1) / (2 * {lam} + 1) * math.exp({lam} / scale)
            behind = {lam} / (2 * {lam} + 1) * math.exp(-({lam} + 1) / scale)
            return math.log(ahead + behind){end}
        """,
        parts={"lam": "lam", "end": ""},
        inputs=inputs,
        cases={
            "is above 0": "f(2.0, scale=1.0) > 0",
            "is at most lambda over the scale": "f(2.0, scale=1.5) <= 2 / 1.5",
        },
        mistakes={
            ORDER: {"end": " / lam"},
            "the expectation is taken under D', which makes it the moment of lambda - 1.": {"lam": "(lam - 1)"},
            "this is the largest loss, times lambda.": "lam / scale",
            "this has the form of Gaussian noise of this scale.": "lam * (lam + 1) / (2 * scale**2)",
        },
        hint="Below 0 and above 1 the loss is constant; between them it rises.",
        points=3,
    )


def gaussian_moment(rng: np.random.Generator) -> Graded:
    inputs = [
        {"lam": lam, "sensitivity": float(s), "deviation": round(float(d), 1)}
        for lam, s, d in zip(
            drawn_orders(rng), rng.choice([0.5, 2.0, 3.0, 5.0], size=5), rng.uniform(2.0, 20.0, size=5), strict=True
        )
    ]
    square = "sensitivity**2 / (2 * deviation**2)"
    return function(
        "alpha",
        title="The log-moment of Gaussian noise",
        asked=rf"""{code(MOMENT)}

A vector that differs between $D$ and $D'$ by a Euclidean length $s$ is released with independent Gaussian noise of standard
deviation $\tau$ in each coordinate. Write `alpha(lam, *, sensitivity, deviation)`, with $s$ and $\tau$: its log-moment,
exactly.""",
        takes="lam, *, sensitivity, deviation",
        right=f"lam * (lam + 1) * {square}",
        inputs=inputs,
        cases={
            "is above 0": "f(2.0, sensitivity=1.0, deviation=3.0) > 0",
            "depends on the ratio of both alone": "abs(f(2.0, sensitivity=1.0, deviation=3.0) / f(2.0, sensitivity=2.0, "
            "deviation=6.0) - 1) < 1e-9",
        },
        mistakes={
            ORDER: f"(lam + 1) * {square}",
            "the mean of the loss is missing: under D it is half of its variance.": f"lam**2 * {square}",
            "this is for order lambda; the order is lambda + 1.": f"lam * (lam - 1) * {square}",
            "sensitivity and deviation enter as squares.": "lam * (lam + 1) * sensitivity / (2 * deviation)",
        },
        hint="The loss is Gaussian, too: find its mean and its variance under D.",
    )


def phases(rng: np.random.Generator) -> Graded:
    def phase() -> tuple[float, float, int]:
        q, sigma = float(rng.choice([0.005, 0.01, 0.02])), float(rng.choice([0.9, 1.2, 2.0, 3.0]))
        return q, sigma, int(rng.integers(2, 30)) * 50

    inputs = [
        {"phases": [phase() for _ in range(count)], "delta": float(d)}
        for count, d in zip((2, 3, 2), rng.choice([1e-5, 1e-6, 1e-7], size=3), strict=True)
    ]
    tail = bool(rng.random() < 0.5)
    conversion = "(total - math.log(delta)) / lam"
    if not tail:
        conversion = "total / lam + math.log(1 - 1 / (lam + 1)) - (math.log(delta) + math.log(lam + 1)) / lam"
    formula = r"$\varepsilon = (\alpha + \log(1/\delta))/\lambda$" if tail else (
        r"$\varepsilon = D + \log(1 - 1/a) - (\log\delta + \log a)/(a - 1)$ for the Rényi divergence $D = \alpha/\lambda$ of "
        r"order $a = \lambda + 1$"
    )  # fmt: skip
    apart = """
        result = 0.0
        for q, sigma, steps in phases:
            found = []
            for lam in range(1, 41):
                total = steps * moments.log_moment(float(lam), q=q, sigma=sigma)
                found.append({conversion})
            result += min(found)
        return result
    """
    example = "f([(0.01, 2.0, 100), (0.01, 2.0, 100)], delta=1e-5) - f([(0.01, 2.0, 200)], delta=1e-5)"
    return function(
        "phased_epsilon",
        title="Training in phases",
        asked=rf"""
            DP-SGD is trained in several phases on the same records, with Poisson samples; neighbours are add/remove. Phase
            $i$ has its own sampling probability $q_i$, noise multiplier $\sigma_i$ and number of steps.

            Write `phased_epsilon(phases, *, delta)`. `phases` is a list of tuples `(q, sigma, steps)`. It returns the smallest
            $\varepsilon$ that {formula} gives for the whole training, over $\lambda = 1, 2, \dots, 40$, with the log-moment
            $\alpha$ of all phases together. `moments.log_moment(float(lam), q=q, sigma=sigma)` is that of one step.
        """,
        takes="phases, *, delta",
        right="""
            found = []
            for lam in range(1, 41):
                total = sum({steps}moments.log_moment(float(lam), q=q, sigma=sigma) for q, sigma, steps in phases)
                found.append({conversion})
            return min(found)
        """,
        parts={"steps": "steps * ", "conversion": conversion},
        inputs=inputs,
        cases={
            "is the same for one phase and for its two halves": f"abs({example}) < 1e-9",
        },
        mistakes={
            "each phase has paid for delta here; add the log-moments, not the epsilons.": apart,
            "the best order must be the same for all phases: take the minimum of the sum.": apart.replace(
                "{conversion}", conversion.replace("math.log(delta)", "math.log(delta) / len(phases)")
            ),
            "a phase costs its log-moment once for each of its steps.": {"steps": ""},
            "lambda and the order lambda + 1 are mixed up in the division.": {
                "conversion": conversion.replace("/ lam", "/ (lam + 1)")
            },
        },
        hint="At a fixed lambda the log-moments add up; then comes delta, then the minimum.",
        points=3,
    )


def steps_within(rng: np.random.Generator) -> Graded:
    q, sigma = float(rng.choice([0.005, 0.01, 0.02])), float(rng.choice([1.0, 1.3, 1.6, 2.0]))
    delta = float(rng.choice([1e-5, 1e-6]))
    about = int(rng.integers(300, 4000))
    total = round(moments.epsilon(q=q, sigma=sigma, steps=about, delta=delta, max_lam=64).epsilon + 0.05, 1)
    one = f"q={q}, sigma={sigma}"
    bound = f"(lam * {total} + math.log({delta})) / moments.log_moment(float(lam), {one})"
    return number(
        "steps",
        title="How many steps are within the budget?",
        asked=rf"""
            DP-SGD with Poisson samples, $q = {q:g}$ and $\sigma = {sigma:g}$; neighbours are add/remove. The tail bound says that
            $T$ steps are $(\varepsilon, \delta)$-DP for $\varepsilon = (T\alpha(\lambda) + \log(1/\delta))/\lambda$, for every
            $\lambda$.

            Set `steps` to the largest $T$ for which some $\lambda$ of $1, 2, \dots, 64$ gives at most $\varepsilon = {total:g}$
            at $\delta = {tex(delta)}$. `moments.log_moment(float(lam), q=..., sigma=...)` is $\alpha$.
        """,
        right=f"max(math.floor({bound}) for lam in range(1, 65))",
        mistakes={
            "with so many the budget is just exceeded.": f"max(math.floor({bound}) for lam in range(1, 65)) + 1",
            "a step does not cost the epsilon of one step: log(1/delta) is paid once, not for each step.": "math.floor("
            f"{total} / moments.epsilon({one}, steps=1, delta={delta}, max_lam=64).epsilon)",
            "the part of delta is missing.": f"max(math.floor(lam * {total} / moments.log_moment(float(lam), {one})) for lam in "
            "range(1, 65))",
            "the smallest lambda is rarely the best: try all.": f"max(0, math.floor((1 * {total} + math.log({delta})) / "
            f"moments.log_moment(1.0, {one})))",
        },
        rel=0.0,
    )


def noise_for(rng: np.random.Generator) -> Graded:
    q, steps = float(rng.choice([0.005, 0.01, 0.02])), int(rng.integers(5, 60)) * 100
    delta = float(rng.choice([1e-5, 1e-6]))
    about = float(rng.uniform(0.9, 2.5))
    total = round(moments.epsilon(q=q, sigma=about, steps=steps, delta=delta, max_lam=64).epsilon, 1)
    search = f"""
        def searched(epsilon):
            low, high = 0.3, 1000.0
            for _ in range(60):
                middle = (low + high) / 2
                low, high = (middle, high) if epsilon(middle) > {total} else (low, middle)
            return high


    """
    here = f"searched(lambda s: moments.epsilon(q={q}, sigma=s, steps={steps}, delta={delta}, max_lam=64).epsilon)"
    return number(
        "sigma",
        title="How much noise does the budget ask for?",
        asked=rf"""
            DP-SGD with Poisson samples, $q = {q:g}$, and {steps} steps; neighbours are add/remove. The tail bound says that it is
            $(\varepsilon, \delta)$-DP for $\varepsilon = ({steps}\,\alpha(\lambda) + \log(1/\delta))/\lambda$, for every
            $\lambda$. The function `moments.epsilon(q=..., sigma=..., steps=..., delta=..., max_lam=64).epsilon` takes the best
            of $\lambda = 1, \dots, 64$.

            Set `sigma` to the smallest noise multiplier for which this $\varepsilon$ is at most ${total:g}$ at
            $\delta = {tex(delta)}$, to at least four digits.
        """,
        setup=search,
        right=here,
        mistakes={
            "this is the noise of steps that use all records; a secret sample allows less.": f"math.sqrt({steps}) * "
            f"mechanisms.gaussian_sigma(epsilon={total}, delta={delta})",
            "this is for a single step.": here.replace(f"steps={steps}", "steps=1"),
            "this is from the sharper conversion; asked is the tail bound.": f"searched(lambda s: rdp.epsilon(q={q}, sigma=s, "
            f"steps={steps}, delta={delta}).epsilon)",
            "q times the noise without sampling is a rule of thumb, not this bound.": f"{q} * math.sqrt({steps}) * "
            f"mechanisms.gaussian_sigma(epsilon={total}, delta={delta})",
        },
    )


def update(rng: np.random.Generator) -> Graded:
    clip, sigma = float(rng.choice([0.5, 2.0, 3.0])), float(rng.choice([0.6, 0.8, 1.2]))
    rate, batch = float(rng.choice([0.1, 0.2, 0.5])), int(rng.integers(3, 9))
    theta = round(float(rng.uniform(-2, 2)), 1)
    gradients = (clip * rng.uniform(-0.9, 0.9, size=4)).round(2)
    more = np.append(gradients, clip * 40)
    long = (clip * rng.uniform([0.5, 2.0, 6.0], [0.9, 5.0, 9.0])).round(2)
    common = {"theta": theta, "learning_rate": rate, "q": 0.5, "clip": clip, "sigma": sigma, "batch": batch}
    other = common | {"q": 0.7, "sigma": 0.5, "learning_rate": 2 * rate, "batch": batch + 2}

    return mechanism(
        "updated",
        title="One step of DP-SGD, learning rate included",
        asked=r"""
            A model has a single parameter $\theta$. Write `updated(gradients, *, theta, learning_rate, q, clip, sigma, batch,
            rng)`: the new $\theta$ after one step of DP-SGD. `gradients` is a NumPy array of numbers, one for each record.

            Take a Poisson sample with probability `q`, clip each sampled gradient to $[-\text{clip}, \text{clip}]$, add them up,
            add Gaussian noise with noise multiplier `sigma` (standard deviation over what one record more can move the sum),
            divide by the public number `batch`, and take a step against this gradient, of `learning_rate` times its size. Take
            all randomness from `rng`.
        """,
        takes="gradients, *, theta, learning_rate, q, clip, sigma, batch",
        right="""
            sample = gradients[rng.random(len(gradients)) < q]
            size = max(1, len(sample))
            return theta - learning_rate * {sum} / {divisor} + rng.normal(scale={deviation})
        """,
        law="""
            from itertools import product

            coins = np.array(list(product([0, 1], repeat=len(gradients))))
            chances = np.prod(np.where(coins == 1, q, 1 - q), axis=1)
            parts = []
            for drawn in coins:
                sample = np.asarray(gradients)[drawn == 1]
                size = max(1, len(sample))
                parts.append(laws.normal(theta - learning_rate * {sum} / {divisor}, noise * {deviation}))
            return laws.mixture(chances, parts)
        """,
        parts={
            "sum": "np.clip(sample, -clip, clip).sum()",
            "deviation": "learning_rate * sigma * clip / {divisor}",
            "divisor": "batch",
        },
        called={"gradients": np.array([1.0, 2.0, 0.5])} | common,
        settings=[
            {"gradients": gradients} | common,
            {"gradients": more} | common,
            {"gradients": long} | other,
        ],
        neighbours=[],
        mistakes={
            "the noise must go through the learning rate and the divisor like the gradients.": {
                "deviation": "sigma * clip"
            },
            "sigma counts in units of the clip norm.": {"deviation": "learning_rate * sigma / batch"},
            "the sum is clipped as a whole; each record must be clipped by itself.": {
                "sum": "np.clip(sample.sum(), -clip, clip)"
            },
            "the divisor must be the public number, not the size of the sample.": {"divisor": "size"},
        },
    )


def fixed_size_step(rng: np.random.Generator) -> Graded:
    clip, sigma, m = float(rng.choice([1.5, 2.0, 3.0])), float(rng.choice([0.5, 0.7, 0.9])), int(rng.integers(2, 4))
    gradients = (clip * rng.uniform([-0.9] * 3 + [0.5] * 2, [-0.5] * 3 + [0.9] * 2)).round(2)
    changed = np.append(gradients[:4], clip * 30)
    other = (clip * rng.uniform(0.6, 4.0, size=6)).round(2)

    return mechanism(
        "noisy_sum",
        title="One step with a batch of fixed size",
        asked=r"""
            A model has a single parameter; `gradients` is a NumPy array of numbers, one for each record. Batches have a fixed
            size, and two datasets are neighbours if they differ in one record (replace-one).

            Write `noisy_sum(gradients, *, m, clip, sigma, rng)`: draw `m` of the records without replacement, clip each of their
            gradients to $[-\text{clip}, \text{clip}]$, add them up, and return the sum plus Gaussian noise with noise multiplier
            `sigma`. The multiplier is the standard deviation over the most that the sum can move between two batches that differ
            in one replaced record. Take all randomness from `rng`.
        """,
        takes="gradients, *, m, clip, sigma",
        right="""
            part = {sample}
            return {center} + rng.normal(scale={deviation})
        """,
        law="""
            from itertools import combinations

            parts = [np.array(part) for part in combinations(gradients, m)]
            noisy = [laws.normal({center}, noise * {deviation}) for part in parts]
            return laws.mixture(np.full(len(parts), 1 / len(parts)), noisy)
        """,
        parts={
            "sample": "rng.choice(gradients, size=m, replace=False)",
            "center": "np.clip(part, -clip, clip).sum()",
            "deviation": "2 * sigma * clip",
        },
        called={"gradients": np.array([1.0, 2.0, 0.5]), "m": 2, "clip": 1.0, "sigma": 1.0},
        settings=[
            {"gradients": gradients, "m": m, "clip": clip, "sigma": sigma},
            {"gradients": changed, "m": m, "clip": clip, "sigma": sigma},
            {"gradients": other, "m": 3, "clip": clip, "sigma": round(1.6 * sigma, 2)},
        ],
        neighbours=[],
        mistakes={
            "this is for a record added or removed; a replaced one can go from one end of the interval to the other.": {
                "deviation": "sigma * clip"
            },
            "sigma counts in units of what a record can move.": {"deviation": "sigma"},
            "the sum is clipped as a whole; each record must be clipped by itself.": {
                "center": "np.clip(part.sum(), -clip, clip)"
            },
        },
        unexplained={
            "a fixed batch": {"sample": "gradients[:m]"},
            "the mean": {"center": "np.clip(part, -clip, clip).mean()"},
        },
    )  # fmt: skip


def leading_term(rng: np.random.Generator) -> Graded:
    q, sigma = float(rng.choice([0.01, 0.02, 0.03])), float(rng.choice([1.5, 2.0, 2.5, 3.0]))
    lam = np.arange(1.0, 257.0)
    exact = np.array([moments.log_moment(x, q=q, sigma=sigma) for x in lam])
    first = int(lam[exact > 2 * q**2 * lam * (lam + 1) / sigma**2][0])
    return counterexample(
        "lam",
        title="Where does a rule of thumb end?",
        asked=rf"""
            A colleague estimates the log-moment of one step of DP-SGD (Poisson sampling, add/remove) by its leading term, with
            a factor of 2 to be safe: "$\alpha(\lambda) \le 2q^2\lambda(\lambda + 1)/\sigma^2$ for every whole $\lambda$."

            Refute it for $q = {q:g}$ and $\sigma = {sigma:g}$: set `lam` to a whole number from 1 to 256 for which the claim is
            false. `moments.log_moment(float(lam), q=..., sigma=...)` is $\alpha$.
        """,
        right=[f"{first + 8}"],
        formed="""
            return None if np.ndim(answer) == 0 and int(answer) == answer and 1 <= answer <= 256 else (
                "it must be a whole number from 1 to 256."
            )
        """,
        refutes=f"""
            lam = float(answer)
            if moments.log_moment(lam, q={q}, sigma={sigma}) <= 2 * {q}**2 * lam * (lam + 1) / {sigma}**2:
                return "the rule holds here. Draw both sides over lambda: one of them turns exponential."
            return None
        """,
        wrong={"lambda 1": ["1"], "just before the change": [f"{first - 1}"], "a small lambda": ["2"]},
    )


def short_grid(rng: np.random.Generator) -> Graded:
    least, delta = int(rng.choice([10, 20, 50, 100])), float(rng.choice([1e-5, 1e-6, 1e-7]))
    last = int(rng.choice([24, 32, 40]))
    return counterexample(
        "q",
        "sigma",
        "steps",
        title="How long must the list of lambdas be?",
        asked=rf"""
            An accountant for DP-SGD (Poisson sampling, add/remove) minimises $(T\alpha(\lambda) + \log(1/\delta))/\lambda$ over
            $\lambda = 1, \dots, {last}$. Its author claims: "Larger $\lambda$ make no difference. Up to {last} or up to 512, the
            result changes by less than a tenth."

            Refute it for $\delta = {tex(delta)}$: set `q`, `sigma` and `steps`, with $q$ from 0.0001 to 1, $\sigma$ from 0.5 to
            50 and $T$ from {least} to 100,000, such that the result with ${last}$ is more than 1.1 times that with 512.
            `moments.epsilon(q=..., sigma=..., steps=..., delta=..., max_lam=...).epsilon` computes both.
        """,
        right=["0.001", "20.0", f"{least}"],
        formed=f"""
            q, sigma, steps = answer
            inside = 1e-4 <= q <= 1 and 0.5 <= sigma <= 50 and {least} <= steps <= 100_000 and int(steps) == steps
            return None if inside else "one of the three numbers is outside its range."
        """,
        refutes=f"""
            q, sigma, steps = float(answer[0]), float(answer[1]), int(answer[2])
            short, long = (
                moments.epsilon(q=q, sigma=sigma, steps=steps, delta={delta}, max_lam=last).epsilon for last in ({last}, 512)
            )
            if short <= 1.1 * long:
                return "the short list is long enough here. When is the best lambda a large one: for little loss, or for much?"
            return None
        """,
        wrong={
            "much training, little noise": ["0.01", "1.0", "10_000"],
            "no sampling": ["1.0", "1.0", f"{least}"],
            "the usual training": ["0.02", "1.1", "5_000"],
        },
    )  # fmt: skip


def multiplier(rng: np.random.Generator) -> Graded:
    inputs = [
        {"deviation": float(s), "clip": float(c), "divisor": float(b), "learning_rate": float(r)}
        for s, c, b, r in zip(
            rng.choice([0.02, 0.05, 0.4, 1.5, 3.0], size=5), rng.choice([0.1, 0.5, 2.0, 4.0], size=5),
            rng.integers(20, 600, size=5), rng.choice([0.05, 0.2, 0.5, 2.0], size=5), strict=True,
        )
    ]  # fmt: skip
    places = {
        "to the sum of the clipped gradients, before it is divided": "deviation / clip",
        "to the mean of the clipped gradients, that is, after the sum has been divided by $B$ and before the learning rate":
        "deviation * divisor / clip",
        r"to the parameters, after the mean of the clipped gradients was multiplied by $\eta$ and subtracted": "deviation * "
        "divisor / (clip * learning_rate)",
    }  # fmt: skip
    asked = list(places)[rng.integers(3)]
    wrong = {
        "this is for noise on the sum, before anything else.": "deviation / clip",
        "this is for noise on the mean, before the learning rate.": "deviation * divisor / clip",
        "this is for noise on the parameters, after the learning rate.": "deviation * divisor / (clip * learning_rate)",
        "the noise counts in units of the clip norm.": places[asked]
        .replace("/ (clip * ", "/ (")
        .replace(" / clip", ""),
    }
    return function(
        "noise_multiplier",
        title="Which sigma does the accountant need?",
        asked=rf"""
            A program trains with gradients that are clipped to the norm $C$, a public divisor $B$ for the mean, and the learning
            rate $\eta$: without noise, $\theta \leftarrow \theta - \eta\,\frac1B \sum \text{{clip}}(g_i)$. It adds Gaussian noise
            of standard deviation $s$ in each coordinate {asked}.

            Write `noise_multiplier(*, deviation, clip, divisor, learning_rate)`, with $s$, $C$, $B$ and $\eta$: the $\sigma$ with
            which the accountant must be asked, for add/remove. Not every argument has to play a part.
        """,
        takes="*, deviation, clip, divisor, learning_rate",
        right=places[asked],
        inputs=inputs,
        cases={
            "is in proportion to the noise": "abs(f(deviation=2.0, clip=1.0, divisor=10.0, learning_rate=0.5) / "
            "f(deviation=1.0, clip=1.0, divisor=10.0, learning_rate=0.5) - 2) < 1e-9",
        },
        mistakes={text: answer for text, answer in wrong.items() if answer != places[asked]},
        hint="By how much can one record move what the noise is added to?",
    )


BANK = [
    ("Log-moments of the steps add up at each $\\lambda$, also when a step depends on earlier outputs.", True,
     "given any past, each step is one mechanism, and the bound holds for every past."),
    ("The best $\\lambda$ for 100 steps is the best for 10,000 steps as well.", False,
     "more steps make alpha count more and log(1/delta) less, so the best lambda falls."),
    ("$\\alpha(\\lambda)$ is $\\lambda$ times the Rényi divergence of order $\\lambda + 1$.", True,
     "this is the definition, and the off-by-one that programs get wrong."),
    ("If the best $\\lambda$ is the last of the grid, a longer grid may give a smaller $\\varepsilon$.", True,
     "a minimum at the end of a grid is the grid's, not the function's."),
    ("An $\\varepsilon$ for Poisson samples and add/remove may be quoted for a replaced record as well.", False,
     "for a replaced record the loss can be larger; the pair of distributions is another."),
    ("Dividing the noisy sum by a public constant before it is used costs nothing.", True, "it is post-processing."),
    ("If the data are shuffled once per epoch and cut into batches, the accountant for Poisson samples gives a valid "
     "$\\varepsilon$.", False, "it is not proved for these batches: each record is in exactly one batch of an epoch."),
    ("The $\\varepsilon$ of the moments accountant is the exact $\\varepsilon$ of the training.", False,
     "it is an upper bound; an accountant of the loss distribution finds less."),
    ("A noise multiplier of 1 with clip norm 5 means noise of standard deviation 5 on the sum.", True,
     "the multiplier is in units of what one record can move."),
    ("The tail bound holds for every $\\lambda$, so the smallest result over all $\\lambda$ may be quoted.", True,
     "the lambdas are chosen without the data, and each bound is true."),
    ("Publishing all noisy sums instead of the final model makes $\\varepsilon$ larger than the accountant says.", False,
     "the accountant already counts all noisy sums as seen."),
    ("Halving the learning rate halves $\\varepsilon$.", False, "the learning rate is applied after the noise; it costs nothing."),
]  # fmt: skip


def tail_proof() -> Argued:
    return Argued(
        name="tail-proof",
        question=code(r"""
            Prove it: from a log-moment to epsilon and delta

            $L$ is the privacy loss of $M$ for the neighbours $D$ and $D'$, with the output drawn under $D$, and
            $\log E[e^{\lambda L}] \le \alpha$ for one $\lambda > 0$. Let $\varepsilon > 0$ and
            $\delta = e^{\alpha - \lambda\varepsilon}$.

            Prove that $P[M(D) \in E] \le e^\varepsilon P[M(D') \in E] + \delta$ for every event $E$. You may take the outputs to be
            finitely many. Then say, in one sentence, why the same $\lambda$ need not be used for every $\varepsilon$.
        """),
        rubric=code("""
            - (1 point) Markov's inequality for e^(λL): P[L > ε] <= E[e^(λL)] e^(-λε) <= δ.
            - (1 point) It splits E into outputs with L <= ε and the others.
            - (1 point) On the first part P under D is at most e^ε times P under D', output by output; on the second it is at
              most P[L > ε]. Both are added.
            - (1 point) Each λ gives a true statement, and none of them depends on the data, so the best may be taken for each
              ε. No point for a proof that takes L <= ε with probability 1 - δ "to be" (ε, δ)-DP without the split.
        """),
        points=4,
        answer=code("""
            By Markov's inequality P[L > ε] = P[e^(λL) > e^(λε)] <= E[e^(λL)] e^(-λε) <= e^(α - λε) = δ. Let B be the outputs
            with loss above ε. For outputs outside B, P[M(D) = y] <= e^ε P[M(D') = y] by the definition of the loss; summed over
            E without B this is at most e^ε P[M(D') in E]. The rest, P[M(D) in E and B], is at most P[L > ε] <= δ. The sum is the
            claim. As this holds for every λ for which the moment is bounded, and λ is chosen without looking at data, one may
            take the best λ for each ε.
        """),
    )


def other_neighbours(rng: np.random.Generator) -> Argued:
    epsilon = float(rng.choice([0.6, 0.8, 1.2]))
    return Argued(
        name="other-neighbours",
        question=code(rf"""
            Argue: the same number for other neighbours

            A training with Poisson samples is $({epsilon:g}, 10^{{-5}})$-DP under add/remove, by the moments accountant. The
            authors write: "Hence no one can tell which of two values a participant has reported, up to
            $({epsilon:g}, 10^{{-5}})$." In other words, they quote the number for replace-one.

            (a) Why does that not follow? (b) Prove a pair $(\varepsilon', \delta')$ that does follow for replace-one, from the
            add/remove guarantee alone.
        """),
        rubric=code("""
            - (1 point) A replaced record is one removal and one addition: the two datasets are not neighbours under add/remove
              but two steps apart. (Or: the gradients may point to opposite ends, so the means differ by 2C, not C.)
            - (1 point) It takes the dataset without the record as the one in between.
            - (1 point) P <= e^ε P'' + δ <= e^ε (e^ε P' + δ) + δ, so ε' = 2ε.
            - (1 point) δ' = (1 + e^ε) δ, not δ and not 2δ. No point for "twice the sensitivity, so twice ε" alone: ε of the
              accountant is not in proportion to the sensitivity.
        """),
        points=4,
        answer=code(f"""
            (a) Under add/remove, neighbours differ by one record more or less. Replacing takes two such steps, and the
            guarantee speaks of one. (b) Let D'' be the dataset without the participant, a neighbour of both D and D'. For every
            event, P <= e^ε P'' + δ and P'' <= e^ε P' + δ, hence P <= e^(2ε) P' + (1 + e^ε) δ. So it is
            ({2 * epsilon:g}, {(1 + float(np.exp(epsilon))) * 1e-5:.3g})-DP under replace-one.
        """),
    )
