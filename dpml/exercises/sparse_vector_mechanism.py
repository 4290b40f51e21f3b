"""Checks of items of chapter 08 that ask for AboveThreshold, and for an output that gives a broken variant away."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc

from dpml.classroom import checks, verdict
from dpml.classroom.checks import Mistake
from dpml.classroom.comparison import unwrap
from dpml.classroom.runs import quiet
from dpml.pate.sparse_vector_outcomes import outcome_log_probability

__all__ = ["check_first_above", "check_giveaway"]

_RUNS = 8000
_STREAMS = (((0.0, 0.0, 0.0, 0.0), 0.0), ((3.45, 0.45, 6.45), 5.0))  # answers, threshold
_EPSILON = 2.0
_OTHER_LAW = (
    "they do not follow the law of the asked noise. Compare the two scales, the kind of noise, and when each is drawn."
)


def _law(stream: tuple[float, ...], threshold: float, b1: float, b2: float) -> NDArray[np.float64]:
    """The probabilities of first above at 0, 1, ... and of never, for one noisy threshold."""
    scales = {"threshold": threshold, "threshold_scale": b1 / _EPSILON, "query_scale": b2 / _EPSILON}
    k = len(stream)
    stops = [math.exp(outcome_log_probability(stream[: i + 1], above=[0] * i + [1], **scales)) for i in range(k)]
    return np.array([*stops, math.exp(outcome_log_probability(stream, above=[0] * k, **scales))])


def _fresh_law(stream: tuple[float, ...], threshold: float) -> NDArray[np.float64]:
    """The same if the threshold gets new noise for every query: independent comparisons."""
    one = [_law((value,), threshold, 2.0, 4.0)[0] for value in stream]
    left = np.cumprod([1.0, *(1 - p for p in one)])
    return np.array([*(left[i] * p for i, p in enumerate(one)), left[-1]])


def _wrong_laws(stream: tuple[float, ...], threshold: float) -> dict[str, NDArray[np.float64]]:
    return {
        "they follow the law without noise on the threshold. Then every query below costs, not only the last.": _law(
            stream, threshold, 0.0, 4.0
        ),
        "they follow the law with new noise on the threshold for every query. It must be drawn once, or it hides "
        "nothing together.": _fresh_law(stream, threshold),
        "they follow the law of query noise Lap(2/epsilon): the query above must hide a shift of 2.": _law(
            stream, threshold, 2.0, 2.0
        ),
        "they follow the law with both scales half as large: that costs twice epsilon.": _law(
            stream, threshold, 1.0, 2.0
        ),
        "they follow the law with the two scales exchanged.": _law(stream, threshold, 4.0, 2.0),
        "they follow the law with Lap(4/epsilon) on the threshold too: private, but with more noise than asked.": _law(
            stream, threshold, 4.0, 4.0
        ),
        "they follow the law with both scales twice as large: more noise than the given epsilon needs.": _law(
            stream, threshold, 4.0, 8.0
        ),
        "they follow the law for the threshold 0, whatever threshold is given.": _law(stream, 0.0, 2.0, 4.0),
        "they follow the law of scales multiplied by epsilon. A smaller epsilon needs more noise.": _law(
            stream, threshold, 2.0 * _EPSILON**2, 4.0 * _EPSILON**2
        ),
        "they follow the law of strictly no noise on the queries: then outputs of D can be impossible for D'.": _law(
            stream, threshold, 2.0, 0.0
        ),
    }


def check_first_above(answer: Any) -> None:
    """AboveThreshold: the index of the first query above, or None, with Lap(2/epsilon) and Lap(4/epsilon)."""
    name = "first_above"
    f = verdict.require_function(answer, name=name)
    if verdict.unfit(f, (None,), dict.fromkeys(("threshold", "epsilon", "rng"))):
        raise checks.NotYet(
            f"Your {name} is called with the stream, and with threshold, epsilon and rng by name: keep the parameter "
            "names."
        )

    def right(stream: Any, rng: np.random.Generator) -> float:
        t = rng.laplace(scale=2.0)
        return float(next((i for i, v in enumerate(stream) if v + rng.laplace(scale=4.0) >= t), len(stream)))

    def asks(stream: Any, rng: np.random.Generator) -> Any:
        came = f(stream, threshold=0.0, epsilon=1.0, rng=rng)
        return float(len(stream)) if came is None else came

    pair = (np.zeros(5), np.array([1.0, 1.0, 1.0, 1.0, -1.0]))
    _require_index(f, name=name)
    with redirect_stdout(io.StringIO()) as success:
        checks.mechanism(
            asks,
            name=name,
            reference=right,
            neighbours=[pair],
            epsilon=1.0,
            trials=4000,
            slack=4.0,
            mistakes=[
                Mistake(
                    lambda stream, rng: float(next((i for i, v in enumerate(stream) if v >= 0.0), len(stream))),
                    "there is no noise at all, or always the same: the exact first query above is released.",
                ),
            ],
        )
    _require_law(f, name=name)
    print(success.getvalue(), end="")


def _require_index(f: Callable[..., Any], *, name: str) -> None:
    """The kind of output, on answers so far away from the threshold that noise does not matter."""
    rng = np.random.default_rng(80)
    for stream, expected in (([-1e6, 1e6, -1e6, 1e6], 1), ([-1e6, -1e6], None), ([1e6], 0)):
        with quiet():
            try:
                came = f(np.array(stream), threshold=0.0, epsilon=1.0, rng=rng)
            except NotImplementedError:
                verdict.not_written(name)
            except Exception as error:
                raise checks.NotYet(f"{name} stops with {verdict.explained(error)} on the answers {stream}.") from None
        if came is Ellipsis:
            verdict.not_written(name)
        came = unwrap(came) if getattr(came, "shape", None) == () else came
        if isinstance(came, float) and math.isfinite(came) and not came.is_integer():
            raise checks.NotYet(
                f"{name} returned {verdict.shown(came)}: that is a value of a query. Release the index of the first "
                "query above, and nothing of its value."
            )
        whole = isinstance(came, (int, float)) and not isinstance(came, bool)
        if came is not None and not whole and (expected is not None or not isinstance(came, (bool, str))):
            raise checks.NotYet(f"{name} returned {verdict.shown(came)}. Return one index, or None.")
        if came != expected:
            more = _wrong_index(came, expected, last=3)
            raise checks.NotYet(
                f"{name} returned {verdict.shown(came)} for the answers {stream} and the threshold 0, all of them far "
                f"from it.{more}"
            )


def _wrong_index(came: Any, expected: int | None, *, last: int) -> str:
    """What to look at if the index is another one on the answers of `_require_index`."""
    if expected is None:
        return " None stands for: none was above."
    if came is None:
        return " Some answer is far above. Is a return missing, or does the loop end too early?"
    if came == last:
        return " Stop at the first one above."
    if came == expected + 1:
        return " Queries are counted from 0."
    if came in (0, last - 1):
        return " That one is below. Which way round is the comparison?"
    return " Return the index counted from 0."


def _require_law(f: Callable[..., Any], *, name: str) -> None:
    """Compare 8000 outputs with the exact law. A right answer is refused with probability below 1e-7."""
    rng = np.random.default_rng(81)
    misfit, degrees, best_fit = 0.0, 0, 0.0
    fits: dict[str, float] = {}
    for stream, threshold in _STREAMS:
        places = [_place(f, stream, threshold, rng, name=name) for _ in range(_RUNS)]
        counts = np.bincount(places, minlength=len(stream) + 1)
        right = _law(stream, threshold, 2.0, 4.0)
        misfit += float(((counts - _RUNS * right) ** 2 / (_RUNS * right)).sum())
        degrees += len(stream)
        best_fit += float(counts @ np.log(np.maximum(counts, 1) / _RUNS))
        for text, law in _wrong_laws(stream, threshold).items():
            fits[text] = fits.get(text, 0.0) + float(counts @ np.log(law + 1e-12))
    if gammaincc(degrees / 2, misfit / 2) > 1e-7:
        return
    best = max(fits, key=lambda text: fits[text])
    known = fits[best] > best_fit - 25.0
    text = best if known else _OTHER_LAW
    raise checks.NotYet(f"{name}: {_RUNS} outputs for each of two lists of answers were counted; {text}")


def _place(f: Callable[..., Any], stream: Any, threshold: float, rng: np.random.Generator, *, name: str) -> int:
    """Where it stopped in one run; the length of the stream if nowhere."""
    with quiet():
        try:
            came = unwrap(f(np.array(stream), threshold=threshold, epsilon=_EPSILON, rng=rng))
        except Exception as error:
            raise checks.NotYet(
                f"{name} stops with {verdict.explained(error)} on the answers {list(stream)} and the threshold "
                f"{threshold:g}."
            ) from None
    if came is None:
        return len(stream)
    if not isinstance(came, (int, float)) or came not in range(len(stream)):
        raise checks.NotYet(
            f"{name} returned {verdict.shown(came)} for the answers {list(stream)} and the threshold {threshold:g}. "
            "Return one index, or None."
        )
    return int(came)


def check_giveaway(answer: Any) -> None:
    """An output of the variant without query noise that D can give and D' never can: (stream, other, bits)."""

    def test(triple: Any) -> str | None:
        if isinstance(triple, (str, Mapping)) or not isinstance(triple, Iterable) or len(list(triple)) != 3:
            raise ValueError("it needs a tuple of three lists: the answers on D, those on D', and the output")
        d, d_prime = (_numbers(values, "the answers") for values in list(triple)[:2])
        bits = _numbers(list(triple)[2], "the output")
        if not np.isin(bits, (0, 1)).all():
            raise ValueError("the output holds 1 for above and 0 for below, and nothing else")
        ups = bits.astype(int)
        if not (d.ndim == 1 and d.shape == d_prime.shape == ups.shape and len(d) > 0):
            raise ValueError("it needs two lists of answers and one of bits, all of the same length")
        if np.abs(d - d_prime).max() > 1 + 1e-12:
            raise ValueError("between neighbours every answer changes by at most 1")
        noise = {"threshold": 0.0, "threshold_scale": 2.0, "query_scale": 0.0}
        first, second = (outcome_log_probability(v, above=ups, **noise) for v in (d, d_prime))
        if first == -math.inf:
            return (
                "this output is impossible for the first dataset: one of its answers marked below is at least as large "
                "as one marked above."
            )
        if second > -math.inf:
            return f"both datasets can give it; the loss is {first - second:.3g}, and asked is an infinite one."
        return None

    checks.counterexample(answer, name="giveaway", test=test, shows=lambda _: "D can give these bits, and D' never can")


def _numbers(values: Any, what: str) -> NDArray[np.float64]:
    """A list of finite numbers as an array; truth values count as 0 and 1."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{what} must be one list of numbers") from None
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise ValueError(f"{what} must be finite numbers")
    return array.astype(float)
