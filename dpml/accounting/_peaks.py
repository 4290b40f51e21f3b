r"""Where the integrand of a log-moment lives.

Up to slowly varying factors the integrand of $\mathbb E[(1+u)^p]$ is $e^{-x^2/2 + p\,y(x)}$ with y as in
`dpml.accounting._subsampled_gaussian`. The derivative of the exponent is $-x + p\,s(x)/\sigma$, where
$s = q e^w/(1 - q + q e^w)$ is the part of the mixture that comes from N(1, .); s increases from 0 to 1. So there is
one peak, or there are two with a valley between: near 0 and near $p/\sigma$. For large orders they lie thousands of
deviations apart, and nodes between them would be wasted. Where u is small the terms are of the order of u^2, whose
peak is at $2/\sigma$: it is always kept.
"""

from __future__ import annotations

import math

import numpy as np

Spans = list[tuple[float, float]]  # disjoint intervals

TAIL = 9.5  # standard deviations kept on either side of a peak
LARGE = 60.0  # from e^60 on, a moment less 1 is the moment


def log_odds(q: float) -> float:
    """log((1-q)/q)."""
    return math.log1p(-q) - math.log(q)


def share(x: float, q: float, sigma: float) -> float:
    """The part of mu that comes from N(1, .) at x: the derivative of y with respect to w."""
    t = (x - 0.5 / sigma) / sigma - log_odds(q)
    return 1.0 / (1.0 + math.exp(-t)) if t > -700.0 else 0.0


def loss(x: float, q: float, sigma: float) -> float:
    w = (x - 0.5 / sigma) / sigma
    if w < 690.0 and q < 0.9:
        return math.log1p(q * math.expm1(w))
    return float(np.logaddexp(math.log1p(-q), math.log(q) + w))


def spans(order: float, q: float, sigma: float) -> Spans:
    """Where the integrand is not negligible, for an order so large that a full range would be long.

    The exponent -x^2/2 + order y has peaks where x = order * share / sigma: one, or two with a valley between.
    """

    def exponent(x: float) -> float:
        return -x * x / 2.0 + order * loss(x, q, sigma)

    def edge(left: float, right: float, level: float) -> float:
        for _ in range(60):
            middle = (left + right) / 2.0
            left, right = (middle, right) if exponent(middle) < level else (left, middle)
        return left

    first, second, end = 0.0, order / sigma, order / sigma + TAIL
    for _ in range(200):  # an increasing map: from below to its least fixed point, from above to its largest
        last = (first, second)
        first = order * share(first, q, sigma) / sigma
        second = order * share(second, q, sigma) / sigma
        if abs(first - last[0]) + abs(second - last[1]) < 1e-6:
            break
    height = exponent(second)
    if height > LARGE and (height > exponent(first) + LARGE or second - first < 1.0):
        left = edge(first if second - first >= 1.0 else -TAIL, second, height - 50.0)
        return [(left, min(end, 2.0 * second - left + TAIL))]
    floor = min(0.0, 2.0 * math.log(q * order / sigma)) - 50.0  # E_2 - 1 is about (q order / sigma)^2, or more
    reach = max(16.0, 2.0 / sigma + TAIL)
    while reach < end and exponent(reach) > floor:
        reach *= 2.0
    if reach >= end or second <= reach or height < floor:
        return [(-TAIL, min(reach, end))]
    left = edge(reach, second, min(floor, height - 50.0))
    return [(-TAIL, reach), (left, min(end, 2.0 * second - left + TAIL))]


def merged(first: Spans, last: Spans) -> Spans | None:
    """Intervals for all orders between the two whose intervals are given; None where sharing would not pay.

    The larger an order, the further right its peaks.
    """
    if [a == -TAIL for a, _ in first] != [a == -TAIL for a, _ in last]:
        return None
    both = [(a[0], max(a[1], b[1])) for a, b in zip(first, last, strict=True)]
    length = sum(b - a for a, b in both)
    return both if length < 4.0 * sum(b - a for a, b in last) else None
