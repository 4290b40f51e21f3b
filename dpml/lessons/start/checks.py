"""Checks of the self-check of chapter 00, Before we start."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.classroom import checks
from dpml.mechanisms import laplace_density

Mistake = checks.Mistake


def check_ratio(answer: Any) -> None:
    """The ratio of two Laplace densities of scale 0.5, centred at 0 and at 1, at the point -0.5."""
    here, there = (float(laplace_density(-0.5, center=c, scale=0.5)) for c in (0.0, 1.0))
    checks.number(
        answer,
        expected=here / there,
        name="ratio",
        mistakes=[
            Mistake(there / here, "it is the reverse: the density around 1 over the density around 0."),
            Mistake(math.log(here / there), "it is the logarithm of the ratio."),
            Mistake(here - there, "it is a difference of densities, not a ratio."),
            Mistake(math.exp(0.5), "the exponent is the distance divided by the scale, not multiplied."),
        ],
        hint="Divide one density by the other: the factors 1/(2b) cancel.",
    )


def check_tail(answer: Any) -> None:
    """The probability that Laplace noise of scale 2 is at least 3."""

    def density(y: float) -> float:
        return float(laplace_density(y, center=0.0, scale=2.0))

    from scipy.integrate import quad  # here, since it takes longer to import than all of dpml

    upper = quad(density, 3.0, math.inf, epsabs=0.0)[0]
    checks.number(
        answer,
        expected=upper,
        name="tail",
        mistakes=[
            Mistake(2 * upper, "it counts both sides; the question asks for the upper side only."),
            Mistake(1 - upper, "it is the probability of staying below 3."),
            Mistake(density(3.0), "it is the density at 3; a probability is the area beyond 3."),
            Mistake(math.exp(-6) / 2, "the exponent is the distance divided by the scale, not multiplied."),
        ],
        hint="Integrate the density from 3 to infinity.",
    )


def check_width(answer: Any) -> None:
    """The width that holds all of ten Laplace noises of scale 1, with probability 0.95 by the union bound."""
    checks.number(
        answer,
        expected=math.log(10 / 0.05),
        name="width",
        mistakes=[
            Mistake(math.log(1 / 0.05), "it holds one noise; there are ten, and each has its own chance to stray."),
            Mistake(math.log(10 / 0.05 / 2), "noise can stray on both sides: the tail of |Z| is twice the upper tail."),
            Mistake(math.log(2 * 10 / 0.05), "e^{-t} already counts both sides; you count them twice."),
            Mistake(
                -math.log(1 - 0.95**0.1),
                "this is exact for independent noises; the union bound does not use independence.",
            ),
            Mistake(10 * math.log(1 / 0.05), "the union bound multiplies the probability by ten, not the width."),
            Mistake(math.log(10 / 0.95), "it lets the noise stray with probability 0.95; 0.05 is allowed."),
        ],
        hint="The union bound gives at most ten times the probability of one noise; set that equal to 0.05.",
        rel=1e-5,
    )


def check_jensen_gap(answer: Any) -> None:
    """E[exp X] - exp(E[X]) of a random variable with finitely many values."""

    def inputs(rng: np.random.Generator) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        cases = [(np.array([0.0, 1.0]), np.array([0.5, 0.5])), (np.array([0.0, 2.0]), np.array([0.9, 0.1]))]
        cases += [(rng.normal(size=n), rng.dirichlet(np.ones(n))) for n in (3, 6)]
        return cases

    def reference(values: NDArray[Any], probabilities: NDArray[Any]) -> float:
        pairs = list(zip(values.tolist(), probabilities.tolist(), strict=True))
        return math.fsum(p * math.exp(v) for v, p in pairs) - math.exp(math.fsum(p * v for v, p in pairs))

    checks.function(
        answer,
        name="jensen_gap",
        reference=reference,
        inputs=inputs,
        mistakes=[
            Mistake(lambda v, p: -reference(v, p), "it has the two sides exchanged: the gap is never negative."),
            Mistake(
                lambda v, p: np.exp(v).mean() - np.exp(v.mean()),
                "the expectation weighs each value by its probability; mean() weighs all alike.",
            ),
            Mistake(lambda v, p: np.sum(p * np.exp(v)), "it is the first term only; subtract exp of the expectation."),
        ],
        hint="It is E[exp X] - exp(E[X]), and E[g(X)] is the sum of p * g(x).",
    )


def check_gradient(answer: Any) -> None:
    """The derivative in w of log(1 + exp(-w x)) at w = 0.5, x = 2."""
    # The complex step: no subtraction, hence exact to rounding, and no formula to give away.
    step = 1e-30
    slope = cmath.log(1 + cmath.exp(-(0.5 + 1j * step) * 2)).imag / step
    sigmoid = 1 / (1 + math.exp(-1))
    checks.number(
        answer,
        expected=slope,
        name="gradient",
        mistakes=[
            Mistake(-slope, "the sign is wrong: a larger w makes this loss smaller."),
            Mistake(slope / 2, "the chain rule is missing: the derivative of w x in w is x."),
            Mistake(-2 * sigmoid, "it is the slope at -w: the loss is nearly flat where w x is large."),
            Mistake(math.log(1 + math.exp(-1)), "it is the loss itself, not its derivative."),
        ],
        hint="Differentiate from outside in: the logarithm, the exponential, then w x.",
        rel=1e-4,
    )


def check_normalise(answer: Any) -> None:
    """Every row of a matrix divided by its Euclidean length."""

    def inputs(rng: np.random.Generator) -> list[NDArray[Any]]:
        return [np.array([[3.0, 4.0], [0.0, 2.0]]), *(rng.normal(size=s) for s in ((3, 3), (2, 5), (4, 1)))]

    def divide(rows: NDArray[Any], **how: Any) -> Any:
        return rows / np.linalg.norm(rows, **how)

    checks.function(
        answer,
        name="normalise",
        reference=lambda rows: np.array([np.array(row) / math.hypot(*row) for row in rows.tolist()]),
        inputs=inputs,
        mistakes=[
            Mistake(lambda rows: divide(rows, axis=0, keepdims=True), "it divides each column; a row is axis 1."),
            Mistake(divide, "it divides by one length for the whole matrix; every row has its own."),
            Mistake(
                lambda rows: divide(rows, axis=1),
                "lengths need the shape (rows, 1), so that each row is divided by its own: keepdims=True.",
            ),
            Mistake(
                lambda rows: divide(rows, axis=1, ord=1, keepdims=True),
                "it divides by the sum of absolute values; the Euclidean length is the root of the sum of squares.",
            ),
            Mistake(
                lambda rows: rows / rows.sum(axis=1, keepdims=True),
                "it divides by the sum of the entries; the Euclidean length is the root of the sum of squares.",
            ),
            Mistake(
                lambda rows: rows / (rows**2).sum(axis=1, keepdims=True),
                "the root is missing: it divides by the square of the length.",
            ),
        ],
        hint="Every row of the result must have length one.",
    )


def check_draws(answer: Any) -> None:
    """Which of three draws from generators with one seed are equal."""
    checks.choice(
        answer,
        expected="a and c",
        options=["a and b", "a and c", "b and c"],
        name="same",
        mistakes=[
            Mistake("a and b", "one generator goes on where it stopped; it does not start again."),
            Mistake("b and c", "c is the first draw of its generator, b is the second draw of its own."),
        ],
    )


def check_influence(answer: Any) -> None:
    """How far the gradient of a mean loss over 100 examples moves when one example's gradient moves by 50."""
    n, change = 100, 50.0
    gradients = np.zeros(n)
    gradients[0] = change
    checks.number(
        answer,
        expected=float(gradients.mean()),
        name="influence",
        mistakes=[
            Mistake(change, "it is the change of the sum; the loss is a mean of 100."),
            Mistake(change / math.sqrt(n), "the square root belongs to random errors; one example counts 1/n."),
            Mistake(change / (n - 1), "the mean divides by all 100 examples."),
        ],
        hint="The gradient of a mean is the mean of the gradients.",
    )


def check_meaning(answer: Any) -> None:
    """What is known of a true epsilon with a guarantee of at most 2 and a measurement of at least 0.8."""
    options: Sequence[str] = ["it is 2", "it is 0.8", "it is between 0.8 and 2", "it is about 1.4"]
    checks.choice(
        answer,
        expected="it is between 0.8 and 2",
        options=options,
        name="meaning",
        mistakes=[
            Mistake("it is 2", "a guarantee is an upper bound; the truth may be smaller."),
            Mistake("it is 0.8", "a measurement shows what one attack achieved; a better one may achieve more."),
            Mistake("it is about 1.4", "two bounds do not say where between them the truth lies."),
        ],
    )
