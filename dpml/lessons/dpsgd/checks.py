r"""The checks of the exercises of chapter 05, DP-SGD, in the order of its items.

Gradients are arrays with one row for each example. Neighbouring datasets differ by one example (add/remove). A step
releases

.. math::

    \frac{1}{B}\Bigl(\sum_i g_i \min\bigl(1, \tfrac{C}{\|g_i\|}\bigr) + N(0, \sigma^2 C^2 I)\Bigr).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml import arguments, mechanisms
from dpml.classroom import checks, laws
from dpml.classroom.calls import numbers
from dpml.classroom.checks import Mistake
from dpml.classroom.laws import Law
from dpml.classroom.verdict import shown

Array = NDArray[np.float64]

_TINY = 1e-12  # a noise multiplier with hardly any noise


def clipped(gradients: Array, clip_norm: float) -> Array:
    """Each row shortened to the clip norm, if it is longer."""
    return np.asarray(gradients * (clip_norm / np.maximum(_norms(gradients), clip_norm)))


def _norms(gradients: Array, *, order: float = 2, axis: int = 1) -> Array:
    powers = np.abs(gradients)
    norms = powers.max(axis=axis, keepdims=True, initial=0.0)
    if np.isfinite(order):
        norms = np.sum(powers**order, axis=axis, keepdims=True) ** (1 / order)
    return np.asarray(np.maximum(norms, 1e-300))


def _shrunk(gradients: Array, clip_norm: float, norms: Any) -> Array:
    return np.asarray(gradients * np.minimum(1.0, clip_norm / norms))


# Wrong functions of gradients and clip norm. Each text must fit a function of rows and a sum of them.
_WRONG: list[tuple[Callable[[Array, float], Array], str]] = [
    (
        lambda g, c: np.minimum(c, g / _norms(g)),
        "this is the printed rule: the minimum acts on coordinates, and not at all on negative ones.",
    ),
    (lambda g, c: g * c / _norms(g), "every gradient is brought to norm C, short ones too. Clipping only shortens."),
    (
        lambda g, c: np.clip(g, -c, c),
        "each coordinate is clipped. The norm may then still be up to the square root of p times C.",
    ),
    (
        lambda g, c: _shrunk(g, c, max(np.linalg.norm(g), 1e-300)),
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
    (lambda g, c: g, "nothing is clipped. Clipped, each row has norm at most C."),
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
    (lambda g, c: g / np.maximum(_norms(g), 1.0), "the clip norm is 1 in it, whatever clip_norm is."),
    (lambda g, c: g * (_norms(g) <= c), "long gradients are dropped. Clipping shortens them."),
    (
        lambda g, c: _shrunk(g, c, _norms(g) / np.sqrt(max(1, g.shape[1]))),
        "the norm is the root of a mean of squares. The Euclidean norm adds them up.",
    ),
    (lambda g, c: np.minimum(g, c), "the minimum acts on coordinates, and not at all on negative ones."),
    (
        lambda g, c: g * np.minimum(_norms(g), c),
        "each gradient is multiplied by its clipped norm. Its length must become that norm.",
    ),
]


def check_clip_rows(answer: Any) -> None:
    """Each row is shortened to the clip norm if it is longer, and kept otherwise."""

    def rows(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield {"gradients": np.array([[-5.0, 0.0]]), "clip_norm": 0.1}
        yield {"gradients": np.array([[3.0, 4.0], [0.3, 0.4]]), "clip_norm": 1.0}
        for m, p, clip_norm in ((1, 3, 1.0), (4, 2, 0.5), (6, 5, 2.0)):
            yield {"gradients": rng.normal(size=(m, p)) * rng.uniform(0.1, 4.0, size=(m, 1)), "clip_norm": clip_norm}
        yield {"gradients": np.zeros((2, 3)), "clip_norm": 1.0}

    def reference(gradients: Array, *, clip_norm: float) -> Array:
        return clipped(gradients, clip_norm)

    def factors(gradients: Array, clip_norm: float) -> Array:
        return clip_norm / np.maximum(_norms(gradients), clip_norm)

    def known(wrong: Any) -> Any:
        return lambda gradients, *, clip_norm: wrong(gradients, clip_norm)

    # The input without rows comes last: what fails everywhere is shown on an input that has some.
    checks.together(
        lambda: checks.function(
            answer,
            reference=reference,
            inputs=rows,
            name="clip_rows",
            mistakes=[
                *(Mistake(known(wrong), text) for wrong, text in _WRONG),
                Mistake(known(lambda g, c: np.minimum(_norms(g), c)[:, 0]), "these are the norms. Return the rows."),
                Mistake(known(lambda g, c: _norms(g)[:, 0]), "these are the norms. Return the rows."),
                Mistake(known(lambda g, c: factors(g, c)[:, 0]), "these are the factors. Return the rows times them."),
                Mistake(known(factors), "these are the factors. Return the rows times them."),
                Mistake(known(lambda g, c: clipped(g, c).sum(axis=0)), "the rows are added up. Return all of them."),
                Mistake(known(lambda g, c: clipped(g, c).mean(axis=0)), "this is the mean. Return all rows."),
                Mistake(
                    known(lambda g, c: g * factors(g, c)[:, 0]),
                    "the norms, of shape (m,), meet the coordinates of a row. Give each row a factor of its own.",
                ),
                Mistake(
                    known(lambda g, c: clipped(g, c) / g.any(axis=1, keepdims=True)),
                    "a row of zeros is divided by its norm, which is 0.",
                ),
            ],
            hint="Every row keeps its direction, has norm at most C, and stays as it is if it was within C.",
        ),
        lambda: checks.function(
            answer,
            reference=reference,
            inputs=[{"gradients": np.zeros((0, 3)), "clip_norm": 1.0}],
            name="clip_rows",
            mistakes=[
                Mistake(
                    known(lambda g, c: clipped(g, c) if len(g) else np.array([])),
                    "an array without rows still has its columns, which a list of no rows forgets. Keep its shape.",
                )
            ],
            hint="An array without rows has columns all the same, here 3.",
        ),
    )


def check_gradient_norms(answer: Any) -> None:
    """Norms of the per-example gradients of a linear layer with bias, without forming them."""

    def reference(inputs: Array, output_gradients: Array) -> Array:
        squares = np.sum(output_gradients**2, axis=1) * (np.sum(inputs**2, axis=1) + 1)
        return np.asarray(np.sqrt(squares))

    def cases(rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        yield np.array([[3.0, 4.0], [0.0, 0.0]]), np.array([[1.0], [2.0]])
        for m, i, o in ((2, 2, 2), (3, 4, 2), (5, 3, 6)):
            yield rng.normal(size=(m, i)), rng.normal(size=(m, o))

    def bare(a: Array) -> Array:
        return np.asarray(np.linalg.norm(a, axis=1))

    checks.function(
        answer,
        reference=reference,
        inputs=cases,
        name="gradient_norms",
        mistakes=[
            Mistake(lambda a, g: bare(a) * bare(g), "the bias is forgotten: its gradient is h itself."),
            Mistake(lambda a, g: (bare(a) * bare(g)) ** 2, "these are squares, and the bias is forgotten."),
            Mistake(lambda a, g: bare(g), "this is the gradient of the bias alone."),
            Mistake(
                lambda a, g: bare(a) * bare(g) + bare(g),
                "the norms of the two parts are added. Add their squares: weight and bias together are one vector.",
            ),
            Mistake(
                lambda a, g: bare(a) * bare(g) + 1,
                "the bias counts as 1. Its gradient is h itself, and squares are added.",
            ),
            Mistake(
                lambda a, g: np.sqrt((bare(a) * bare(g)) ** 2 + 1), "the bias counts as 1. Its gradient is h itself."
            ),
            Mistake(lambda a, g: reference(g, a), "inputs and output gradients have changed places."),
            Mistake(lambda a, g: reference(a, g) ** 2, "these are the squares of the norms."),
            Mistake(lambda a, g: reference(a, g) * bare(g), "one of the two factors is still squared."),
            Mistake(
                lambda a, g: reference(a, g) * np.sqrt(bare(a) ** 2 + 1), "one of the two factors is still squared."
            ),
            Mistake(
                lambda a, g: np.sqrt(np.sum(g**2, axis=1) + np.sum(a**2, axis=1) + 1),
                "the squared norms are added. An outer product multiplies them.",
            ),
            Mistake(
                lambda a, g: np.hypot(bare(g), bare(a)),
                "the squared norms are added. An outer product multiplies them.",
            ),
            Mistake(lambda a, g: bare(g) + bare(a), "the norms are added. An outer product multiplies them."),
            Mistake(
                lambda a, g: reference(a.T, g.T),
                "the sums run down the columns, over the examples. Each example has a norm of its own.",
            ),
            Mistake(lambda a, g: reference(a, g) / len(a), "it is divided by the number of examples."),
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
        hint="Follow the noise from the sum through the division and the learning rate.",
        rel=1e-3,
    )


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

    def read(value: Any) -> Array:
        return arguments.array("the answer", value, shape=(_BATCH, 2))

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
                "all gradients are short: then no single one matters. Nothing in the claim keeps them short.",
                example=np.zeros((_BATCH, 2)),
            ),
            Mistake(
                lambda value: float(_norm(read(value)[0])) <= 2 < float(_norm(read(value)).max()),
                "the long gradient is in a place that stays. The first one is removed.",
                example=np.eye(_BATCH)[::-1, :2] * 1000.0,
            ),
            Mistake(
                lambda value: float(_norm(np.sum(read(value)[1:] / _BATCH, axis=0))) >= 1,
                "the mean stays long after the removal: before and after, it is clipped to about the same vector.",
                example=np.full((_BATCH, 2), 50.0),
            ),
        ],
        shows=lambda value: (
            f"removing one of 100 moves the clipped mean by {moved(value):.3g}, and not by at most 0.02"
        ),
    )


# What is wrong with the size of the noise of one release, for any answer of items 5 and 6.
_NOISE: list[tuple[Callable[..., float], str]] = [
    (lambda *, scale, **_: scale**2, "σC is a standard deviation: it need not be squared."),
    (lambda *, scale, **_: math.sqrt(scale), "σC is not its variance."),
    (lambda *, scale, clip_norm, **_: scale / clip_norm, "it is not multiplied by the clip norm."),
    (lambda *, scale, clip_norm, **_: scale / clip_norm**2, "it is divided by the clip norm."),
    (lambda *, scale, clip_norm, **_: scale * clip_norm, "it is multiplied by the clip norm twice."),
    (lambda **_: 0.0, "there is no noise."),
    (
        lambda *, scale, rows, **_: scale * math.sqrt(rows),
        "each of the examples got noise. It is added once, to the whole sum.",
    ),
    (
        lambda *, scale, rows, **_: scale / max(1, rows),
        "it is divided by the number of examples. It is added once, to the whole sum.",
    ),
]


def _around(total: Array, deviation: float, *, shape: Callable[[float, float], Law] = laws.normal) -> list[Law]:
    """Independent noise on each coordinate."""
    return laws.each(total, lambda center: shape(center, deviation))


def released(
    answer: Any,
    *,
    name: str,
    cases: list[tuple[str, Callable[..., Any]]],
    law: Callable[..., list[Law]],
    settings: list[dict[str, Any]],
    wrong: list[Mistake],
) -> None:
    """A noisy sum of rows of three numbers: what it is without noise, and the law of what it releases."""
    f = checks.signature(answer, name=name, called={**settings[0], "rng": np.random.default_rng(0)}, returns=(3,))
    checks.together(
        lambda: checks.properties(f, name=name, cases=cases),
        lambda: checks.law(f, name=name, law=law, settings=settings, wrong=wrong),
    )


def _wrong_laws(law: Callable[..., list[Law]], sizes: list[tuple[Callable[..., float], str]]) -> list[Mistake]:
    """The law with noise of these wrong sizes, with none where nobody was drawn, and with Laplace noise."""

    def of_size(size: Callable[..., float]) -> Callable[..., list[Law]]:
        def wrong(gradients: Array, *, clip_norm: float, sigma: float, noise: float = 1.0, **rest: Any) -> list[Law]:
            scale = sigma * clip_norm
            factor = size(scale=scale, clip_norm=clip_norm, rows=len(gradients), **rest) / scale
            named = {"clip_norm": clip_norm, "sigma": sigma, "noise": noise * factor, **rest}
            shape = {} if factor else {"shape": lambda center, _: laws.certain(center)}
            return law(gradients, **named, **shape)

        return wrong

    def none_for_nobody(gradients: Array, **rest: Any) -> list[Law]:
        return law(gradients, **rest) if len(gradients) else [laws.certain(0.0)] * gradients.shape[1]

    def double_exponential(gradients: Array, *, noise: float = 1.0, **rest: Any) -> list[Law]:
        return law(gradients, noise=noise / math.sqrt(2), shape=laws.laplace, **rest)

    return [
        *(Mistake(of_size(size), text) for size, text in [*_NOISE, *sizes]),
        Mistake(
            none_for_nobody,
            "an empty batch gets no noise, which shows that nobody was drawn. It is added once, to the sum, even if "
            "nothing is in it.",
        ),
        Mistake(double_exponential, "it is Laplace noise. σ is the multiplier of Gaussian noise."),
    ]


def _batch(rows: int, *, longest: float = 30.0) -> Array:
    return np.random.default_rng(7).normal(size=(rows, 3)) * np.geomspace(0.1, longest, rows)[:, None]


def _without_noise(
    f: Any, batch: Array, right: Array, known: Callable[[], Iterable[tuple[Any, str]]], **named: Any
) -> bool | str:
    """Whether it is right at a tiny σ; else which of the known wrong vectors came."""
    came = []
    for seed in (0, 1):
        value = f(batch, sigma=_TINY, rng=np.random.default_rng(seed), **named)
        values = numbers(value, right.shape)
        if values is None:
            return f"it must return {len(right)} finite numbers; it returned {shown(value)}."
        came.append(np.array(values))
    if float(np.abs(came[0] - came[1]).max()) > 1e-5:
        return (
            f"at a tiny σ, {_TINY:g}, it still has noise, which must be in proportion to σ. (The first argument of "
            "rng.normal is the mean, the second one the standard deviation.)"
        )

    def close(wrong: Any) -> bool:
        return np.shape(wrong) == right.shape and np.allclose(came[0], wrong, rtol=1e-4, atol=5e-6)

    if close(right):
        return True
    text = next((text for wrong, text in known() if close(wrong)), "compare it on paper.")
    return f"for {len(batch)} gradients it is another vector: {text}"


def check_noisy_mean(answer: Any) -> None:
    """The mean gradient of a batch, with the noise of DP-SGD."""
    name, batch, clip_norm, expected = "noisy_mean", _batch(30), 0.5, 40
    total = clipped(batch, clip_norm).sum(axis=0)

    def known() -> Iterator[tuple[Any, str]]:
        yield (
            total / len(batch),
            "it divides by the number of examples that are there. Divide by expected_batch: it is the same for "
            "neighbours.",
        )
        yield total, "this is the noisy sum. Divide it by expected_batch."
        yield total / expected**2, "it is divided by the batch size twice."
        yield clipped(total[None], clip_norm)[0] / expected, "the sum is clipped once more. Clip each example only."
        yield 0 * total, "every number is 0."
        yield -total / expected, "its sign is turned. The optimizer subtracts it."
        yield clipped(batch[:1], clip_norm)[0] / expected, "only the first example is in it."
        yield clipped(batch[-1:], clip_norm)[0] / expected, "only the last example is in it."
        for mean in (batch.sum(axis=0) / expected, batch.mean(axis=0)):
            yield (
                clipped(mean[None], clip_norm)[0],
                "the mean is clipped and not each example: one example alone decides it.",
            )
        yield (clipped(batch.sum(axis=0)[None], clip_norm)[0] / expected, "the sum is clipped and not each example.")
        for wrong, text in _WRONG:
            yield wrong(batch, clip_norm).sum(axis=0) / expected, text

    def exact(f: Any) -> bool | str:
        return _without_noise(f, batch, total / expected, known, clip_norm=clip_norm, expected_batch=expected)

    def law(
        gradients: Array, *, clip_norm: float, sigma: float, expected_batch: int, noise: float = 1.0, **shape: Any
    ) -> list[Law]:
        total = clipped(gradients, clip_norm).sum(axis=0)
        return _around(total / expected_batch, noise * sigma * clip_norm / expected_batch, **shape)

    settings = checks.settings(
        "gradients clip_norm sigma expected_batch",
        (_batch(64), 2.0, 1.5, 256),
        (np.zeros((0, 3)), 2.0, 1.5, 256),
        (_batch(3), 0.5, 1.2, 40),
        (0.01 * _batch(50), 2.0, 1.5, 40),  # all are short, and more than expected
    )
    sizes = [
        (
            lambda *, scale, expected_batch, **_: scale / expected_batch,
            "noise for the mean is added to the sum, and divided once more.",
        ),
        (
            lambda *, scale, expected_batch, **_: scale * expected_batch,
            "the noise is scaled to the sum, and added to the mean. Add it before you divide.",
        ),
        (
            lambda *, scale, expected_batch, **_: scale * math.sqrt(expected_batch),
            "the noise is divided by the root of the batch size.",
        ),
    ]
    case = "with hardly any noise it is the sum of the clipped gradients over expected_batch", exact
    released(answer, name=name, cases=[case], law=law, settings=settings, wrong=_wrong_laws(law, sizes))


def check_noisy_sum(answer: Any) -> None:
    """The sum of clipped gradients, `size` examples at a time, with the noise of one release."""
    name, batch, clip_norm = "noisy_sum", _batch(10, longest=3.0), 0.8
    right = clipped(batch, clip_norm).sum(axis=0)

    def sum_of(rows: Any) -> Array:
        return np.asarray(clipped(np.array(rows), clip_norm).sum(axis=0))

    def known(size: int) -> Iterator[tuple[Any, str]]:
        pieces = [batch[s : s + size] for s in range(0, len(batch), size)]
        yield right / len(batch), "it is the mean. Return the sum."
        yield sum(sum_of(p) / len(p) for p in pieces), "means of the pieces are added. Add sums."
        yield np.mean([sum_of(p) / len(p) for p in pieces], axis=0), "it is a mean of means. Return the sum."
        yield right / size, "it is divided by size. Return the sum."
        yield right / len(pieces), "it is divided by the number of pieces. Return the sum."
        yield sum_of(batch[: len(batch) // size * size]), "the last piece, which is not full, is dropped."
        yield sum_of(pieces[0]), "only the first piece is in it: is the return inside the loop?"
        yield sum_of(pieces[-1]), "only the last piece is left: add the pieces up."
        yield sum_of([p.sum(axis=0) for p in pieces]), "the sum of each piece is clipped, and not each example."
        yield sum_of([p.mean(axis=0) for p in pieces]), "the mean of each piece is clipped, and not each example."
        yield sum_of([batch.sum(axis=0)]), "the sum of all is clipped, and not each example."
        yield sum_of([right]), "the sum is clipped once more. Only each example is clipped."
        yield -right, "its sign is turned."
        for wrong, text in _WRONG:
            yield wrong(batch, clip_norm).sum(axis=0), text
            yield sum(wrong(p, clip_norm).sum(axis=0) for p in pieces), text

    def exact(f: Any) -> bool | str:
        for size in (4, 10, 5, 3, 1, 64):
            found = _without_noise(f, batch, right, partial(known, size), clip_norm=clip_norm, size=size)
            if isinstance(found, str):
                return f"at size {size}, {found}"
        return True

    def law(
        gradients: Array, *, clip_norm: float, sigma: float, size: int, noise: float = 1.0, **shape: Any
    ) -> list[Law]:
        return _around(clipped(gradients, clip_norm).sum(axis=0), noise * sigma * clip_norm, **shape)

    def pieces(*, rows: int, size: int, **_: float) -> int:
        return max(1, -(-rows // size))

    def of_piece(*, size: int, **_: float) -> int:
        return size

    def times(what: Callable[..., int], power: float, *, scale: float, **named: Any) -> float:
        return scale * math.pow(what(**named), power)

    powers = [(1.0, "multiplied by"), (-1.0, "divided by"), (-0.5, "divided by the root of")]
    rooted = 0.5, "multiplied by the root of"
    once = "One release gets noise once, on the whole sum."
    settings = checks.settings(
        "gradients clip_norm sigma size",
        (_batch(40), 3.0, 1.5, 8),
        (_batch(12), 3.0, 1.5, 12),
        (_batch(12), 0.5, 4.0, 1),
        (0.01 * _batch(12), 3.0, 1.5, 5),
        (np.zeros((0, 3)), 3.0, 1.5, 8),
    )
    sizes: list[tuple[Callable[..., float], str]] = [
        (
            lambda *, scale, rows, size, **_: scale * math.sqrt(-(-rows // size)),
            f"each of the pieces got noise. {once}",
        ),
        *((partial(times, pieces, p), f"it is {how} the number of pieces. {once}") for p, how in powers),
        *((partial(times, of_piece, p), f"it is {how} size. {once}") for p, how in (*powers, rooted)),
    ]
    case = "without noise it is the sum of the clipped gradients, for every size", exact
    released(answer, name=name, cases=[case], law=law, settings=settings, wrong=_wrong_laws(law, sizes))


def check_printed_epsilon(answer: Any) -> None:
    """The epsilon of one printed step at sigma 4, delta 1e-5 and learning rate 8, on all data."""
    sigma, rate, delta = 4.0, 8.0, 1e-5

    def epsilon(multiplier: float) -> float:
        return mechanisms.gaussian_epsilon(sigma=multiplier, delta=delta)

    checks.number(
        answer,
        expected=epsilon(sigma / rate),
        name="printed_epsilon",
        mistakes=[
            Mistake(epsilon(sigma), "this is what σ = 4 promises where the noise is in its place."),
            Mistake(epsilon(sigma * rate), "the learning rate makes the step larger, not the noise: divide σ by it."),
            Mistake(epsilon(sigma / rate**2), "the learning rate is used twice."),
            Mistake(
                rate * epsilon(sigma),
                "ε does not grow in proportion to the learning rate; the noise multiplier falls in proportion.",
            ),
            Mistake(epsilon(sigma / rate**0.5), "the learning rate is a factor of the step, not of its variance."),
            Mistake(
                epsilon(sigma / rate / 2),
                "the sensitivity is doubled: neighbours differ by one example, added or removed.",
            ),
            Mistake(
                epsilon(sigma**2),
                "σ is a standard deviation: it need not be squared, and the learning rate is missing.",
            ),
            Mistake(epsilon(sigma**2 / rate), "σ is a standard deviation: it need not be squared."),
            *(
                Mistake(
                    factor * epsilon(sigma),
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
        hint="How far can one example move θ, in standard deviations of the noise?",
        rel=1e-3,
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
        rubric=[
            "The realised size depends on who is in the batch: adding or removing one example changes it, so dividing "
            "by it changes every other term of the mean too.",
            "The sensitivity of the quotient is then not C/B, and for a small batch much larger; the noise, set for C "
            "on the sum, no longer covers it.",
            "250 is a constant, fixed without the data: dividing by it after the noise is post-processing. (q n with "
            "the data's own n is no constant under add/remove.)",
        ],
        question="A record joins and is drawn: how large is the batch with it, and how large without it?",
    )


def check_noise_loss(answer: Any) -> None:
    """The privacy loss of noise whose scale tells the number of records."""

    def loss(y: Array, n: int, scale: float, *, less: int = 1, factor: float = 0.5, constants: float = 1.0) -> float:
        """Of noise of deviation scale/n against scale/(n - less)."""
        squares = factor * float(np.sum(y**2)) * (n**2 - (n - less) ** 2) / scale**2
        return constants * len(y) * math.log(n / (n - less)) - squares

    def known(wrong: Callable[[Array, int, float], Any]) -> Callable[..., Any]:
        return lambda released, *, n, q, sigma, clip_norm: wrong(released, n, sigma * clip_norm / q)

    def each(y: Array, n: int, scale: float) -> Array:
        return np.array([loss(y[j : j + 1], n, scale) for j in range(len(y))])

    def cases(rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        yield {"released": np.array([1.0]), "n": 2, "q": 1.0, "sigma": 1.0, "clip_norm": 1.0}
        for n, size in ((3, 2), (20, 5), (200, 1000)):
            noise = {"q": 0.25, "sigma": 1.5, "clip_norm": 3.0}
            yield {"released": rng.normal(scale=18.0 / n, size=size), "n": n, **noise}

    scales: list[tuple[Callable[..., float], str]] = [
        (lambda q, sigma, clip_norm: sigma * clip_norm, "q is missing in the divisor q n."),
        (lambda q, sigma, clip_norm: sigma / q, "the clip norm is missing: the noise on the sum has deviation σ C."),
        (lambda q, sigma, clip_norm: clip_norm / q, "σ is missing: the noise on the sum has deviation σ C."),
        (lambda q, sigma, clip_norm: sigma * clip_norm * q, "the sum is divided by q n, and not by n / q."),
    ]
    checks.function(
        answer,
        reference=known(loss),
        inputs=cases,
        name="noise_loss",
        mistakes=[
            Mistake(known(lambda y, n, s: -loss(y, n, s)), "its sign is turned: n records stand in the numerator."),
            Mistake(
                known(lambda y, n, s: loss(y, n, s, constants=0.0)),
                "the factor 1/s of the densities is left out. It depends on n too, in each coordinate.",
            ),
            Mistake(
                known(lambda y, n, s: loss(y, n, s, constants=1 / len(y))),
                "the factor 1/s of the densities counts once for each coordinate, and not once in all.",
            ),
            Mistake(
                known(lambda y, n, s: loss(y, n, s, constants=-1.0)),
                "the factor 1/s of the densities is turned upside down: less noise is a higher peak.",
            ),
            Mistake(known(lambda y, n, s: loss(y, n, s, factor=1.0)), "the exponent of a normal density is halved."),
            Mistake(known(lambda y, n, s: loss(y, n, s, less=-1)), "the neighbour has one record less, not one more."),
            Mistake(
                known(lambda y, n, s: loss(y, n, s) / len(y)),
                "this is the mean over the coordinates. They are independent: their losses add up.",
            ),
            Mistake(known(each), "these are the losses of the coordinates. They are independent: add them up."),
            Mistake(known(lambda y, n, s: math.exp(loss(y, n, s))), "this is the ratio. The loss is its logarithm."),
            Mistake(
                known(lambda y, n, s: 0.0),
                "the noise on the sum does not depend on n, but what is released was divided by q n.",
            ),
            *(
                Mistake(
                    lambda released, *, n, q, sigma, clip_norm, scale=scale: loss(
                        released, n, scale(q=q, sigma=sigma, clip_norm=clip_norm)
                    ),
                    text,
                )
                for scale, text in scales
            ),
        ],
        hint="It is log N(y; 0, s_n^2) less log N(y; 0, s_(n-1)^2), added up over the coordinates.",
    )
