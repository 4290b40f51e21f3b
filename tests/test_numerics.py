"""Log-space arithmetic and the safe search, against mpmath at 300 digits."""

import math

import mpmath as mp
import numpy as np
import pytest

from dpml import numerics

WIDEST = np.finfo(np.longdouble).max
RNG = np.random.default_rng(20240213)


@pytest.fixture(autouse=True)
def _many_digits():
    with mp.workdps(300):
        yield


def relative(value, truth):
    return float(abs(mp.mpf(float(value)) - truth) / abs(truth))


def spread(low, high, size):
    """Numbers whose logarithms are uniform: every order of magnitude gets its share."""
    return [float(v) for v in 10.0 ** RNG.uniform(low, high, size)]


def test_log1mexp():
    for x in [*spread(-300, 2.8, 400), 0.6931471805599453, math.log(2) + 1e-16]:
        assert relative(numerics.log1mexp(-x), mp.log(-mp.expm1(-mp.mpf(x)))) < 5e-16, x
    assert numerics.log1mexp(0.0) == -math.inf
    assert float(numerics.log1mexp(-math.inf)) == pytest.approx(0.0, abs=0)


def test_log_expm1():
    for x in [*spread(-300, 4, 300), 1e300]:
        if not 0.69 < x < 0.70:  # the value passes through 0 at log 2
            assert relative(numerics.log_expm1(x), mp.log(mp.expm1(mp.mpf(x)))) < 5e-15, x
    assert abs(float(numerics.log_expm1(math.log(2)))) < 1e-15
    assert numerics.log_expm1(0.0) == -math.inf


def test_log1p_scaled_expm1():
    for size in spread(-15, 4, 120):
        for q in (*spread(-290, 0, 2), float(RNG.random()), 1 - 1e-16, 0.5):
            for x in (size, -size):
                truth = mp.log1p(mp.mpf(q) * mp.expm1(mp.mpf(x)))
                assert relative(numerics.log1p_scaled_expm1(x, q=q), truth) < 1e-15, (x, q)
    for x in (-1e308, -3.0, 0.0, 1e-300, 5.0, 1e308):
        assert float(numerics.log1p_scaled_expm1(x, q=1.0)) == pytest.approx(x, rel=0, abs=0)
        assert float(numerics.log1p_scaled_expm1(x, q=0.0)) == pytest.approx(0.0, abs=0)


def test_scalars_and_arrays_agree():
    x = np.concatenate([-(10.0 ** RNG.uniform(-12, 4, 300)), 10.0 ** RNG.uniform(-12, 4, 300), [0.0, 709.5, 1401.0]])
    grid = np.abs(x).reshape(3, -1)
    for function, sign in ((numerics.log1mexp, -1.0), (numerics.log_expm1, 1.0)):
        one_by_one = [[float(function(v)) for v in row] for row in sign * grid]
        np.testing.assert_allclose(function(sign * grid), one_by_one, rtol=1e-15)
    q = np.array([[0.0], [1e-308], [0.3], [1.0]])
    one_by_one = [[float(numerics.log1p_scaled_expm1(float(v), q=float(p))) for v in x] for p in q[:, 0]]
    np.testing.assert_allclose(numerics.log1p_scaled_expm1(x, q=q), one_by_one, rtol=4e-16)


BAD = [math.nan, math.inf, "1", None, [1, "a"], [[1], [1, 2]], 1j, np.ma.masked_array([0.0], mask=[True])]
TOO_WIDE = [WIDEST, np.array([1.0, WIDEST])] if np.finfo(np.float64).max < WIDEST else []
REFUSED = [
    *((lambda v, f=f: getattr(numerics, f)(v), BAD, "x must be") for f in ("log1mexp", "log_expm1")),
    (lambda v: numerics.log1p_scaled_expm1(v, q=0.5), BAD, "x must be"),
    (numerics.log_expm1, TOO_WIDE, "x must be"),
    (numerics.log1mexp, [1e-300], r"x must be in \[-inf, 0\], got 1e-300"),
    (numerics.log_expm1, [-1e-300], r"x must be in \[0, inf\), got -1e-300"),
]


@pytest.mark.parametrize(("call", "value", "said"), [(call, v, said) for call, values, said in REFUSED for v in values])
def test_what_is_refused(call, value, said):
    with pytest.raises(ValueError, match=f"^{said}"):
        call(value)


@pytest.mark.parametrize("root", [5e-324, 1e-310, 1e-200, 1e-12, 0.3, 3.0, 1e5, 1e300])
@pytest.mark.parametrize("shape", ["line", "log", "step", "power"])
def test_crossing_is_safe_and_tight(root, shape):
    shapes = {
        "line": lambda x: root - x,
        "log": lambda x: math.log(root) - (math.log(x) if x > 0 else -1e4),
        "step": lambda x: 1.0 if x < root else -1.0,
        "power": lambda x: 1.0 - (x / root) ** 3 if x < 1e3 * root else -1e9,
    }
    seen = {}

    def excess(x):
        seen[x] = shapes[shape](x)
        return seen[x]

    found = numerics.crossing(excess, low=0.0, high=1e301)
    assert seen[found] <= 0.0, "the result must itself have been checked"
    assert seen[math.nextafter(found, 0.0)] > 0.0, "and the float below it must fail"
    assert found == pytest.approx(root, rel=1e-13)
    assert len(seen) < 400


def test_crossing_ends_and_refusals():
    assert numerics.crossing(lambda x: -1.0, low=2.0, high=3.0) == pytest.approx(2.0)
    for wrong in (math.nan, "a", "0.5", None, True, 1j, [0.5]):
        for few in (lambda x: x < 0.5, lambda x: 0.1 < x < 0.9):
            with pytest.raises(ValueError, match=r"^excess must return numbers, got "):
                numerics.crossing(lambda x, w=wrong, few=few: w if few(x) else 0.5 - x, low=0.0, high=1.0)
    for excess, low, high, said in (
        (lambda x: 1.0, 0.0, 1.0, r"excess\(high\) must be <= 0"),
        (3, 0.0, 1.0, "excess must be a function"),
        (lambda x: -x, 1.0, 1.0, "high must be"),
        (lambda x: -x, -1.0, 1.0, "low must be"),
    ):
        with pytest.raises(ValueError, match=rf"^{said}"):
            numerics.crossing(excess, low=low, high=high)


def test_crossing_is_quick_on_smooth_functions():
    calls = []
    numerics.crossing(lambda x: calls.append(x) or math.log(3) - math.log(x), low=1.0, high=50.0)
    assert len(calls) < 30


@pytest.mark.parametrize("guess", [1e-9, 0.02, 2.9, 3.1, 40.0, 1e6])
def test_a_guess_and_a_tolerance_spare_evaluations_but_not_safety(guess):
    """excess = 9/x^2 - 1 crosses 0 at 3; both ends are far away, and hardly ever asked for."""
    calls = []

    def excess(x):
        calls.append(x)
        return 9.0 / (x * x + 1e-12) - 1.0

    found = numerics.crossing(excess, low=0.0, high=1e7, guess=guess, close=1e-3)
    assert -1e-3 <= excess(found) <= 0.0
    assert calls[0] == guess and len(calls) < 45
    below, above = numerics.bracket(excess, low=0.0, high=1e7, guess=guess, width=1e-6)
    assert excess(below) > 0.0 >= excess(above) and 0.0 < above - below <= 1e-6
    assert numerics.bracket(lambda x: -1.0, low=2.0, high=9.0, guess=5.0) == (2.0, 2.0)
    with pytest.raises(ValueError, match=r"^excess\(high\) must be <= 0"):
        numerics.crossing(lambda x: 1.0, low=0.0, high=9.0, guess=5.0)
    for name in ("close", "width"):
        with pytest.raises(ValueError, match=rf"^{name} must be"):
            numerics.crossing(excess, low=0.0, high=9.0, **{name: -1.0})
    with pytest.raises(ValueError, match=r"^guess must be in \[0, 9\]"):
        numerics.crossing(excess, low=0.0, high=9.0, guess=10.0)
