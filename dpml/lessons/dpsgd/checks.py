r"""The checks of the exercises of chapter 05, DP-SGD: one name for each question.

items 1 and 2         dpsgd_gradients    clipping, and norms in closed form
items 3 and 7         dpsgd_numbers      where the noise ends up, and what the printed update costs
items 4, 8 and 9      dpsgd_proofs       a counterexample, what breaks single gradients, an argument
item 5                dpsgd_mechanisms   the noisy mean gradient
item 6                dpsgd_microbatches the noisy sum of micro-batches

Neighbouring datasets differ by one example (add/remove).
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpml import mechanisms
from dpml.classroom import checks, verdict
from dpml.classroom.calls import quiet
from dpml.classroom.checks import Mistake
from dpml.lessons._mechanisms import both

# ---- Clipping, and what is taken for it: shared by items 1, 5 and 6 of chapter 05 ----


Array = NDArray[np.float64]


def clipped(gradients: Array, clip_norm: float) -> Array:
    """Each row shortened to the clip norm, if it is longer."""
    rows: Array = gradients * (clip_norm / np.maximum(_norms(gradients), clip_norm))
    return rows


def _norms(gradients: Array, *, order: float = 2, axis: int = 1) -> Array:
    powers = np.abs(gradients)
    norms = powers.max(axis=axis, keepdims=True, initial=0.0)
    if np.isfinite(order):
        norms = np.sum(powers**order, axis=axis, keepdims=True) ** (1 / order)
    found: Array = np.maximum(norms, 1e-300)
    return found


def _shrunk(gradients: Array, clip_norm: float, norms: Any) -> Array:
    rows: Array = gradients * np.minimum(1.0, clip_norm / norms)
    return rows


def _whole(gradients: Array) -> float:
    return max(float(np.linalg.norm(gradients)), 1e-300)


# Wrong functions of gradients and clip norm. Each text must fit a function of rows and a sum of them.
WRONG: list[tuple[Callable[[Array, float], Array], str]] = [
    (
        lambda g, c: np.minimum(c, g / _norms(g)),
        "this is the printed rule: the minimum acts on coordinates, and not at all on negative ones.",
    ),
    (
        lambda g, c: g * c / _norms(g),
        "every gradient is brought to norm C, short ones too. Clipping only shortens.",
    ),
    (
        lambda g, c: np.clip(g, -c, c),
        "each coordinate is clipped. The norm may then still be up to the square root of p times C.",
    ),
    (
        lambda g, c: _shrunk(g, c, _whole(g)),
        "one factor for the whole batch, from the norm of the whole array. Each row has a norm of its own.",
    ),
    (
        lambda g, c: g * np.minimum(1.0, _norms(g) / c),
        "the ratio is upside down: short gradients shrink and long ones stay.",
    ),
    (
        lambda g, c: g * np.maximum(1.0, c / _norms(g)),
        "the factor is never below 1: short gradients are stretched and long ones stay.",
    ),
    (
        lambda g, c: g,
        "nothing is clipped. Clipped, each row has norm at most C.",
    ),
    (
        lambda g, c: _shrunk(g, c, _norms(g) ** 2),
        "the clip norm is compared with the square of the norm: a root is missing.",
    ),
    (
        lambda g, c: _shrunk(g, c, _norms(g, axis=0)),
        "the norms run down the columns, over the examples. Each row has a norm of its own.",
    ),
    (
        lambda g, c: _shrunk(g, c, _norms(g, order=1)),
        "the norm adds up absolute values. Take the Euclidean norm, which the noise is made for.",
    ),
    (
        lambda g, c: _shrunk(g, c, _norms(g, order=np.inf)),
        "the norm is the largest coordinate. Take the Euclidean norm, which the noise is made for.",
    ),
    (
        lambda g, c: _shrunk(g, c, _norms(g).max(initial=1e-300)),
        "one factor for the whole batch, from its longest row. Each row has a norm of its own.",
    ),
    (
        lambda g, c: g * np.where(_norms(g) > c, 1.0 / _norms(g), 1.0),
        "long gradients get length 1, whatever the clip norm is.",
    ),
    (
        lambda g, c: g / np.maximum(_norms(g), c),
        "a factor is missing: long gradients get length 1, and short ones change as well.",
    ),
    (
        lambda g, c: g / np.maximum(_norms(g), 1.0),
        "the clip norm is 1 in it, whatever clip_norm is.",
    ),
    (
        lambda g, c: g * (_norms(g) <= c),
        "long gradients are dropped. Clipping shortens them.",
    ),
    (
        lambda g, c: _shrunk(g, c, _norms(g) / np.sqrt(max(1, g.shape[1]))),
        "the norm is the root of a mean of squares. The Euclidean norm adds them up.",
    ),
    (
        lambda g, c: np.minimum(g, c),
        "the minimum acts on coordinates, and not at all on negative ones.",
    ),
    (
        lambda g, c: g * np.minimum(_norms(g), c),
        "each gradient is multiplied by its clipped norm. Its length must become that norm.",
    ),
]


# ---- What the checks of the mechanisms of chapter 05 share: how they are called, what they return, their noise ----


SEED = 20_250_117
TINY = 1e-9  # a noise multiplier with hardly any noise
STILL_NOISY = (
    f"at a tiny σ, {TINY:g}, it still has noise, which must be in proportion to σ. (The first argument of rng.normal "
    "is the mean, the second one the standard deviation.)"
)
_WIDTH = 50  # many short calls, not one long one: a covariance matrix of a right answer stays small


def require_call(answer: Any, *, name: str, named: dict[str, Any]) -> None:
    """Raise NotYet if the answer is no function of gradients and these names."""
    verdict.require_function(answer, name=name)
    if verdict.unfit(answer, (None,), named):
        given = ", ".join(list(named)[:-1]) + f" and {list(named)[-1]}"
        raise verdict.NotYet(
            f"Your {name} is called with gradients, and with {given} by name: keep the parameter names."
        )


def vector(came: Any, *, size: int) -> Array | str:
    """What came, as `size` finite numbers, or a sentence that says what it is instead."""
    if came is None or came is Ellipsis:
        return f"it returned {'None' if came is None else '...'}: is a return missing?"
    try:
        found = np.asarray(came.detach() if hasattr(came, "detach") else came)
        values: Array = found.astype(float) if found.dtype.kind in "buifO" else np.empty(0)
    except (TypeError, ValueError, RuntimeError):
        found, values = np.empty(0, dtype=object), np.empty(0)
    if found.dtype.kind not in "buif" and values.shape != (size,):
        return f"it must return {size} real numbers; it returned {verdict.shown(came)}."
    if values.shape != (size,):
        return f"it returned shape {values.shape} for gradients of {size} numbers."
    return values if np.isfinite(values).all() else "it returned nan or infinity."


def noise(f: Any, *, examples: int, numbers: int, **named: Any) -> Array | str:
    """What `f` returns for gradients of zeros, one call a row, or a sentence that says what is wrong with it."""
    rng, rows = np.random.default_rng(SEED), []
    for _ in range(numbers // _WIDTH):
        values = vector(f(np.zeros((examples, _WIDTH)), **named, rng=rng), size=_WIDTH)
        if isinstance(values, str):
            return values
        rows.append(values)
    return np.array(rows)


def same_everywhere(rows: Array) -> bool:
    """Whether each call added one number to all coordinates."""
    return float(rows.std(axis=1).max()) < 1e-9 < float(np.abs(rows).max())


def look_up(came: Array, known: Iterable[tuple[Any, str]]) -> str:
    """The text of the wrong vector that came, if it is known."""
    for wrong, text in known:
        if np.shape(wrong) == came.shape and np.allclose(came, wrong, rtol=1e-4, atol=1e-6):
            return text
    return "compare it on paper."


def not_gaussian(standardised: Array) -> bool:
    """Whether standard normal numbers would look like this with probability below 1e-9."""
    ordered = ndtr(np.sort(standardised, axis=None))
    steps = np.arange(len(ordered) + 1) / len(ordered)
    distance = float(max((steps[1:] - ordered).max(), (ordered - steps[:-1]).max()))
    # Two-sided Kolmogorov-Smirnov, by the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart.
    return bool(2 * np.exp(-2 * len(ordered) * distance**2) < 1e-9)


# ---- Checks of items 1 and 2 of chapter 05: functions of per-example gradients ----

# .. math::
#
#     g_i \min(1, C/\|g_i\|), \qquad \|\nabla_{W, b}\,\text{loss}_i\|^2 = \|g_i\|^2 (\|a_i\|^2 + 1)


def check_clip_rows(answer: Any) -> None:
    """Each row is shortened to the clip norm if it is longer, and kept otherwise."""

    def rows(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield {"gradients": np.array([[-5.0, 0.0]]), "clip_norm": 0.1}
        yield {"gradients": np.array([[3.0, 4.0], [0.3, 0.4]]), "clip_norm": 1.0}
        for m, p, clip_norm in ((1, 3, 1.0), (4, 2, 0.5), (6, 5, 2.0)):
            yield {"gradients": rng.normal(size=(m, p)) * rng.uniform(0.1, 4.0, size=(m, 1)), "clip_norm": clip_norm}
        yield {"gradients": np.zeros((2, 3)), "clip_norm": 1.0}

    def with_none(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield from rows(rng)
        yield {"gradients": np.zeros((0, 3)), "clip_norm": 1.0}

    def reference(gradients: Array, *, clip_norm: float) -> Array:
        return clipped(gradients, clip_norm)

    def norms(gradients: Array) -> Array:
        found: Array = np.linalg.norm(gradients, axis=1)
        return found

    def known(wrong: Any) -> Any:
        return lambda gradients, *, clip_norm: wrong(gradients, clip_norm)

    def factors(gradients: Array, clip_norm: float) -> Array:
        found: Array = clip_norm / np.maximum(norms(gradients), clip_norm)
        return found

    # The input without rows comes last: what fails everywhere is shown on an input that has some.
    with redirect_stdout(io.StringIO()):
        checks.function(
            answer,
            reference=reference,
            inputs=rows,
            name="clip_rows",
            mistakes=[
                *(Mistake(known(wrong), text) for wrong, text in WRONG),
                Mistake(known(lambda g, c: np.minimum(norms(g), c)), "these are the norms. Return the rows."),
                Mistake(known(lambda g, c: norms(g)), "these are the norms. Return the rows."),
                Mistake(known(factors), "these are the factors. Return the rows times them."),
                Mistake(
                    known(lambda g, c: factors(g, c)[:, None]), "these are the factors. Return the rows times them."
                ),
                Mistake(known(lambda g, c: clipped(g, c).sum(axis=0)), "the rows are added up. Return all of them."),
                Mistake(known(lambda g, c: clipped(g, c).mean(axis=0)), "this is the mean. Return all rows."),
                Mistake(
                    known(lambda g, c: g * factors(g, c)),
                    "the norms, of shape (m,), meet the coordinates of a row. Give each row a factor of its own.",
                ),
                Mistake(
                    known(lambda g, c: g * c / norms(g)[:, None] * np.minimum(1.0, norms(g) / c)[:, None]),
                    "a row of zeros is divided by its norm, which is 0.",
                ),
            ],
            hint="Every row keeps its direction, has norm at most C, and stays as it is if it was within C.",
        )
    checks.function(
        answer,
        reference=reference,
        inputs=with_none,
        name="clip_rows",
        mistakes=[
            Mistake(
                lambda gradients, *, clip_norm: np.array([]) if len(gradients) == 0 else clipped(gradients, clip_norm),
                "an array without rows still has its columns, which a list of no rows forgets. Keep its shape.",
            ),
        ],
        hint="An array without rows has columns all the same, here 3.",
    )


def check_gradient_norms(answer: Any) -> None:
    """Norms of the per-example gradients of a linear layer with bias, without forming them."""

    def reference(inputs: Array, output_gradients: Array) -> Array:
        squares = np.sum(output_gradients**2, axis=1) * (np.sum(inputs**2, axis=1) + 1)
        found: Array = np.sqrt(squares)
        return found

    def cases(rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        yield np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[1.0], [2.0]])
        for m, i, o in ((2, 2, 2), (3, 4, 2), (5, 3, 6)):
            yield rng.normal(size=(m, i)), rng.normal(size=(m, o))

    def bare(a: Array) -> Array:
        found: Array = np.linalg.norm(a, axis=1)
        return found

    checks.function(
        answer,
        reference=reference,
        inputs=cases,
        name="gradient_norms",
        mistakes=[
            Mistake(
                lambda a, g: bare(a) * bare(g),
                "the bias is forgotten: its gradient is g itself.",
            ),
            Mistake(
                lambda a, g: (bare(a) * bare(g)) ** 2,
                "these are squares, and the bias is forgotten.",
            ),
            Mistake(
                lambda a, g: bare(g),
                "this is the gradient of the bias alone.",
            ),
            Mistake(
                lambda a, g: bare(a) * bare(g) + bare(g),
                "the norms of the two parts are added. Add their squares: weight and bias together are one vector.",
            ),
            Mistake(
                lambda a, g: bare(a) * bare(g) + 1,
                "the bias counts as 1. Its gradient is g itself, and squares are added.",
            ),
            Mistake(
                lambda a, g: np.sqrt((bare(a) * bare(g)) ** 2 + 1),
                "the bias counts as 1. Its gradient is g itself.",
            ),
            Mistake(
                lambda a, g: reference(g, a),
                "inputs and output gradients have changed places.",
            ),
            Mistake(
                lambda a, g: reference(a, g) ** 2,
                "these are the squares of the norms.",
            ),
            Mistake(
                lambda a, g: reference(a, g) * bare(g),
                "one of the two factors is still squared.",
            ),
            Mistake(
                lambda a, g: reference(a, g) * np.sqrt(bare(a) ** 2 + 1),
                "one of the two factors is still squared.",
            ),
            Mistake(
                lambda a, g: np.sqrt(np.sum(g**2, axis=1) + np.sum(a**2, axis=1) + 1),
                "the squared norms are added. An outer product multiplies them.",
            ),
            Mistake(
                lambda a, g: np.hypot(bare(g), bare(a)),
                "the squared norms are added. An outer product multiplies them.",
            ),
            Mistake(
                lambda a, g: bare(g) + bare(a),
                "the norms are added. An outer product multiplies them.",
            ),
            Mistake(
                lambda a, g: reference(a.T, g.T),
                "the sums run down the columns, over the examples. Each example has a norm of its own.",
            ),
            Mistake(
                lambda a, g: reference(a, g) / len(a),
                "it is divided by the number of examples.",
            ),
            Mistake(
                lambda a, g: float(np.linalg.norm(g) * np.sqrt(np.sum(a**2) + 1)),
                "the sums run over the whole batch. Each example has a norm of its own.",
            ),
            Mistake(
                lambda a, g: float(np.linalg.norm(reference(a, g))),
                "this is one number for the batch. Each example has its own.",
            ),
            Mistake(
                lambda a, g: float(np.sqrt(np.sum((g.T @ a) ** 2) + np.sum(np.sum(g, axis=0) ** 2))),
                "this is the norm of the summed gradient, one number for the batch. Each example has its own.",
            ),
        ],
        hint="It must equal the norm of outer(g_i, a_i) and g_i taken together.",
    )


# ---- Check of item 6 of chapter 05: the noisy sum in micro-batches ----

# .. math::
#
#     \sum_i g_i \min\bigl(1, \tfrac{C}{\|g_i\|}\bigr) + N(0, \sigma^2 C^2 I)

_CLIP_NORM = 0.8
_SETTINGS = ((96, 8, 3.0, 1.5), (96, 96, 3.0, 1.5), (96, 1, 0.5, 4.0), (0, 8, 3.0, 1.5))  # examples, size, C, σ


def check_noisy_sum(answer: Any) -> None:
    """The sum of clipped gradients, `size` examples at a time, with the noise of one release."""
    name = "noisy_sum"
    require_call(answer, name=name, named={"clip_norm": 1.0, "sigma": 1.0, "size": 4, "rng": None})
    checks.properties(
        answer,
        name=name,
        cases=[
            ("without noise it is the sum of the clipped gradients, for every size", _exact),
            ("of an empty batch it is a vector, too", _empty),
            ("all its randomness comes from rng", _own),
            ("its noise has standard deviation σC, whatever the size", _noise),
            ("its noise is Gaussian", _gaussian),
        ],
    )


def _batch() -> Array:
    rows: Array = np.random.default_rng(SEED).normal(size=(10, 3)) * np.linspace(0.1, 3.0, 10)[:, None]
    return rows


def _exact(f: Any) -> bool | str:
    batch = _batch()
    right = clipped(batch, _CLIP_NORM).sum(axis=0)
    for size in (4, 10, 5, 3, 1, 64):
        given, came = batch.copy(), []
        for seed in (0, 1):
            value = f(given, clip_norm=_CLIP_NORM, sigma=TINY, size=size, rng=np.random.default_rng(seed))
            if value is Ellipsis:
                raise NotImplementedError
            values = vector(value, size=3)
            if isinstance(values, str):
                return values
            if not np.array_equal(given, batch):
                return "it changes the gradients that it is given: work on a copy."
            came.append(values)
        if float(np.abs(came[0] - came[1]).max()) > 1e-3:
            return STILL_NOISY
        if not np.allclose(came[0], right, rtol=1e-4, atol=1e-4):
            return f"at size {size} it is another vector: " + _why(came[0], right, batch, size)
    return True


def _why(came: Array, right: Array, batch: Array, size: int) -> str:
    pieces = [batch[s : s + size] for s in range(0, len(batch), size)]

    def total(rows: Any) -> Any:
        return clipped(np.array(rows), _CLIP_NORM).sum(axis=0)

    return look_up(
        came,
        [
            (right / len(batch), "it is the mean. Return the sum."),
            (np.sum([total(p) / len(p) for p in pieces], axis=0), "means of the pieces are added. Add sums."),
            (np.mean([total(p) / len(p) for p in pieces], axis=0), "it is a mean of means. Return the sum."),
            (right / size, "it is divided by size. Return the sum."),
            (right / len(pieces), "it is divided by the number of pieces. Return the sum."),
            (total(batch[: len(batch) // size * size]), "the last piece, which is not full, is dropped."),
            (total(pieces[0]), "only the first piece is in it: is the return inside the loop?"),
            (total(pieces[-1]), "only the last piece is left: add the pieces up."),
            (total([p.sum(axis=0) for p in pieces]), "the sum of each piece is clipped, and not each example."),
            (total([p.mean(axis=0) for p in pieces]), "the mean of each piece is clipped, and not each example."),
            (total([batch.sum(axis=0)]), "the sum of all is clipped, and not each example."),
            (total([right]), "the sum is clipped once more. Only each example is clipped."),
            (-right, "its sign is turned."),
            *((wrong(batch, _CLIP_NORM).sum(axis=0), text) for wrong, text in WRONG),
            *((np.sum([wrong(p, _CLIP_NORM).sum(axis=0) for p in pieces], axis=0), text) for wrong, text in WRONG),
        ],
    )


def _empty(f: Any) -> bool | str:
    came = f(np.zeros((0, 3)), clip_norm=_CLIP_NORM, sigma=TINY, size=8, rng=np.random.default_rng(1))
    values = vector(came, size=3)
    if isinstance(values, str):
        return values
    return True if np.allclose(values, 0.0, atol=1e-4) else "without noise it must be zeros."


def _noise(f: Any) -> bool | str:
    for examples, size, clip_norm, sigma in _SETTINGS:
        rows = noise(f, examples=examples, numbers=8000, clip_norm=clip_norm, sigma=sigma, size=size)
        if isinstance(rows, str):
            return rows
        if same_everywhere(rows):
            return "it is the same number at each coordinate. Draw one for each."
        ratio = float(rows.std()) / (sigma * clip_norm)
        if ratio < 1e-9:
            none = f"at size {size} there is none."
            return none if examples else "an empty batch gets none, which shows that nobody was drawn."
        if abs(ratio - 1) > 0.1:  # twelve standard deviations
            batch = "of an empty batch" if examples == 0 else f"at size {size}"
            return f"{batch} it has {ratio:.3g} times the standard deviation σC" + _noise_why(
                ratio, examples=examples, size=size, clip_norm=clip_norm, sigma=sigma
            )
    return True


def _noise_why(ratio: float, *, examples: int, size: int, clip_norm: float, sigma: float) -> str:
    """What makes noise that many times too wide: the explanation that comes closest, within 7 %."""
    pieces = max(1, -(-examples // size))
    drawn = max(1, examples)
    once = "One release gets noise once, on the whole sum."
    known = [
        (math.sqrt(pieces), f"each of the {pieces} pieces got noise. {once}"),
        (math.sqrt(drawn), f"each of the {drawn} examples got noise. {once}"),
        (float(pieces), f"it is multiplied by the number of pieces. {once}"),
        (float(size), f"it is multiplied by size. {once}"),
        (math.sqrt(size), f"it is multiplied by the root of size. {once}"),
        (1 / pieces, f"it is divided by the number of pieces. {once}"),
        (1 / math.sqrt(pieces), f"it is divided by the root of the number of pieces. {once}"),
        (1 / size, f"it is divided by size. {once}"),
        (1 / math.sqrt(size), f"it is divided by the root of size. {once}"),
        (1 / drawn, f"it is divided by the number of examples. {once}"),
        (2.0, "removing one example moves the sum by C, not by 2 C."),
        (1 / clip_norm, "it is not multiplied by the clip norm."),
        (1 / clip_norm**2, "it is divided by the clip norm."),
        (clip_norm, "it is multiplied by the clip norm twice."),
        (sigma * clip_norm, "σC is a standard deviation: it need not be squared."),
        (1 / math.sqrt(sigma * clip_norm), "σC is not its variance."),
    ]
    fitting = [(abs(math.log(ratio / r)), text) for r, text in known if abs(r - 1) > 0.1]
    distance, text = min(fitting)
    return f": {text}" if distance < 0.07 else ", and 1 is right."


def _gaussian(f: Any) -> bool | str:
    rows = noise(f, examples=2, numbers=20_000, clip_norm=0.5, sigma=4.0, size=1)
    if isinstance(rows, str):
        return rows
    return "its size is right, but its distribution is not." if not_gaussian(rows / 2.0) else True


def _own(f: Any) -> bool | str:
    came = [
        vector(f(_batch(), clip_norm=1.0, sigma=1.0, size=4, rng=np.random.default_rng(seed)), size=3)
        for seed in (1, 1, 2)
    ]
    if not np.array_equal(came[0], came[1]):
        return "two calls with the same rng differ: draw from the rng that it is given."
    return (
        True
        if not np.array_equal(came[0], came[2])
        else "two calls with different rngs agree: there is none, or always the same."
    )


# ---- Check of item 5 of chapter 05: the noisy mean gradient ----

# .. math::
#
#     \frac{1}{B}\Bigl(\sum_i g_i \min\bigl(1, \tfrac{C}{\|g_i\|}\bigr) + N(0, \sigma^2 C^2 I)\Bigr)


def check_noisy_mean(answer: Any) -> None:
    """The mean gradient of a batch, with the noise of DP-SGD.

    Clipping, sum and division are checked with hardly any noise, in several dimensions; then the noise. In the privacy
    test C = 2, so that noise without it is half of what is needed, and B = 256. It looks at one coordinate: at
    sigma = 1.5 and epsilon = 1 the delta that is allowed is the exact one, and half the noise needs several times it.
    """
    name, clip_norm, sigma, batch, epsilon = "noisy_mean", 2.0, 1.5, 256, 1.0
    named = {"clip_norm": clip_norm, "sigma": sigma, "expected_batch": batch}
    require_call(answer, name=name, named={**named, "rng": None})
    _require_vector(answer, name=name, named=named, size=3)
    with redirect_stdout(io.StringIO()):
        checks.properties(
            answer,
            name=name,
            cases=[
                ("with hardly any noise it is the sum of the clipped gradients over expected_batch", _exact_mean),
                ("an empty batch gets the same noise as any other", _once),
            ],
        )

    @functools.wraps(answer)
    def first(gradients: Any, rng: np.random.Generator) -> Any:
        came = answer(gradients, **named, rng=rng)
        values = vector(came, size=np.shape(gradients)[1])
        return came if isinstance(values, str) else float(values[0])

    def mean(gradients: Any, rng: np.random.Generator, *, noise: float = sigma * clip_norm) -> float:
        return float((clipped(gradients, clip_norm).sum(axis=0)[0] + noise * rng.normal()) / batch)

    right = sigma * clip_norm
    privacy = functools.partial(
        checks.mechanism,
        first,
        name=name,
        reference=mean,
        neighbours=[
            (np.array([[0.5], [-1.0], [4000.0]]), np.array([[0.5], [-1.0]])),
            (np.array([[-7.0]]), np.zeros((0, 1))),
        ],
        epsilon=epsilon,
        delta=mechanisms.gaussian_delta(sigma=sigma, epsilon=epsilon),
        trials=4000,
        slack=1.5,
        mistakes=[
            Mistake(
                functools.partial(mean, noise=right / batch),
                "noise for the mean is added to the sum: it is 256 times too small.",
            ),
            Mistake(
                functools.partial(mean, noise=right * batch),
                "the noise is scaled to the sum, and added to the mean: it is 256 times too large. Add it before you "
                "divide.",
            ),
            Mistake(
                functools.partial(mean, noise=sigma),
                "the noise is σ and not σ times the clip norm, here half of what is needed.",
            ),
            Mistake(
                functools.partial(mean, noise=right**2),
                "σC is a standard deviation: it need not be squared.",
            ),
            Mistake(
                functools.partial(mean, noise=right * math.sqrt(batch)),
                "the noise is divided by the root of the batch size: it is 16 times too large.",
            ),
            Mistake(
                functools.partial(mean, noise=2 * right),
                "the noise is twice what is needed: removing one example moves the sum by C, not by 2 C.",
            ),
            Mistake(
                functools.partial(mean, noise=0.0),
                "there is no noise.",
            ),
        ],
    )

    both(
        privacy,
        functools.partial(
            checks.properties,
            answer,
            name=name,
            cases=[("each coordinate gets a noise of its own, σC/B wide", _noises)],
        ),
    )


def _exact_mean(f: Any) -> bool | str:
    """In several dimensions, at a clip norm and a batch size of its own."""
    clip_norm, expected = 0.5, 40
    batch = np.random.default_rng(SEED).normal(size=(30, 3)) * np.geomspace(0.1, 30.0, 30)[:, None]
    came = []
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        value = vector(f(batch.copy(), clip_norm=clip_norm, sigma=TINY, expected_batch=expected, rng=rng), size=3)
        if isinstance(value, str):
            return value
        came.append(value)
    if float(np.abs(came[0] - came[1]).max()) > 1e-5:
        return STILL_NOISY
    total = clipped(batch, clip_norm).sum(axis=0)
    if np.allclose(came[0], total / expected, rtol=1e-4, atol=5e-6):
        return True
    text = look_up(
        came[0],
        [
            (
                total / len(batch),
                "it divides by the number of examples that are there. Divide by expected_batch: it is the same for "
                "neighbours.",
            ),
            (total, "this is the noisy sum. Divide it by expected_batch."),
            (total / expected**2, "it is divided by the batch size twice."),
            (total / 256, "it is divided by 256, whatever expected_batch is."),
            (clipped(total[None], clip_norm)[0] / expected, "the sum is clipped once more. Clip each example only."),
            (0 * total, "every number is 0."),
            (-total / expected, "its sign is turned. The optimizer subtracts it."),
            (clipped(batch[:1], clip_norm)[0] / expected, "only the first example is in it."),
            (clipped(batch[-1:], clip_norm)[0] / expected, "only the last example is in it."),
            *(
                (
                    clipped(mean[None], clip_norm)[0],
                    "the mean is clipped and not each example: one example alone decides it.",
                )
                for mean in (batch.sum(axis=0) / expected, batch.mean(axis=0))
            ),
            (clipped(batch.sum(axis=0)[None], clip_norm)[0] / expected, "the sum is clipped and not each example."),
            *((wrong(batch, clip_norm).sum(axis=0) / expected, text) for wrong, text in WRONG),
            (clipped(batch, 2.0).sum(axis=0) / expected, "the clip norm is 2 in it, whatever clip_norm is."),
        ],
    )
    return f"for {len(batch)} gradients and an expected batch of {expected} it is another vector: {text}"


def _once(f: Any) -> bool | str:
    """Noise comes once, on the sum, however many examples were drawn."""

    def spread(examples: int) -> float | str:
        rows = noise(f, examples=examples, numbers=8000, clip_norm=2.0, sigma=1.5, expected_batch=256)
        return rows if isinstance(rows, str) else float(rows.std()) * 256 / 3.0

    some = spread(64)
    if isinstance(some, str):
        return some
    if math.isclose(some, 8.0, rel_tol=0.1):
        return "each of 64 examples got noise. It is added once, to the sum."
    few = vector(
        f(np.zeros((0, 3)), clip_norm=2.0, sigma=1.5, expected_batch=256, rng=np.random.default_rng(SEED)), size=3
    )
    none = few if isinstance(few, str) else spread(0)
    if isinstance(none, str):
        return f"for an empty batch, {none}"
    if none < 1e-9 < some:
        return (
            "it gets none, which shows that nobody was drawn. Add noise once, to the sum of what is clipped, even if "
            "nothing is in it."
        )
    if some > 1e-9 and not math.isclose(none, some, rel_tol=0.2):
        return f"it gets {none / some:.3g} times the noise of a batch of 64."
    return True


def _noises(f: Any) -> bool | str:
    for clip_norm, sigma, expected in ((2.0, 1.5, 256), (0.5, 3.0, 40)):
        rows = noise(f, examples=2, numbers=20_000, clip_norm=clip_norm, sigma=sigma, expected_batch=expected)
        if isinstance(rows, str):
            return rows
        if same_everywhere(rows):
            return "every coordinate gets the same noise. Draw one number for each of them."
        if np.count_nonzero(rows) < rows.size / 2:
            return "most coordinates get none."
        ratios = rows * expected / (sigma * clip_norm)
        spread = float(ratios.std())
        if not math.isclose(spread, 1.0, rel_tol=0.05):
            return f"over 20,000 numbers the noise has {spread:.3g} times the standard deviation it needs" + (
                ": σC is not its variance."
                if math.isclose(spread * math.sqrt(sigma * clip_norm), 1.0, rel_tol=0.03)
                else "."
            )
        if not_gaussian(ratios):
            return "its size is right, but its distribution is not: it must be Gaussian."
    return True


def _require_vector(answer: Any, *, name: str, named: dict[str, Any], size: int) -> None:
    """One call must give an array of `size` finite numbers."""
    gradients = np.array([[0.5] * size, [2.0] * size])
    with quiet() as printed:
        try:
            came = answer(gradients.copy(), **named, rng=np.random.default_rng(SEED))
        except Exception as error:  # whatever student code raises becomes one sentence
            verdict.refuse_unwritten(error, answer, name=name)
            raise verdict.NotYet(f"{name} raised {verdict.explained(error)} for 2 gradients.") from None
    if came is Ellipsis:
        verdict.not_written(name)
    if came is None and printed.getvalue().strip():
        raise verdict.NotYet(f"{name} printed its result but returned None: use return.")
    if came is None:
        raise verdict.NotYet(f"{name} returned None: is a return missing?")
    if isinstance(vector(came, size=size), str):
        raise verdict.NotYet(
            f"{name} must return as many numbers as a gradient has, here {size}; it returned {verdict.shown(came)}."
        )


# ---- Checks of items 3 and 7 of chapter 05: two numbers ----

# One step changes each parameter by noise of standard deviation
#
# .. math::
#
#     \frac{\eta\,\sigma\,C}{B},
#
# and noise that is added after the learning rate has the multiplier $\sigma/\eta$.


def check_update_noise(answer: Any) -> None:
    """The noise on one parameter in one step, at sigma 1.2, C 0.5, learning rate 0.4 and batches of 250."""
    sigma, clip_norm, rate, batch = 1.2, 0.5, 0.4, 250.0
    checks.number(
        answer,
        expected=rate * sigma * clip_norm / batch,
        name="update_noise",
        mistakes=[
            Mistake(sigma * clip_norm / batch, "the learning rate multiplies the noise as well."),
            Mistake(rate * sigma * clip_norm, "this is the noise of a sum; the sum is divided by the batch size."),
            Mistake(
                rate * sigma / batch,  # and with 2 C in place of C
                "multiply by the clip norm, once: one example moves the sum by C, and σ counts in units of it.",
            ),
            Mistake(rate * sigma, "this is the noise of a sum, and without the clip norm."),
            Mistake(sigma / batch, "learning rate and clip norm are factors as well."),
            Mistake(rate * clip_norm / batch, "σ is a factor as well."),
            Mistake(sigma * clip_norm / batch / rate, "a larger learning rate gives more noise: multiply by it."),
            Mistake(rate * sigma / clip_norm / batch, "a larger clip norm needs more noise: multiply by it."),
            Mistake(rate * sigma * clip_norm**2 / batch, "is the clip norm used twice?"),
            Mistake(rate**2 * sigma * clip_norm / batch, "the learning rate is used twice."),
            Mistake(
                rate * (sigma * clip_norm) ** 2 / batch, "σC is a standard deviation already: it need not be squared."
            ),
            Mistake(rate * sigma * clip_norm * batch, "the sum is divided by the batch size, not multiplied."),
            Mistake((rate * sigma * clip_norm / batch) ** 0.5, "this is the root of a standard deviation."),
            Mistake(
                sigma * clip_norm, "this is the noise on the sum. It still goes through division and learning rate."
            ),
            Mistake(rate * sigma * clip_norm / batch**2, "it is divided by the batch size twice."),
            Mistake(
                rate * sigma * clip_norm / batch**0.5,
                "the noise is drawn once for the batch, not once for each example.",
            ),
            Mistake((rate * sigma * clip_norm / batch) ** 2, "this is the variance."),
            Mistake((sigma * clip_norm / batch) ** 2, "this is a variance, and without the learning rate."),
        ],
        rel=1e-3,
    )


def check_printed_epsilon(answer: Any) -> None:
    """The epsilon of one printed step at sigma 4, delta 1e-5 and learning rate 8, on all data."""
    sigma, rate, delta = 4.0, 8.0, 1e-5
    epsilon = mechanisms.gaussian_epsilon
    checks.number(
        answer,
        expected=epsilon(sigma=sigma / rate, delta=delta),
        name="printed_epsilon",
        mistakes=[
            Mistake(epsilon(sigma=sigma, delta=delta), "this is what σ = 4 promises where the noise is in its place."),
            Mistake(
                epsilon(sigma=sigma * rate, delta=delta),
                "the learning rate makes the step larger, not the noise: divide σ by it.",
            ),
            Mistake(
                epsilon(sigma=sigma / rate**2, delta=delta),
                "the learning rate is used twice.",
            ),
            Mistake(
                rate * epsilon(sigma=sigma, delta=delta),
                "ε does not grow in proportion to the learning rate; the noise multiplier falls in proportion.",
            ),
            Mistake(
                epsilon(sigma=sigma / rate**0.5, delta=delta),
                "the learning rate is a factor of the step, not of its variance.",
            ),
            Mistake(
                epsilon(sigma=sigma / rate / 2, delta=delta),
                "the sensitivity is doubled: neighbours differ by one example, added or removed.",
            ),
            Mistake(
                epsilon(sigma=sigma**2, delta=delta),
                "σ is a standard deviation: it need not be squared, and the learning rate is missing.",
            ),
            Mistake(
                epsilon(sigma=sigma**2 / rate, delta=delta),
                "σ is a standard deviation: it need not be squared.",
            ),
            Mistake(
                epsilon(sigma=sigma**0.5 / rate, delta=delta),
                "σ is a standard deviation already: no root of it.",
            ),
            *(
                Mistake(
                    factor * epsilon(sigma=sigma, delta=delta),
                    "ε does not grow with a power of the learning rate; the noise multiplier falls in proportion.",
                )
                for factor in (rate**2, rate**0.5, 1 / rate)
            ),
            *(
                Mistake(
                    math.sqrt(2 * math.log(1.25 / delta)) / multiplier,
                    "this is the classical formula, which is proved for ε below 1 only, and is not exact.",
                )
                for multiplier in (sigma, sigma / rate)
            ),
            Mistake(sigma / rate, "this is the noise multiplier; asked is its ε."),
        ],
        rel=1e-3,
    )


# ---- Checks of items 4, 8 and 9 of chapter 05: why each example is clipped, what breaks it, and why B is fixed ----


_BATCH = 100


def _clipped_mean(gradients: Any) -> Any:
    """The mean over the expected batch of 100, clipped to norm 1."""
    mean = np.sum(gradients / _BATCH, axis=0)
    largest = max(1.0, float(np.abs(mean).max()))  # squares of 1e200 would overflow
    return mean / largest / max(1.0 / largest, float(np.linalg.norm(mean / largest)))


def _norm(gradients: Any) -> Any:
    with np.errstate(over="ignore"):  # infinite is long
        return np.linalg.norm(gradients, axis=-1)


def check_mean_moves(answer: Any) -> None:
    """100 gradients whose clipped mean moves by more than 2C/100 when the first of them is removed."""

    def read(value: Any) -> Any:
        try:
            raw = np.asarray(value)
            gradients = raw.astype(float) if raw.dtype.kind in "buifO" else None
        except (TypeError, ValueError):
            gradients = None
        if gradients is None:
            raise ValueError("give 100 gradients of 2 real numbers each, an array of shape (100, 2).")
        if gradients.shape != (_BATCH, 2):
            raise ValueError(
                f"give 100 gradients of 2 numbers each, an array of shape (100, 2), not {gradients.shape}."
            )
        if not np.isfinite(gradients).all():
            raise ValueError("every number must be finite.")
        return gradients

    def moved(value: Any) -> float:
        gradients = read(value)
        return float(np.linalg.norm(_clipped_mean(gradients) - _clipped_mean(gradients[1:])))

    def test(value: Any) -> str | None:
        distance = moved(value)
        if distance > 2 / _BATCH + 1e-9:
            return None
        return f"removing the first gradient moves the clipped mean by {distance:.3g}, which the claim allows."

    checks.counterexample(
        answer.detach() if hasattr(answer, "detach") else answer,
        test=test,
        name="mean_moves",
        mistakes=[
            Mistake(
                lambda value: float(_norm(read(value)).max()) <= 2 and moved(value) <= 2 / _BATCH + 1e-9,
                "has only short gradients: then no single one matters. Nothing in the claim keeps them short.",
            ),
            Mistake(
                lambda value: float(_norm(read(value)[0])) <= 2 < float(_norm(read(value)).max()),
                "has its long gradient in a place that stays. The first one is removed.",
            ),
            Mistake(
                lambda value: float(_norm(np.sum(read(value)[1:] / _BATCH, axis=0))) >= 1,
                "keeps a long mean after the removal: before and after, it is clipped to about the same vector.",
            ),
        ],
        shows=lambda value: (
            f"removing one of 100 moves the clipped mean by {moved(value):.3g}, and not by at most 0.02"
        ),
    )


def check_sound(answer: Any) -> None:
    """Which models can be trained by clipping each example, as they are."""
    checks.statements(
        answer,
        name="sound",
        expected={
            "a": (True, "GroupNorm uses the channels of one example only."),
            "b": (False, "in training, BatchNorm normalises each example by all others: there is no gradient of one."),
            "c": (True, "every example has its own mask, so that its loss depends on itself and on chance only."),
            "d": (False, "the mean has gradients 1/B as long: nothing is clipped, and the noise is set for C."),
            "e": (False, "a rule for each layer misses that both uses add up to one gradient, whose norm counts."),
            "f": (True, "what is not trained has no gradient, and does not count in the norm either."),
        },
    )


def check_divisor(text: Any) -> None:
    """Why the noisy sum is divided by the expected batch size, in two sentences."""
    checks.argument(
        text,
        name="divisor",
        minimum_words=25,
        must_mention={
            "the size of the batch": [
                *("size", "number", "count", "how many", "realised", "realized", "actual"),
                *("231", "230", "232", "divisor", "denominator"),
            ],
            "neighbouring datasets": [
                *(
                    "neighbour",
                    "neighbor",
                    "adjacent",
                    "add",
                    "remov",
                    "delet",
                    "join",
                    "leave",
                    "take part",
                    "takes part",
                ),
                *(
                    "one example",
                    "one record",
                    "one person",
                    "single",
                    "individual",
                    "participa",
                    "somebody",
                    "someone",
                ),
            ],
            "the sensitivity": [
                *("sensitiv", "moves", "move by", "changes by", "change by", "influence", "bounded", "leak", "reveal"),
                *("C/", "C /", "C divided", "rescale", "every other", "all other", "everybody else", "everyone else"),
                *("hides", "does not cover", "not cover", "post-processing", "postprocessing"),
            ],
        },
        rubric=[
            "The realised size depends on who is in the batch: adding or removing one example changes it, so dividing "
            "by it changes every other term of the mean too.",
            "The sensitivity of the quotient is then not C/B, and for a small batch much larger; the noise, set for C "
            "on the sum, no longer covers it.",
            "The expected size q n is a constant: dividing by it after the noise is post-processing.",
        ],
    )
