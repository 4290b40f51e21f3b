r"""The checks of the questions and exercises of chapter 11, private and robust SGD.

Neighbouring datasets differ by one example (add/remove). A test passes, and the weights of its step are

.. math::

    \max\bigl(0,\ F - \#\{i : \|g_i\| > \tau R\}\bigr) + \text{Lap}(b) > b\log\tfrac{1}{2\delta_0}, \qquad
    w_i = \min(1, R/\|g_i\|)\, [i \text{ kept}].
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml import data
from dpml.classroom import checks, laws
from dpml.classroom.calls import numbers
from dpml.classroom.checks import Mistake
from dpml.classroom.laws import Law
from dpml.classroom.verdict import NotYet, not_written, passed, shown
from dpml.lessons.dpsgd.checks import released
from dpml.lessons.ptr.checks import Sum, is_trimmed_sum, one_record_moves_little
from dpml.ptr import privacy, trimmed_sum
from dpml.ptr.propose_test_release import pass_probability, threshold

Array = NDArray[np.float64]


def check_least_trim(answer: Any) -> None:
    """The least F whose test passes with probability at least 1/2: found by trying all of them."""

    def reference(norms: Array, *, tau: float, bound: float, scale: float, delta0: float) -> int:
        for trim in range(len(norms) + 10_000):
            margin = trimmed_sum.safety_margin(norms, trim=trim, tau=tau * bound, bound=bound)
            if pass_probability(margin, scale=scale, delta0=delta0) >= 0.5:
                return trim
        raise AssertionError("the threshold is far below 10,000")

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield {"norms": np.array([0.2, 0.9, 3.0]), "tau": 0.5, "bound": 1.0, "scale": 1.0, "delta0": 1e-8}
        yield {"norms": np.array([]), "tau": 0.5, "bound": 2.0, "scale": 0.5, "delta0": 1e-4}
        yield {"norms": np.array([0.5, 0.25, 2.0, 0.5]), "tau": 0.5, "bound": 1.0, "scale": 1.0, "delta0": 1e-8}
        for _ in range(9):
            norms = rng.exponential(2.0, size=int(rng.integers(1, 60)))
            tau, bound, scale = (float(rng.choice(values)) for values in ([0.3, 0.8], [0.5, 4.0], [0.5, 1.0, 2.0]))
            yield {"norms": norms, "tau": tau, "bound": bound, "scale": scale, "delta0": 1e-6}

    def above(norms: Any, level: float) -> int:
        return int(np.sum(np.asarray(norms) > level))

    def rule(
        count: Callable[[Any, float, float], int] = lambda norms, tau, bound: above(norms, tau * bound),
        needed: Callable[[float, float], float] = lambda scale, delta0: threshold(scale=scale, delta0=delta0),
        whole: Callable[[float], float] = math.ceil,
    ) -> Callable[..., float]:
        return lambda norms, *, tau, bound, scale, delta0: count(norms, tau, bound) + whole(needed(scale, delta0))

    checks.function(
        answer,
        reference=reference,
        inputs=inputs,
        name="least_trim",
        mistakes=[
            Mistake(rule(whole=float), "F is a whole number: round up."),
            Mistake(
                rule(whole=lambda x: math.ceil(x) + 1),
                "it is one too large: at F one smaller the margin reaches the threshold already.",
            ),
            Mistake(
                rule(needed=lambda scale, delta0: threshold(scale=1.0, delta0=delta0)),
                "the threshold is b log(1/(2 delta0)), and the factor b (`scale`) is missing.",
            ),
            Mistake(
                rule(lambda norms, tau, bound: len(norms) - above(norms, tau * bound)),
                "it counts the short gradients. Those longer than tau times bound use up the places.",
            ),
            Mistake(
                rule(lambda norms, tau, bound: above(norms, tau)),
                "tau is in units of the bound: the norms are compared with tau times bound.",
            ),
            Mistake(
                rule(lambda norms, tau, bound: above(norms, bound)),
                "it counts the norms that are clipped. Those longer than tau times bound count.",
            ),
            Mistake(
                rule(needed=lambda scale, delta0: 0.0),
                "at this F the margin is 0, and the test passes with probability delta0 only.",
            ),
            Mistake(
                rule(lambda norms, tau, bound: int(np.sum(np.asarray(norms) >= tau * bound))),
                "it counts a norm of exactly tau times bound. Only longer ones use up a place.",
            ),
            Mistake(
                rule(lambda norms, tau, bound: 0),
                "it forgets the long gradients: each of them uses up one of the F places.",
            ),
            Mistake(
                rule(needed=lambda scale, delta0: scale * math.log(1 / delta0)),
                "the threshold is b log(1/(2 delta0)), with the 2.",
            ),
            Mistake(rule(whole=int), "it is one too small: the margin must reach the threshold, so round up."),
        ],
        hint="The median of the Laplace noise is 0, so the margin itself must reach b log(1/(2 delta0)).",
    )


def check_step_weights(answer: Any) -> None:
    """The weight of each gradient in one step of TSGD with propose-test-release."""

    def clip(norms: Array, bound: float) -> Array:
        return np.asarray(bound / np.maximum(norms, bound))

    def reference(norms: Array, *, ids: Any, trim: int, bound: float, passed: bool) -> Array:
        stays = trimmed_sum.kept(norms, trim=trim, ids=ids) if passed else np.ones(len(norms), dtype=bool)
        return clip(norms, bound) * stays

    def inputs(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        small = {"norms": np.array([4.0, 0.5, 2.0]), "ids": np.array([7, 3, 9]), "bound": 1.0}
        yield {**small, "trim": 1, "passed": True}
        yield {**small, "trim": 1, "passed": False}
        yield {**small, "trim": 5, "passed": True}
        yield {**small, "trim": 0, "passed": True}
        yield {"norms": np.array([2.0, 2.0]), "ids": np.array([8, 5]), "trim": 1, "bound": 1.0, "passed": True}
        for _ in range(8):
            m = int(rng.integers(1, 12))
            norms = rng.choice([0.3, 1.5, 1.5, 2.5, 6.0], size=m)
            ids = rng.permutation(50)[:m]
            yield {"norms": norms, "ids": ids, "trim": int(rng.integers(0, m + 1)), "bound": 2.0, "passed": True}

    Order = Callable[[Array, Any, float], tuple[Any, Any]]

    def weights(
        keys: Order = lambda norms, ids, bound: (ids, norms),  # the last key decides first
        of: Callable[[Array, float], Array] = clip,
        trims: Callable[[bool], bool] = bool,
    ) -> Callable[..., Array]:
        """The weights of clipping, without the last in another order."""

        def wrong(norms: Array, *, ids: Any, trim: int, bound: float, passed: bool) -> Array:
            found = of(norms, bound)
            if trims(passed):
                found[np.lexsort(keys(norms, np.asarray(ids), bound))[max(0, len(norms) - trim) :]] = 0.0
            return found

        return wrong

    checks.function(
        answer,
        reference=reference,
        inputs=inputs,
        name="step_weights",
        mistakes=[
            Mistake(
                weights(lambda norms, ids, bound: (norms, ids)),
                "it orders by the ids. The norms come first; the ids decide between equal norms only.",
            ),
            Mistake(
                weights(lambda norms, ids, bound: (-ids, norms)),
                "of equal norms it leaves out the smaller id: the larger leaves first.",
            ),
            Mistake(
                weights(of=np.minimum),
                "these are the lengths after clipping. A weight is what a gradient is multiplied by: at most 1.",
            ),
            Mistake(
                weights(lambda norms, ids, bound: (ids, np.minimum(norms, bound))),
                "it orders by the norms after clipping: all long gradients tie, and a short outlier is as good as any.",
            ),
            Mistake(
                weights(lambda norms, ids, bound: (np.arange(len(norms)), norms)),
                "equal norms are ordered by their place in the batch. The id must decide: of equals the larger leaves.",
            ),
            Mistake(weights(trims=operator.not_), "it trims when the test fails: it is the other way round."),
            Mistake(
                weights(trims=lambda passed: True),
                "it trims after a failed test as well. Then the plain clipped sum is released.",
            ),
            Mistake(
                weights(of=lambda norms, bound: np.ones(len(norms))),
                "nothing is clipped: a weight is at most bound over norm.",
            ),
            Mistake(weights(lambda norms, ids, bound: (ids, -norms)), "it leaves out the shortest gradients."),
        ],
        hint="Passed: weight 0 for the F longest, ties by id, min(1, R/norm) for the others. Failed: min(1, R/norm).",
    )


def check_noisy_total(answer: Any) -> None:
    """A trimmed sum that one record moves by at most the bound, with noise for that, in each coordinate anew."""
    name = "noisy_total"

    def exact(f: Any) -> Sum:
        def total(rows: Array, ids: Any, trim: int, bound: float) -> Array | str:
            rng = np.random.default_rng(0)
            came = f(rows, ids=ids, trim=trim, bound=bound, sigma=0.0, rng=rng)
            found = numbers(came, rows.shape[1:])
            if found is None:
                return f"for {len(rows)} vectors of {rows.shape[1]} numbers it returned {shown(came)}"
            return np.array(found)

        return total

    def law_of(
        deviation: Callable[..., float], shape: Callable[[float, float], Law] = laws.normal
    ) -> Callable[..., list[Law]]:
        """The right sum with noise of this standard deviation or scale."""

        def law(vectors: Array, *, ids: Any, trim: int, bound: float, sigma: float, noise: float = 1.0) -> list[Law]:
            total = trimmed_sum.clipped_trimmed_sum(vectors, ids=ids, trim=trim, bound=bound)
            size = noise * deviation(scale=sigma * bound, bound=bound, trim=trim, rows=len(vectors))
            return laws.each(total, lambda center: shape(center, size) if size else laws.certain(center))

        return law

    rows = np.random.default_rng(3).normal(size=(12, 3)) * np.linspace(0.2, 6.0, 12)[:, None]
    equal = np.array([[3.0, 4.0, 0.0], [5.0, 0.0, 0.0], [0.0, 0.0, 5.0]])
    settings = [
        {"vectors": rows, "ids": 54_300 - np.arange(12), "trim": 3, "bound": 2.0, "sigma": 1.5},
        {"vectors": rows[:5], "ids": 54_300 + np.arange(5), "trim": 1, "bound": 0.5, "sigma": 1.2},
        {"vectors": np.zeros((0, 3)), "ids": np.arange(0), "trim": 1, "bound": 2.0, "sigma": 1.5},
        {"vectors": equal, "ids": np.array([3, 7, 5]), "trim": 1, "bound": 10.0, "sigma": 0.3},
    ]
    cases = [
        (
            "without noise it is the sum of the clipped vectors, less the longest ones",
            lambda f: is_trimmed_sum(exact(f)),
        ),
        ("one record moves the sum by at most the bound", lambda f: one_record_moves_little(exact(f))),
    ]
    wrong = [
        Mistake(
            law_of(lambda *, scale, bound, **_: scale / bound),
            "the noise is sigma. One record moves the sum by the bound, and sigma counts in units of that.",
        ),
        Mistake(
            law_of(lambda *, scale, **_: scale**2), "sigma times bound is a standard deviation: it need not be squared."
        ),
        Mistake(law_of(lambda *, scale, **_: math.sqrt(scale)), "sigma times bound is not its variance."),
        Mistake(
            law_of(lambda *, scale, rows, **_: scale * math.sqrt(rows)),
            "each of the vectors gets noise. It is added once, to the sum.",
        ),
        Mistake(
            law_of(lambda *, scale, rows, trim, **_: scale * math.sqrt(max(0, rows - trim))),
            "each of the vectors that are kept gets noise. It is added once, to the sum.",
        ),
        Mistake(
            law_of(lambda *, scale, rows, **_: scale / max(1, rows)),
            "the noise is divided by the number of vectors, as for a mean. The sum needs all of it.",
        ),
        Mistake(
            law_of(lambda *, scale, rows, **_: scale * (rows > 0)),
            "an empty batch must get its noise as well: an answer without noise says that nobody was drawn.",
        ),
        Mistake(
            law_of(lambda *, scale, **_: scale / math.sqrt(2), laws.laplace),
            "it is Laplace noise. sigma is the multiplier of Gaussian noise.",
        ),
    ]
    law = law_of(lambda *, scale, **_: scale)
    smaller = "of equal lengths the smaller id leaves. The larger one leaves first."
    wrong.append(Mistake(lambda vectors, *, ids, **given: law(vectors, ids=-ids, **given), smaller))
    released(answer, name=name, cases=cases, law=law, settings=settings, wrong=wrong)


def check_next_trim(answer: Any) -> None:
    """The next F by the rule that settles."""

    def reference(trim: int, *, passed: bool, change: int, most: int) -> int:
        return min(most, max(0, trim - change if passed else trim + change))

    def inputs(rng: np.random.Generator) -> Iterator[tuple[tuple[int], dict[str, Any]] | dict[str, Any]]:
        for trim, ok in ((64, True), (64, False), (3, True), (254, False), (0, True), (256, False)):
            yield {"trim": trim, "passed": ok, "change": 5, "most": 256}
        yield {"trim": 98, "passed": False, "change": 7, "most": 100}
        for _ in range(8):
            yield {"trim": int(rng.integers(0, 101)), "passed": bool(rng.integers(2)), "change": 7, "most": 100}

    checks.function(
        answer,
        reference=reference,
        inputs=inputs,
        name="next_trim",
        mistakes=[
            Mistake(
                lambda trim, *, passed, change, most: min(most, max(0, trim + change if passed else trim - change)),
                "this is the rule of the appendix: a failed test lowers F, and the next one fails too. It runs away.",
            ),
            Mistake(
                lambda trim, *, passed, change, most: trim - change if passed else trim + change,
                "F leaves the range from 0 to most.",
            ),
            Mistake(
                lambda trim, *, passed, change, most: min(most, trim - change if passed else trim + change),
                "F becomes negative after many passed tests.",
            ),
            Mistake(
                lambda trim, *, passed, change, most: max(0, trim - change if passed else trim + change),
                "F exceeds most after many failed tests.",
            ),
        ],
        hint="A failed test asks for more margin, so for a larger F; both ends are clipped.",
    )


_RUN: dict[str, Any] = {"q": 0.01, "steps": 500, "delta": 1e-5}
_TEST: dict[str, Any] = {"sigma": 2.0, "tau": 0.6, "scale": 1.0, "delta0": 1e-8}


@functools.cache
def _matched() -> float:
    return privacy.matching_gaussian_sigma(**_TEST, **_RUN)


def check_matched(answer: Any) -> None:
    """The noise of DP-SGD with the epsilon of a run of TSGD with propose-test-release."""
    right = _matched()
    checks.number(
        answer,
        expected=right,
        name="matched",
        rel=3e-3,
        mistakes=[
            Mistake(
                2.0, "this is the noise with the test. The test itself costs privacy, which plain noise may use up."
            ),
            Mistake(1.2, "this is sigma times tau, the noise after a passed test, in units of R."),
            Mistake(
                lambda value: 0 < float(value) < right,
                "DP-SGD with this noise spends more than the run with the test.",
                example=0.9 * right,
            ),
            Mistake(
                lambda value: right < float(value),
                "DP-SGD with this noise spends less than the run with the test.",
                example=1.1 * right,
            ),
        ],
        hint="Two epsilons must agree: that of the run with the test, and that of DP-SGD with as many steps.",
    )


_STEPS = 60  # of the small network of the last items


@functools.cache
def _images() -> Any:
    from dpml.training import models

    whole = data.fashion_mnist_subset()
    pairs = (whole.train_images, whole.train_labels), (whole.test_images, whole.test_labels)
    return [(models.to_tensors(x), models.to_labels(y)) for x, y in pairs]


def _train(labels: Any, *, clip_norm: float, trim: int | None) -> tuple[float, float, float]:
    """Accuracy, pass rate and mean F of a short run; trim None: DP-SGD."""
    import torch
    from torch.nn import functional

    from dpml.training import dp_sgd, models, train, tsgd_ptr
    from dpml.training.sampling import Poisson

    (x, _), test = _images()
    model = models.mlp(generator=torch.Generator().manual_seed(0), hidden=32)
    common: dict[str, Any] = {
        "sampling": Poisson(q=0.0256, expected_batch=256),
        "steps": _STEPS,
        "optimizer": torch.optim.SGD(model.parameters(), lr=2.0 / clip_norm),
        "delta": 1e-5,
        "generator": torch.Generator().manual_seed(1),
        "trace_every": _STEPS,
        "test": test,
    }
    ptr: dict[str, Any] = {"sigma": 1.1, "tau": 0.5, "scale": 1.0, "delta0": 1e-8, "clip_norm": clip_norm}
    plain = dp_sgd(sigma=0.87, clip_norm=clip_norm)
    mechanism = plain if trim is None else tsgd_ptr(**ptr, trim=trim, change=0)
    losses = functools.partial(functional.cross_entropy, reduction="none")
    run = train(model, losses, x, labels, mechanism=mechanism, **common)
    if trim is None:
        return float(run.trace.accuracy[-1]), 0.0, 0.0
    seen = run.trace.other
    return float(run.trace.accuracy[-1]), float(seen["passed"][-1]), float(seen["trim"][-1])


@functools.cache
def _clean_accuracy() -> float:
    return _train(_images()[0][1], clip_norm=1.0, trim=None)[0]


def check_setting(answer: Any) -> None:
    """A clip norm and an F for which most tests pass, without throwing most of the batch away."""
    if answer is ...:
        not_written("setting")
    if not isinstance(answer, dict) or set(answer) != {"clip_norm", "trim"}:
        raise NotYet('setting must be a dictionary with the keys "clip_norm" and "trim".')
    clip_norm, trim = answer["clip_norm"], answer["trim"]
    whole = isinstance(trim, int | np.integer) and not isinstance(trim, bool)
    if not whole or not 0 <= trim <= 128:
        raise NotYet("trim must be a whole number from 0 to 128: at least half of the expected batch is kept.")
    if isinstance(clip_norm, bool) or not isinstance(clip_norm, int | float | np.number):
        raise NotYet("clip_norm must be a number.")
    if not 0 < float(clip_norm) < 1e6:
        raise NotYet("clip_norm must be a number above 0 and below 1,000,000.")
    accuracy, share, _ = _train(_images()[0][1], clip_norm=float(clip_norm), trim=int(trim))
    if trim < 18:
        raise NotYet(
            f"{share:.0%} of the tests passed. With F = {trim} the margin is at most {trim}: compare with 17.7."
        )
    if share <= 0.5:
        more = ", or F to 128" if trim < 128 else ""
        raise NotYet(f"{share:.0%} of the tests passed. Too many norms exceed half the clip norm: raise it{more}.")
    if accuracy < 0.5:
        raise NotYet(
            f"{share:.0%} of the tests passed, but the model has {accuracy:.0%} accuracy: noise for so large a clip "
            "norm drowns the gradients. Lower it."
        )
    passed("setting", f"{share:.0%} of {_STEPS} tests passed, accuracy {accuracy:.0%}")


def check_attack(answer: Any) -> None:
    """Labels of which at most a fifth are changed, and that cost DP-SGD at least ten points."""

    truth, place = data.fashion_mnist_subset().train_labels, np.arange(10_000)

    def read(value: Any) -> Any:
        labels = np.asarray(value)
        if labels.shape != (10_000,) or not np.issubdtype(labels.dtype, np.integer):
            raise ValueError(f"give 10,000 whole numbers, not {labels.dtype} of shape {labels.shape}.")
        if labels.min() < 0 or labels.max() > 9:
            raise ValueError("labels are from 0 to 9.")
        return labels

    def changed(value: Any) -> int:
        return int((read(value) != truth).sum())

    def spread(labels: Any) -> bool:
        """Whether the changes come from most classes and lead to most classes."""
        wrong = labels != truth
        return min(len(np.unique(truth[wrong])), len(np.unique(labels[wrong]))) > 5

    @functools.cache
    def drop(key: bytes) -> float:
        import torch

        (_, y), _ = _images()
        labels = torch.from_numpy(np.frombuffer(key, dtype=np.int64).copy())
        return 100 * (_clean_accuracy() - _train(labels.to(y.dtype), clip_norm=1.0, trim=None)[0])

    def points(value: Any) -> float:
        return drop(read(value).astype(np.int64).tobytes())

    def test(value: Any) -> str | None:
        if changed(value) > 2000:
            return f"{changed(value):,} labels are changed, more than 2,000."
        lost = points(value)
        if lost >= 10.0:
            return None
        allowed = f"DP-SGD loses {lost:.1f} points on it, which the claim allows."
        return f"{allowed} Concentrate the changes on few classes, each renamed as a whole."

    checks.counterexample(
        answer,
        test=test,
        name="attack",
        mistakes=[
            Mistake(lambda value: changed(value) == 0, "changes no label.", example=truth),
            Mistake(
                lambda value: 0 < changed(value) <= 2000 and spread(read(value)),
                "spreads its changes over all classes: wrong votes that point everywhere cancel. Let them agree.",
                example=np.where(place % 5 == 0, (truth + 1 + place // 5 % 9) % 10, truth),
            ),
        ],
        shows=lambda value: f"{changed(value):,} wrong labels cost DP-SGD {points(value):.0f} points",
    )


def check_share(answer: Any) -> None:
    """Why F must not be a share of the batch that was drawn."""
    checks.argument(
        answer,
        name="share",
        rubric=[
            "One record changes the size of the batch, and with it F, by one.",
            "Then one gradient of length R enters or leaves because of F, and another because of the record: 2 R.",
            "F must be a number fixed without the data, the same for neighbours. Under add/remove q n, with the data's "
            "own n, is none: at q = 1/4 a quarter of it, rounded down, is 4 for 79 records and 5 for 80.",
        ],
        question="A batch of 7 becomes one of 8: what is F, a quarter rounded down, and which gradients stay then?",
    )
