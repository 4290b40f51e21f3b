"""Each check of dpml.lessons.amplification: right answers pass, known mistakes get their diagnosis."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from dpml import mechanisms
from dpml.accounting import amplification
from dpml.lessons.amplification import checks as items

from .answers import message

# Item 1


@pytest.mark.parametrize(
    "right",
    [
        lambda *, epsilon, q: np.log(1 - q + q * np.exp(epsilon)),
        lambda *, epsilon, q: math.log1p(q * math.expm1(epsilon)),
    ],
)
def test_amplified_accepts(right, capsys):
    items.check_amplified(right)
    assert capsys.readouterr().out.startswith("✓ amplified")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda *, epsilon, q: 2 * q * (math.exp(epsilon) - math.exp(-epsilon)), "the slide's bound"),
        (
            lambda *, epsilon, q: math.log((1 + q * math.expm1(epsilon)) / (1 + q * math.expm1(-epsilon))),
            "at q = 1 it gives twice the base epsilon",
        ),
        (lambda *, epsilon, q: epsilon * q, "it promises too much"),
        (lambda *, epsilon, q: 4 * epsilon * q, "four times the base epsilon"),
        (lambda *, epsilon, q: math.log(1 + q * epsilon), "a factor and not epsilon"),
        (lambda *, epsilon, q: 1 - q + q * math.exp(epsilon), "Epsilon is its logarithm"),
        (lambda *, epsilon, q: epsilon + math.log(q) if q else 0, "with probability 1 - q the ratio is one"),
        (lambda *, epsilon, q: q * math.expm1(epsilon), "the logarithm of the whole ratio"),
        (lambda *, epsilon, q: math.log10(1 + q * math.expm1(epsilon)), "Logarithms are natural here"),
        (lambda *, epsilon, q: epsilon, "zero at q = 0"),
        (lambda *, epsilon, q: None, "is a return missing?"),
        (lambda epsilon: epsilon, "is called with"),
        (0.357374, "not callable"),
    ],
)
def test_amplified_names_the_mistake(wrong, diagnosis):
    text = message(items.check_amplified, wrong)
    if diagnosis == "not callable":
        assert "must be a function" in text
    else:
        assert diagnosis in text


# Item 2

USEFUL = brentq(lambda q: amplification.lecture_bound(epsilon=1.0, q=q) - 1.0, 0.01, 0.9)


@pytest.mark.parametrize("right", [USEFUL, 1 / (4 * np.sinh(1.0)), round(USEFUL, 4)])
def test_useful_q_accepts(right):
    items.check_useful_q(right)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (0.25, "for small epsilon only"),
        (0.5, "the log form from the proof equals epsilon"),
        (1 / (2 * math.sinh(1)), "a factor of 2 is lost"),
        (1 / (2 * (math.e - 1)), "the term e^-epsilon is missing"),
        (2 * (math.e - 1 / math.e), "the slide's bound at q = 1"),
        (0.213, "at least four digits"),
        (0.3, "put it in"),
        (math.nan, "nan"),
        ("0.2127", "not a number"),
        (..., "not written yet"),
    ],
)
def test_useful_q_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_useful_q, wrong)


# Item 3


@pytest.mark.parametrize(
    "right",
    [
        lambda *, epsilon, q: (1.0, math.exp(-epsilon), math.exp(-epsilon)),
        lambda *, epsilon, q: np.array([np.exp(epsilon), 1.0, 1.0]) * 0.01,
        lambda *, epsilon, q: [0.5, 0.5 * np.exp(-epsilon), 0.5 * np.exp(-epsilon)],
    ],
)
def test_worst_case_accepts(right, capsys):
    items.check_worst_case(right)
    assert capsys.readouterr().out.startswith("✓ worst_case")


def unwritten(*, epsilon, q):
    raise NotImplementedError("write your answer here")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda *, epsilon, q: (1.0, math.exp(-2 * epsilon), math.exp(-epsilon)), "the corner of the quick proof"),
        (lambda *, epsilon, q: (math.exp(epsilon), 1.0, 1.0), "divide all three by one number"),
        (lambda *, epsilon, q: (math.exp(-epsilon), 1.0, math.exp(-epsilon)), "A and A' are exchanged"),
        (lambda *, epsilon, q: (1.0, math.exp(-epsilon), 1.0), "but B is above A'"),
        (lambda *, epsilon, q: (1.0, 1.0, math.exp(-epsilon)), "until a ratio is e^epsilon"),
        (lambda *, epsilon, q: (0.5, 0.5, 0.5), "0% of the bound"),
        (lambda *, epsilon, q: (0.5, 0.9, 0.7), "each two of A, A', B"),
        (lambda *, epsilon, q: (math.exp(-epsilon / 2), 1.0, 1.0), "A must be the larger one"),
        (lambda *, epsilon, q: (1.0, 0.0, 0.5), "above 0 and at most 1"),
        (lambda *, epsilon, q: (1.0, 0.5), "three probabilities"),
        (lambda *, epsilon, q: ("A", "B", "C"), "Testing it raised"),
        (unwritten, "not written yet"),
        (3.0, "must be a function"),
    ],
)
def test_worst_case_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_worst_case, wrong)


# Item 4


@pytest.mark.parametrize(
    "right",
    [
        "With both equalities A equals e^(2 eps) A'. The samples behind A and A' differ in one record, so epsilon-DP "
        "allows only the factor e^eps between them.",
        "A and A' belong to neighbouring samples, hence their ratio is at most exp(epsilon). The two bounds together "
        "would need the square of that, which is more.",
    ],
)
def test_why_accepts_and_prints_the_rubric(right, capsys):
    items.check_why(right)
    printed = capsys.readouterr().out
    assert printed.startswith("✓ why") and "A is at most e^epsilon A'" in printed


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        ("They contradict each other.", "Use at least 20"),
        (
            "The numerator is largest for one event and the denominator is smallest for another event, and so the two "
            "of them can never be worst at the same time.",
            "neighbouring samples",
        ),
        (
            "The mechanism is private, and A and A' come from neighbouring samples, so there is a limit to how far "
            "apart they can be, and the proof goes beyond it.",
            "which ratio A/A'",
        ),
        (2.0, "between triple quotes"),
        (..., "not written yet"),
    ],
)
def test_why_names_what_is_missing(wrong, diagnosis):
    assert diagnosis in message(items.check_why, wrong)


# Item 5


def truth(epsilon: float) -> float:
    return math.exp(epsilon) / (1 + math.exp(epsilon))


def by_enumeration(*, n, q, epsilon):
    """All samples, one by one; record 0 is x* under D."""
    p = p_prime = 0.0
    for code in range(2**n):
        members = [i for i in range(n) if code >> i & 1]
        chance = q ** len(members) * (1 - q) ** (n - len(members))
        if len(members) == n:
            p += chance * (truth(epsilon) if 0 in members else 1 - truth(epsilon))
            p_prime += chance * (1 - truth(epsilon))
    return [p, p_prime]


def in_closed_form(*, n, q, epsilon):
    return np.array([np.exp(epsilon), 1.0]) * q**n / (1 + np.exp(epsilon))


@pytest.mark.parametrize("right", [lambda **case: tuple(in_closed_form(**case)), by_enumeration])
def test_all_sampled_accepts(right, capsys):
    if right is by_enumeration:
        assert by_enumeration(n=3, q=0.5, epsilon=1.0) == pytest.approx([0.0913823, 0.0336177], abs=1e-7)

        def small(*, n, q, epsilon):
            return (by_enumeration if n < 10 else in_closed_form)(n=n, q=q, epsilon=epsilon)

        items.check_all_sampled(small)
    else:
        items.check_all_sampled(right)
    assert capsys.readouterr().out.startswith("✓ all_sampled")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (
            lambda *, n, q, epsilon: (q * truth(epsilon) + (1 - q) * (1 - truth(epsilon)), 1 - truth(epsilon)),
            "for samples of any size",
        ),
        (
            lambda *, n, q, epsilon: (
                q**n * (q * truth(epsilon) + (1 - q) * (1 - truth(epsilon))),
                q**n * (1 - truth(epsilon)),
            ),
            "q^n covers it already",
        ),
        (lambda *, n, q, epsilon: (truth(epsilon), 1 - truth(epsilon)), "How probable is that?"),
        (lambda *, n, q, epsilon: (q**n * (1 - truth(epsilon)), q**n * truth(epsilon)), "the two are exchanged"),
        (
            lambda *, n, q, epsilon: (q ** (n - 1) * truth(epsilon), q ** (n - 1) * (1 - truth(epsilon))),
            "the coin of x* itself is missing",
        ),
        (
            lambda *, n, q, epsilon: (q**n * truth(epsilon), q ** (n - 1) * (1 - q) * (1 - truth(epsilon))),
            "All n are sampled with the same probability",
        ),
        (lambda *, n, q, epsilon: (q * truth(epsilon), q * (1 - truth(epsilon))), "all n coins fall right"),
        (lambda *, n, q, epsilon: q**n * truth(epsilon), "expected are 2 values"),
    ],
)
def test_all_sampled_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_all_sampled, wrong)


# Item 6

RIGHT = {"a": True, "b": True, "c": False, "d": False, "e": False, "f": False, "g": True}


@pytest.mark.parametrize("right", [RIGHT, {key: np.bool_(RIGHT[key]) for key in "gfedcba"}])
def test_covered_accepts(right, capsys):
    items.check_covered(right)
    assert capsys.readouterr().out.startswith("✓ covered")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (RIGHT | {"a": False}, "independent coins"),
        (RIGHT | {"b": False}, "a fixed size, and one record replaced"),
        (RIGHT | {"c": True}, "the size of a Poisson sample is random"),
        (RIGHT | {"d": True}, "the batches of an epoch depend on each other"),
        (RIGHT | {"e": True}, "seen in the sample"),
        (RIGHT | {"f": True}, "for the first m people"),
        (RIGHT | {"g": False}, "delta shrinks by the factor q"),
        (RIGHT | {"d": 0}, "give True or False"),
        (RIGHT | {"h": True}, 'the keys "a" to "g"'),
        ("abg", 'the keys "a" to "g"'),
        (None, 'the keys "a" to "g"'),
        (..., "not written yet"),
    ],
)
def test_covered_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_covered, wrong)


# Item 7


def by_root_finding(*, target, q):
    if target == 0:
        return 0.0
    return brentq(lambda e: amplification.amplify(epsilon=e, q=q) - target, 0.0, 50.0, xtol=1e-13)


@pytest.mark.parametrize("right", [lambda *, target, q: np.log((np.exp(target) - 1 + q) / q), by_root_finding])
def test_step_epsilon_accepts(right, capsys):
    items.check_step_epsilon(right)
    assert capsys.readouterr().out.startswith("✓ step_epsilon")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda *, target, q: target / q, "Here it allows too much"),
        (lambda *, target, q: math.log1p(q * math.expm1(target)), "amplifies the target once more"),
        (lambda *, target, q: math.log(1 + target / q), "e^target - 1"),
        (lambda *, target, q: math.log((math.exp(target) - 1) / q) if target > 0 else 0, "a one is lost"),
        (lambda *, target, q: target - math.log(q), "the rule for large epsilon"),
        (lambda *, target, q: math.expm1(target) / q, "Solve for epsilon"),
        (lambda *, target, q: target, "ignores the sampling"),
        (lambda *, target, q: 2.0, "at q = 1 they are equal"),
    ],
)
def test_step_epsilon_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_step_epsilon, wrong)


# Item 8


def step(epsilon: float, q: float) -> float:
    return math.log1p(math.expm1(epsilon) / q)


def with_numpy(bits, *, epsilon, q, rng):
    kept = rng.binomial(1, q, size=len(bits))
    return float(kept @ bits) + mechanisms.laplace(0.0, scale=1 / step(epsilon, q), rng=rng)


def in_a_loop(bits, *, epsilon, q, rng):
    """Laplace noise as the difference of two exponential variables, a count by one coin after another."""
    total = 0
    for bit in bits:
        if rng.random() < q:
            total += int(bit)
    b = 1 / step(epsilon, q)
    return total + rng.exponential(b) - rng.exponential(b)


@pytest.mark.parametrize("right", [with_numpy, in_a_loop])
def test_subsample_and_release_accepts(right, capsys):
    items.check_subsample_and_release(right)
    assert capsys.readouterr().out.startswith("✓ subsample_and_release")


def poisson_sum(bits, q, rng):
    return float(np.asarray(bits)[rng.random(len(bits)) < q].sum())


def own_sample(bits, *, epsilon, q, rng):
    return poisson_sum(bits, q, np.random.default_rng()) + rng.laplace(scale=1 / step(epsilon, q))


def same_sample(bits, *, epsilon, q, rng):
    """A sample that is drawn from a fixed seed is no random sample."""
    return poisson_sum(bits, q, np.random.default_rng(2)) + rng.laplace(scale=1 / step(epsilon, q))


def half_of_q(bits, *, epsilon, q, rng):
    return poisson_sum(bits, q / 2, rng) + rng.laplace(scale=1 / step(epsilon, q))


def one_coin(bits, *, epsilon, q, rng):
    return bits.sum() * (rng.random() < q) + rng.laplace(scale=1 / step(epsilon, q))


def whole_array(bits, *, epsilon, q, rng):
    return bits + rng.laplace(scale=1 / step(epsilon, q), size=len(bits))


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (own_sample, "its own randomness"),
        (same_sample, "does not follow the law"),
        (half_of_q, "does not follow the law"),
        (one_coin, "one coin decides for all"),
        (whole_array, "expected is one finite number"),
    ],
)
def test_subsample_and_release_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_subsample_and_release, wrong)
