r"""The explorer of chapter 00, Before we start.

For noise $Z$ with mean 0 and standard deviation 1, and $k$ independent copies of it:

$$\Pr[\,|Z| \ge t\,] \le \frac{E|Z|}{t} \;\text{(Markov)}, \qquad \le \frac{1}{t^2} \;\text{(Chebyshev)}, \qquad
\le 2 \min_{\lambda > 0} e^{-\lambda t} E\, e^{\lambda Z} \;\text{(Chernoff)},$$

$$\Pr[\,\text{some } |Z_i| \ge t\,] = 1 - (1 - p)^k \le k\,p \;\text{(union bound)}, \qquad p = \Pr[\,|Z| \ge t\,].$$
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Axis, Frame, Line, Points, Rule, Text


class _Tail(NamedTuple):
    """The probability that the noise strays at least t standard deviations, and three upper bounds on it."""

    exact: float
    chernoff: float
    chebyshev: float
    markov: float


def _gaussian(t: float) -> _Tail:
    # The minimum over lambda of exp(-lambda t + lambda^2 / 2) is at lambda = t.
    return _Tail(math.erfc(t / math.sqrt(2)), 2 * math.exp(-(t**2) / 2), 1 / t**2, math.sqrt(2 / math.pi) / t)


def _laplace(t: float) -> _Tail:
    # Standard deviation 1 is scale b = 1/sqrt(2). With u = lambda b and r = t / b the exponent is
    # -u r - log(1 - u^2), and its minimum over u in (0, 1) is where r u^2 + 2 u - r = 0.
    r = t * math.sqrt(2)
    u = r / (1 + math.sqrt(1 + r**2))
    return _Tail(math.exp(-r), 2 * math.exp(-u * r) / (1 - u**2), 1 / t**2, 1 / r)


def _some_of(k: int, tail: _Tail) -> _Tail:
    """The same for the largest of k independent noises: exactly, and by the union bound."""
    exact = 1.0 if tail.exact >= 1 else -math.expm1(k * math.log1p(-tail.exact))
    return _Tail(exact, *(min(1.0, k * bound) for bound in tail[1:]))


def tail_bounds() -> Explorer:
    """How far noise strays: the exact probability, and what Markov, Chebyshev and Chernoff allow."""
    grid = np.linspace(1.0, 8.0, 71)
    laws = {"laplace": _laplace, "gaussian": _gaussian}

    def draw(t: float, k: int, noise: str) -> Frame:
        def tail(at: float) -> _Tail:
            return _some_of(k, laws[noise](at))

        def name_of(text: str, bound: float) -> Text | None:
            # Bounds of 1 lie on top of each other and say nothing; they need no name.
            return Text(text, 7.95, bound * 2.2) if bound < 0.7 else None

        curve = np.array([tail(float(at)) for at in grid])
        here, end = tail(t), _Tail(*curve[-1])
        name = noise.capitalize()
        who = f"A {name} noise" if k == 1 else f"The largest of {k} {name} noises"
        # The Gaussian curve leaves the axes early, so its name stands beside its middle.
        beside = (7.95, end.chernoff * 3) if noise == "laplace" else (6.25, 1.5 * tail(5.0).chernoff)
        return Frame(
            title=f"{who} strays {t:.3g} standard deviation{'' if t == 1 else 's'} with probability {here.exact:.2g}; "
            + _verdict(here),
            readout=f"t = {t:.3g}, k = {k}: exact {here.exact:.3g}; at most {here.chernoff:.3g} (Chernoff), "
            f"{here.chebyshev:.3g} (Chebyshev), {here.markov:.3g} (Markov)",
            marks=[
                Rule("muted", x=t),
                Line(grid, curve[:, 3], "muted", name_of("Markov", end.markov)),
                Line(grid, curve[:, 2], "muted", name_of("Chebyshev", end.chebyshev)),
                Line(
                    grid, curve[:, 1], "muted", Text("Chernoff", *beside, anchor="end") if end.chernoff < 0.7 else None
                ),
                Line(grid, curve[:, 0], "guarantee", Text("exact", 2.95, tail(3.0).exact / 2.5, anchor="end")),
                Points([t, t, t], here[1:], "muted"),
                Points([t], [here.exact], "guarantee"),
            ],
        )

    return Explorer(
        "tail-bounds",
        draw,
        [
            Range("t", "t", np.arange(1.0, 8.1, 0.5).tolist(), 5.0, "The distance from 0, in standard deviations."),
            Range("k", "noises k", [1, 2, 3, 5, 10, 20, 50, 100], 1, "How many noises are drawn.", "{}", "log"),
            Switch(
                "noise",
                "Noise",
                {"laplace": "Laplace", "gaussian": "Gaussian"},
                "laplace",
                "How the noise is distributed; its standard deviation is 1.",
            ),
        ],
        x=Axis("t, in standard deviations", 1, 8, ticks=range(1, 9)),
        y=Axis("probability that the largest noise strays t or more", 1e-8, 1, "log"),
        asked="both",
    )


def _verdict(tail: _Tail) -> str:
    chebyshev, chernoff = _times(tail.chebyshev / tail.exact), _times(tail.chernoff / tail.exact)
    if tail.chernoff >= 1 and tail.chebyshev >= 1:
        return "Chebyshev and Chernoff say nothing."
    if tail.chebyshev >= 1:
        return f"Chebyshev says nothing, Chernoff allows {chernoff} times that."
    if tail.chernoff >= 1:
        return f"Chebyshev allows {chebyshev} times that, Chernoff says nothing."
    return f"Chebyshev allows {chebyshev} times that, Chernoff {chernoff} times."


def _times(ratio: float) -> str:
    if ratio < 1e3:
        return f"{ratio:.3g}"
    if ratio < 1e6:
        return f"about {float(f'{ratio:.2g}'):,.0f}"
    return f"about 10^{round(math.log10(ratio))}"
