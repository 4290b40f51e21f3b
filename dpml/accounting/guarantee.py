r"""A privacy number with its label.

A mechanism M is (epsilon, delta)-differentially private if, for all neighbouring datasets D, D' and all events E,

.. math::

    P(M(D) \in E) \le e^{\varepsilon} P(M(D') \in E) + \delta .

The two numbers mean nothing alone. `Guarantee` keeps with them what they stand for: whether the number is exact,
an upper bound or only an approximation, which datasets count as neighbours, and how records were drawn.
`Bounds` is for a number known from both sides; only the upper side is a promise.

Rounding. The closed forms of the package (composition, amplification, calibrations of Laplace noise) are rounded to the
nearest float, so that an upper bound holds up to a relative error of about 1e-15, and ten times 0.1 is 1. Accountants
that add up many numbers count their own errors and round the total upward.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from dpml import arguments

__all__ = ["ADJACENCIES", "KINDS", "PUBLIC", "SAMPLINGS", "Bounds", "Guarantee"]

KINDS = ("exact", "upper bound", "approximation")
"""What a number may be. An approximation may lie below the truth and is not a promise."""

ADJACENCIES = ("add/remove", "replace-one", "as the mechanism's", "group")
"""Which datasets are neighbours. "as the mechanism's": the same as for the mechanism that the number was made from.
"group": datasets several steps of that relation apart, as many as the group has members."""

SAMPLINGS = ("none", "Poisson", "without replacement", "with replacement", "mixed")
"""How records were drawn before the mechanism ran. "mixed": several mechanisms that differ in this."""

PUBLIC = ("none", "n")
"""What a guarantee takes as public although neighbours differ in it. "n": a divisor or a limit was computed from the
number of records, so the promise covers what the release tells beyond n, and n itself is not protected."""

_NEIGHBOURS = {
    "add/remove": "for neighbours that differ by one record added or removed",
    "replace-one": "for neighbours that differ in one replaced record",
    "as the mechanism's": "for the neighbours of the mechanism it was made from",
    "group": "for datasets as many steps apart as the group is large",
}
_TAKEN = {"none": "", "n": ", with n taken as public"}
_DRAWN = {
    "none": "",
    "Poisson": ", with Poisson sampling",
    "without replacement": ", with sampling without replacement",
    "with replacement": ", with sampling with replacement",
    "mixed": ", with several kinds of sampling",
}


@dataclass(frozen=True)
class Guarantee:
    """(epsilon, delta)-differential privacy: what holds, for which neighbours, under which sampling.

    `epsilon` is in [0, inf]; infinity says that nothing is known at this delta. `delta` is in [0, 1]. `order` is the
    Rényi order in (1, inf) at which the number was found, or None; `public` is one of `PUBLIC`. As text it is a plain
    sentence, whose numbers are rounded up, so that the sentence is true as well; one that promises nothing shows delta
    as it is.

    Raises:
        ValueError: for a number outside its range or a label that is not in `KINDS`, `ADJACENCIES`, `SAMPLINGS` or
            `PUBLIC`.

    Source: Dwork and Roth, "The algorithmic foundations of differential privacy", Definition 2.4.
    """

    epsilon: float
    _: KW_ONLY
    delta: float
    kind: str
    adjacency: str
    sampling: str = "none"
    order: float | None = None
    public: str = "none"

    def __post_init__(self) -> None:
        _set(self, "epsilon", _epsilon("epsilon", self.epsilon))
        _set(self, "delta", arguments.probability("delta", self.delta))
        arguments.choice("kind", self.kind, KINDS)
        arguments.choice("adjacency", self.adjacency, ADJACENCIES)
        arguments.choice("sampling", self.sampling, SAMPLINGS)
        arguments.choice("public", self.public, PUBLIC)
        if self.order is not None:
            _set(self, "order", arguments.real("order", self.order, 1.0, low_open=True))

    def __str__(self) -> str:
        delta = _round(self.delta, ROUND_CEILING)
        found = "" if self.order is None else f"; found at Rényi order {_shortest(self.order)}"
        where = f"{_NEIGHBOURS[self.adjacency]}{_DRAWN[self.sampling]}{_TAKEN[self.public]}{found}."
        if math.isinf(self.epsilon):
            return f"No epsilon is known to hold at delta = {_shortest(self.delta)}, {where}"
        epsilon = _round(self.epsilon, ROUND_CEILING)
        if self.kind == "approximation":
            return f"epsilon is about {epsilon} at delta = {delta} (an approximation, not a guarantee), {where}"
        return f"epsilon is at most {epsilon} at delta = {delta} ({self.kind}), {where}"


@dataclass(frozen=True)
class Bounds:
    """A true epsilon known to lie in [lower, upper] at this delta. Quote `upper`: only that side is a promise.

    `lower` says how much a better analysis could still gain; `upper` may be infinite. `guarantee()` is the upper
    side with its label.

    Raises:
        ValueError: for a number outside its range, lower > upper, or a label that `Guarantee` would refuse.

    Source: definition; Dwork and Roth, "The algorithmic foundations of differential privacy", Definition 2.4.
    """

    lower: float
    _: KW_ONLY
    upper: float
    delta: float
    adjacency: str
    sampling: str = "none"

    def __post_init__(self) -> None:
        _set(self, "lower", arguments.real("lower", self.lower, 0.0))
        _set(self, "upper", _epsilon("upper", self.upper))
        if self.lower > self.upper:
            raise ValueError(f"upper must be in [{self.lower:g}, inf], got {self.upper!r}")
        _set(self, "delta", arguments.probability("delta", self.delta))
        arguments.choice("adjacency", self.adjacency, ADJACENCIES)
        arguments.choice("sampling", self.sampling, SAMPLINGS)

    def guarantee(self) -> Guarantee:
        """Return the side that is safe to quote.

        Source: definition of an upper bound.
        """
        return Guarantee(
            self.upper, delta=self.delta, kind="upper bound", adjacency=self.adjacency, sampling=self.sampling
        )

    def __str__(self) -> str:
        lower, upper = _round(self.lower, ROUND_FLOOR), _round(self.upper, ROUND_CEILING)
        where = f"{_NEIGHBOURS[self.adjacency]}{_DRAWN[self.sampling]}"
        delta = _shortest(self.delta)  # the lower side claims something at exactly this delta
        return f"epsilon lies between {lower} and {upper} at delta = {delta}, {where}; quote the upper side."


def _set(instance: object, name: str, value: float) -> None:
    object.__setattr__(instance, name, value)  # a frozen dataclass allows this only before anyone sees it


def _epsilon(name: str, value: float) -> float:
    if isinstance(value, float) and value == math.inf:
        return math.inf
    try:
        return arguments.real(name, value, 0.0)
    except ValueError as error:
        raise ValueError(str(error).replace("[0, inf)", "[0, inf]")) from None


def _round(value: float, direction: str) -> str:
    """Six significant digits, rounded in the given direction from the shortest decimal form."""
    if math.isinf(value):
        return "infinity"
    number = Decimal(repr(value))
    if value < 1e-300:  # the few digits of a subnormal number may be off by half of it
        number = (max if direction == ROUND_CEILING else min)(number, Decimal(value))
    rounded = Context(prec=6, rounding=direction).plus(number)
    text = f"{float(rounded):.6g}"
    return text if Decimal(text) == rounded else str(rounded.normalize()).lower()  # at the ends of the range of floats


def _shortest(value: float) -> str:
    return repr(value).removesuffix(".0")
