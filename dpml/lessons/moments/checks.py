r"""The checks of the exercises of chapter 04, The moments accountant.

The step of DP-SGD is Gaussian noise of multiplier sigma on a Poisson sample, add/remove.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dpml import mechanisms
from dpml.accounting import moments
from dpml.classroom import checks, laws
from dpml.classroom.calls import spoken
from dpml.classroom.checks import Mistake
from dpml.classroom.laws import Law

Q, SIGMA, DELTA = 0.01, 4.0, 1e-5  # the setting of the famous figure


def check_alpha_32(answer: Any) -> None:
    """The log-moment at lambda = 32 of one step at q = 0.01, sigma = 4."""
    right, less = (moments.log_moment(lam, q=Q, sigma=SIGMA) for lam in (32.0, 31.0))
    checks.number(
        answer,
        name="alpha_32",
        expected=right,
        mistakes=[
            Mistake(less, "this is the value at order 32, that is, at lambda = 31. The order is lambda + 1 = 33."),
            Mistake(
                moments.log_moment_e1(32.0, q=Q, sigma=SIGMA),
                "this is log E1, the record added. The log-moment is the larger of the two directions.",
            ),
            Mistake(right / 32, "this is the Rényi divergence of order 33. The log-moment is lambda times that."),
            Mistake(
                less / 31, "this is the Rényi divergence of order 32. Both the order and the factor lambda are off."
            ),
            Mistake(
                32 / 31 * less,
                "the factor lambda is right. But the order that goes with it is lambda + 1, and this is order 32.",
            ),
            Mistake(33 / 32 * right, "the order is right. The factor is lambda, and not the order."),
            Mistake(math.exp(right), "this is the moment E2. Its logarithm is asked."),
            Mistake(math.expm1(right), "this is E2 - 1, which is close to the logarithm but not equal to it."),
            Mistake(32 * 33 / (2 * SIGMA**2), "this is the value without sampling: q does not appear in it."),
            Mistake(
                Q**2 * 32 * 33 / ((1 - Q) * SIGMA**2),
                "this is the bound of Abadi et al. for small lambda, about twice the value here.",
            ),
            Mistake(
                Q**2 * 32 * 33 / 2 * math.expm1(1 / SIGMA**2),
                "this is the leading term for small q only: the term k = 2 of the sum.",
            ),
        ],
        hint="It is log E2 for q = 0.01, sigma = 4, lambda = 32, of one step.",
    )


def _alphas(last: int, *, q: float, sigma: float) -> list[float]:
    return [moments.log_moment(float(lam), q=q, sigma=sigma) for lam in range(1, last + 1)]


def check_moments_epsilon(answer: Any) -> None:
    """From the log-moments of one step to epsilon and the best lambda."""

    def best(values: Sequence[float], *, pick: Callable[..., Any] = min) -> tuple[float, int]:
        value, lam = pick((float(value), lam) for lam, value in enumerate(values, start=1))
        return value, int(lam)

    def made(form: Callable[[float, int, int, float], float], *, pick: Callable[..., Any] = min) -> Callable[..., Any]:
        def wrong(log_moments: Sequence[float], *, steps: int, delta: float) -> tuple[float, int]:
            return best([form(a, lam, steps, delta) for lam, a in enumerate(log_moments, start=1)], pick=pick)

        return wrong

    reference = made(lambda a, lam, steps, delta: (steps * a - math.log(delta)) / lam)

    def with_lambda(off: int) -> Callable[..., tuple[float, int]]:
        def wrong(log_moments: Sequence[float], **given: Any) -> tuple[float, int]:
            value, lam = reference(log_moments, **given)
            return value, lam + off

        return wrong

    slide = _alphas(32, q=Q, sigma=SIGMA)
    checks.function(
        answer,
        name="moments_epsilon",
        reference=reference,
        inputs=checks.settings(
            "log_moments steps delta",
            ([0.5, 2.0, 9.0], 1, math.exp(-2)),
            ([0.1, 0.3, 0.6, 1.0], 3, 1e-3),
            (slide, 10_000, DELTA),
            (slide, 1_000, 1e-6),
            (_alphas(16, q=0.01, sigma=1.0), 1_000, DELTA),
        ),
        mistakes=[
            Mistake(
                made(lambda a, lam, steps, delta: (steps * a - math.log(delta)) / (lam + 1)),
                "you divide by lambda + 1, the order. The tail bound has e^(-lambda epsilon): divide by lambda.",
            ),
            Mistake(
                made(lambda a, lam, steps, delta: (a - math.log(delta)) / lam),
                "the steps are missing: the log-moments of all steps add up.",
            ),
            Mistake(
                made(lambda a, lam, steps, delta: steps * (a - math.log(delta)) / lam),
                "delta is spent once, after all steps, and not in each of them.",
            ),
            Mistake(
                made(lambda a, lam, steps, delta: (steps * a + math.log(delta)) / lam),
                "the sign of log(delta) is wrong: a smaller delta must give a larger epsilon.",
            ),
            Mistake(
                made(lambda a, lam, steps, delta: steps * a - math.log(delta) / lam),
                "the log-moment must be divided by lambda as well.",
            ),
            Mistake(
                made(lambda a, lam, steps, delta: (steps * a - math.log10(delta)) / lam),
                "the logarithm is the natural one.",
            ),
            Mistake(
                made(lambda a, lam, steps, delta: (math.sqrt(steps) * a - math.log(delta)) / lam),
                "log-moments add up over the steps; the root of T comes out by itself when lambda is chosen.",
            ),
            Mistake(
                made(lambda a, lam, steps, delta: (steps * a - math.log(delta)) / lam, pick=max),
                "each lambda proves its epsilon, so the smallest one holds, and you take the largest.",
            ),
            Mistake(
                with_lambda(-1),
                "epsilon is right, but lambda is counted from zero: the first log-moment belongs to lambda = 1.",
            ),
            Mistake(with_lambda(1), "epsilon is right, but the second value is the order lambda + 1; lambda is asked."),
        ],
        hint="It returns the pair (epsilon, lambda). Solve delta = e^(steps alpha - lambda epsilon) for epsilon.",
    )


def check_epsilon_as_printed(answer: Any) -> None:
    """Epsilon of one full-batch step whose noise is added outside the learning rate: sigma = 4, eta = 10, C = 1."""

    def exact(multiplier: float) -> float:
        return mechanisms.gaussian_epsilon(sigma=multiplier, delta=DELTA)

    checks.number(
        answer,
        name="epsilon_as_printed",
        expected=exact(0.4),
        rel=1e-5,
        mistakes=[
            Mistake(
                exact(4.0),
                "this takes sigma = 4 for the noise multiplier. But the noise is not multiplied by the learning rate, "
                "and the gradient is: by how much can one record move theta?",
            ),
            Mistake(
                exact(40.0),
                "the learning rate enters in the wrong direction: a larger one lets a record move theta further.",
            ),
            Mistake(exact(0.04), "the learning rate is divided out twice."),
            Mistake(
                math.sqrt(2 * math.log(1.25 / DELTA)) / 0.4,
                "the noise multiplier is right, but the classic formula is proved for epsilon below one only. "
                "Use the exact one.",
            ),
            Mistake(
                moments.epsilon(q=1.0, sigma=0.4, steps=1, delta=DELTA).epsilon,
                "the noise multiplier is right. The moments give an upper bound; for one Gaussian step the exact "
                "value is known.",
            ),
        ],
        hint="Divide the standard deviation of the noise by the most that one record can move theta.",
    )


def check_stable_log_moment(answer: Any) -> None:
    """A log-moment for whole lambda that neither overflows nor cancels."""
    name = "stable_log_moment"

    def reference(lam: int, *, q: float, sigma: float) -> float:
        return moments.log_moment(float(lam), q=q, sigma=sigma)

    def terms(lam: int, *, q: float, sigma: float, shift: int = 1, power: int = 1) -> float:
        k = np.arange(0, lam + shift + 1, dtype=float)
        order = lam + shift
        logs = [
            math.lgamma(order + 1)
            - math.lgamma(i + 1)
            - math.lgamma(order - i + 1)
            + (order - i) * math.log1p(-q)
            + i * math.log(q)
            + (i * i - power * i) / (2 * sigma**2)
            for i in k
        ]
        top = max(logs)
        return top + math.log(math.fsum(math.exp(v - top) for v in logs))

    def on_paper(lam: int, *, q: float, sigma: float) -> float:
        order = lam + 1
        weights = [math.comb(order, k) * (1 - q) ** (order - k) * q**k for k in range(order + 1)]
        return math.log(sum(w * math.exp((k * k - k) / (2 * sigma**2)) for k, w in enumerate(weights)))

    beyond = (
        "the largest terms are beyond the range of floats, but their logarithms are ordinary numbers: add the terms "
        "relative to the largest one."
    )
    wide = [
        Mistake(on_paper, beyond),
        Mistake(
            lambda lam, *, q, sigma: terms(lam, q=q, sigma=sigma, shift=0),
            "the sum runs to lambda. This is the value for lambda - 1: the order is lambda + 1.",
        ),
        Mistake(
            lambda lam, *, q, sigma: terms(lam, q=q, sigma=sigma) / lam,
            "this is the Rényi divergence, the log-moment divided by lambda.",
        ),
        Mistake(
            lambda lam, *, q, sigma: terms(lam, q=q, sigma=sigma, power=0),
            "the exponent is (k^2 - k) / (2 sigma^2): a k is missing.",
        ),
        Mistake(
            lambda lam, *, q, sigma: moments.log_moment_e1(float(lam), q=q, sigma=sigma),
            "this is log E1, the other direction.",
        ),
    ]
    checks.together(
        lambda: checks.function(
            answer,
            name=name,
            reference=reference,
            inputs=checks.settings(
                "lam q sigma", (1, 0.01, 4.0), (5, 0.1, 2.0), (32, 0.01, 4.0), (31, 0.01, 0.3), (256, 0.01, 4.0)
            ),
            mistakes=wide,
            hint=f"If the result is infinite: {beyond}",
        ),
        lambda: checks.function(
            answer,
            name=f"{name} at tiny q",
            reference=reference,
            inputs=checks.settings(
                "lam q sigma", (1, 1e-6, 4.0), (2, 1e-6, 1.0), (1, 1e-8, 1.0), (8, 1e-7, 2.0), (256, 0.01, 4.0)
            ),
            hint="There E2 is 1 plus less than its rounding error. Subtract 1, the sum of the weights, term by term, "
            "before you add.",
            rel=1e-7,
            abs=0.0,
        ),
    )


def check_accountant(answer: Any) -> None:
    """The accountant, repaired: nothing released costs nothing, and the grid extends itself."""
    usual: dict[str, Any] = {"q": Q, "sigma": SIGMA, "steps": 10_000, "delta": DELTA}
    others = checks.settings("q sigma steps delta", (0.02, 2.0, 3000, 1e-6), (0.1, 1.5, 20, 0.002))

    def run(f: Callable[..., Any], **changed: Any) -> float:
        return float(f(**{**usual, **changed}))

    def best(*rows: dict[str, Any]) -> Callable[..., bool | str]:
        """Whether it is the least over all whole lambda in these settings."""

        def predicate(f: Callable[..., Any]) -> bool | str:
            for row in rows:
                given = usual | row
                came, want = run(f, **row), moments.epsilon(**given, max_lam=256)
                edge, where = moments.epsilon(**given).epsilon, f"for {spoken(given)}"
                if math.isclose(came, want.epsilon, rel_tol=1e-6):
                    continue
                if math.isclose(came, edge, rel_tol=1e-6):
                    return f"{where} it returned {came:.4g}, from the edge lambda = 32 of the grid."
                if math.isclose(came, want.epsilon * 19 / 20, rel_tol=1e-6):
                    return f"{where} it divides by lambda + 1, the order, and not by lambda."
                less = "less than the log-moments prove" if came < want.epsilon else "some whole lambda does better"
                return f"{where} it returned {came:.6g}; {less}."
            return True

        return predicate

    def nothing(f: Callable[..., Any]) -> bool | str:
        for what, changed in (("steps = 0", {"steps": 0}), ("q = 0", {"q": 0.0})):
            came = run(f, **changed)
            if came != 0:
                return f"at {what} it returned {came:.4g}. What does the output depend on then?"
        return True

    def refuses(f: Callable[..., Any]) -> bool | str:
        for argument, value in (("delta", 1.5), ("delta", 1.0), ("delta", 0.0), ("delta", -0.1), ("steps", -1)):
            try:
                came = run(f, **{argument: value})
            except ValueError:
                continue
            return f"for {argument} = {value} it returned {came:.4g}. That is no epsilon: raise ValueError."
        return True

    checks.properties(
        answer,
        name="accountant",
        cases=[
            ("for many steps it is the best that the tail bound proves", best({}, {"steps": 40_000}, *others)),
            ("it is 0 if the output does not depend on the data", nothing),
            ("where the best lambda is the last of the grid, it tries larger ones", best({"steps": 1}, {"steps": 100})),
            ("it refuses a delta outside (0, 1) and a negative number of steps with ValueError", refuses),
        ],
    )


def check_factor(answer: Any) -> None:
    """The smallest c with (1 - e^-t)_+ <= c e^(lambda t) for all t."""
    lams = [0.5, 1.0, 2.0, 19.0, 400.0]

    def right(lam: float) -> float:
        return math.exp(lam * math.log(lam / (lam + 1)) - math.log(lam + 1))

    def value(f: Callable[..., Any], lam: float) -> float:
        return float(f(lam))

    def holds(f: Callable[..., Any]) -> bool | str:
        for lam in lams:
            try:
                c = value(f, lam)
            except OverflowError:
                c = math.inf
            if not math.isfinite(c):
                return f"at lambda = {lam:g} it is beyond the range of floats: divide first, then take the power."
            t = np.linspace(0.0, 20.0 / lam, 4001)[1:]
            gap = -np.expm1(-t) - c * np.exp(lam * t)
            if gap.max() > 1e-9 * right(lam):
                where = float(t[gap.argmax()])
                return f"at lambda = {lam:g}, t = {where:.3g} the left side is larger. Look for the t where it fails."
        return True

    def smallest(f: Callable[..., Any]) -> bool | str:
        for lam in lams:
            c = value(f, lam)
            if c > right(lam) * (1 + 1e-6):
                known = {
                    1.0: "that is Markov's inequality for an indicator; (1 - e^-t)_+ is smaller than an indicator.",
                    1 / (lam + 1): "a factor is missing: put the best t into both 1 - e^-t and e^(-lambda t).",
                    (lam / (lam + 1)) ** lam: "a factor is missing: put the best t also into 1 - e^-t.",
                    right(lam - 1) if lam > 1 else -1.0: "this is the value for lambda - 1: is lambda the order here?",
                }
                for wrong, text in known.items():
                    if math.isclose(c, wrong, rel_tol=1e-9):
                        return f"at lambda = {lam:g} a smaller c would do; {text}"
                return f"at lambda = {lam:g} a smaller c would do. Where is (1 - e^-t) e^(-lambda t) largest?"
        return True

    checks.properties(
        answer,
        name="factor",
        cases=[("(1 - e^-t)_+ <= c e^(lambda t) for every t", holds), ("no smaller c does it", smallest)],
    )


_QUOTABLE = {
    "a": (True, "this is what the number is for: independent coins, one record more or less, noise on the sum."),
    "b": (False, "one replaced record moves the sum by two clipping norms; a real pair of datasets needs 2.16."),
    "c": (
        False,
        "with the clipped gradient +C in D, -C in D' and 0 for all others ε is 1.99, however the batch is drawn.",
    ),
    "d": (False, "the batches of an epoch depend on each other; no amplification by Poisson sampling applies."),
    "e": (False, "the size of a Poisson batch tells something about the record, and it is not in the analysis."),
    "f": (True, "the model is computed from the noisy sums alone: post-processing."),
    "g": (True, "dividing the noisy sum by a constant is post-processing."),
    "h": (False, "the noise multiplier is the standard deviation over the clipping norm. Here it is 2, not 4."),
}


def check_quotable(answer: Any) -> None:
    """In which settings the add/remove number may be quoted: a dictionary from letter to True or False."""
    checks.statements(answer, name="quotable", expected=_QUOTABLE)


def check_private_step(answer: Any) -> None:
    """One step of DP-SGD on gradients of dimension one: Poisson sample, clip each, add up, add noise."""

    def sums(values: Sequence[complex], q: float) -> dict[Any, float]:
        """Each sum of a Poisson sample of these values, with its probability."""
        table: dict[Any, float] = {0.0: 1.0}
        for value in values:
            moved: dict[Any, float] = {}
            for total, p in table.items():
                for there, share in ((total, 1 - q), (total + value, q)):
                    moved[there] = moved.get(there, 0.0) + p * share
            table = {total: p for total, p in moved.items() if p > 0}
        return table

    def fixed_size(values: Sequence[float], q: float) -> dict[float, float]:
        samples = list(itertools.combinations(values, round(q * len(values))))
        return {total: n / len(samples) for total, n in Counter(map(sum, samples)).items()}

    def step(
        *, clipped: Any = np.clip, draw: Any = sums, deviation: Any = lambda s, c, q, n: s * c, after: Any = None
    ) -> Any:
        def law(gradients: Any, *, q: float, clip: float, sigma: float, noise: float = 1.0) -> Law:
            values = np.asarray(clipped(gradients, -clip, clip), dtype=float).tolist()
            table = draw(values, q)
            centers = [float(total if after is None else after(total, clip, q, len(values))) for total in table]
            width = noise * deviation(sigma, clip, q, len(values))
            return laws.mixture(list(table.values()), [laws.normal(center, width) for center in centers])

        return law

    def unclipped(gradients: Any, low: float, high: float) -> Any:
        return gradients

    def bare(gradients: Any, *, q: float, clip: float, **_: float) -> Law:
        return laws.discrete(sums(np.clip(gradients, -clip, clip).tolist(), q))

    def by_size(times: Callable[[int], float]) -> Any:
        """Noise that depends on the number of records in the sample, which the imaginary parts count."""

        def law(gradients: Any, *, q: float, clip: float, sigma: float, noise: float = 1.0) -> Law:
            table = sums((np.clip(gradients, -clip, clip) + 1j).tolist(), q)
            widths = [noise * sigma * clip * times(round(total.imag)) for total in table]
            parts = zip(table, widths, strict=True)
            return laws.mixture(
                list(table.values()), [laws.normal(total.real, w) if w else laws.certain(0.0) for total, w in parts]
            )

        return law

    checks.law(
        answer,
        name="private_step",
        law=step(),
        settings=checks.settings(
            "gradients q clip sigma",
            (np.array([90.0, 0.0, 0.0, 0.0, 0.0]), 0.1, 20.0, 0.7),
            (np.array([0.0, 0.0, 0.0, -90.0]), 0.3, 20.0, 0.7),
            (np.array([-90.0, 5.0, 30.0, 2.5]), 0.5, 10.0, 0.5),
            (np.full(12, 60.0), 0.25, 20.0, 0.8),
            (np.full(8, 0.5), 0.5, 2.0, 0.3),
        ),
        runs=4000,
        wrong=[
            Mistake(bare, "the sum is released without noise. Sampling alone hides no one."),
            Mistake(
                step(clipped=unclipped), "the gradients are not clipped: one record may move the sum by any amount."
            ),
            Mistake(
                step(clipped=lambda gradients, low, high: high * np.sign(gradients)),
                "a gradient below the clipping norm stays as it is: it must not be scaled up to the norm.",
            ),
            Mistake(
                step(clipped=unclipped, after=lambda total, clip, q, n: np.clip(total, -clip, clip)),
                "the sum is clipped. Clip each gradient by itself, then add up.",
            ),
            Mistake(
                step(clipped=lambda gradients, low, high: np.minimum(gradients, high)),
                "gradients are clipped on one side only: those below -clip stay as they are.",
            ),
            Mistake(
                by_size(lambda n: n**0.5),
                "each record that was drawn gets noise of its own. One noise is added, to the sum, empty or not.",
            ),
            Mistake(
                by_size(lambda n: float(n > 0)), "an empty sample gets no noise, which shows that nobody was drawn."
            ),
            Mistake(
                step(after=lambda total, clip, q, n: total / (q * n), deviation=lambda s, c, q, n: s * c / (q * n)),
                "the noisy sum is divided. Return the sum.",
            ),
            Mistake(
                step(draw=fixed_size),
                "the sample has a fixed size. Each record needs its own coin, drawn anew in every run.",
            ),
            Mistake(
                step(draw=lambda values, q: sums(values, 1.0)),
                "all records are used, with noise that is enough for a random sample only.",
            ),
            Mistake(
                step(deviation=lambda s, c, q, n: s),
                "the noise has standard deviation sigma. The multiplier is relative to the clipping norm.",
            ),
            Mistake(
                step(deviation=lambda s, c, q, n: s * c * q),
                "the noise is multiplied by q. The gain by sampling is in the accounting, not in the noise.",
            ),
            Mistake(
                step(deviation=lambda s, c, q, n: math.sqrt(s * c)),
                "sigma times the clipping norm is the standard deviation, not the variance.",
            ),
            Mistake(
                step(deviation=lambda s, c, q, n: 2 * s * c),
                "the noise is for a replaced record, which moves the sum by 2 clip. Under add/remove it is clip.",
            ),
            Mistake(
                step(deviation=lambda s, c, q, n: s * c * math.sqrt(n)),
                "noise is added to every record. Add it once, to the sum.",
            ),
        ],
    )


def check_why(answer: Any) -> None:
    """Two or three sentences: why log-moments add up although step t depends on the outputs before it."""
    checks.argument(
        answer,
        name="why",
        rubric=[
            "The loss of the whole sequence is the sum of the losses of the steps, each given the outputs before it; "
            "so e^(lambda L) is a product.",
            "Given the outputs before it, step t is one mechanism on both datasets. The mean of its factor is at most "
            "e^(alpha_t), because alpha_t bounds it for every such past.",
            "Take the mean over the last step first, pull out its bound, and go on to the step before it. Independence "
            "of the steps is not needed.",
        ],
        question="Step 2 chooses its noise by the output of step 1: which line of your argument still holds?",
    )
