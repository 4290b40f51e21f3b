"""The contour integral of Poisson-sampled Gaussian steps: each bound against what it bounds, the ends against truth."""

import math

import mpmath
import numpy as np
import pytest

from dpml.accounting import pld
from dpml.accounting.pld import fixed_size, pairs
from dpml.accounting.pld.contour import ends, line, placement, transform
from dpml.accounting.pld.contour.transform import Step
from dpml.accounting.pld.lattice import bracket
from dpml.accounting.pld.limits import scale
from tests.golden import golden

STEPS = [(Step(0.01, 4.0, sign), 17.0) for sign in (1.0, -1.0)]
STEPS += [(Step(256 / 60_000, 1.1, sign), lam) for sign, lam in ((1.0, 9.0), (-1.0, 12.0))]
STEPS += [(Step(0.5, 2.0, 1.0), 0.5), (Step(0.9, 0.4, -1.0), 3.0), (Step(1e-3, 0.6, 1.0), 2.6)]
STEPS += [(Step(1e-6, 0.3, 1.0), 1.7), (Step(1e-4, 30.0, 1.0), 900.0), (Step(1e-3, 0.6, 1.0, cut=8.0), 4.0)]


# ---- one step ----


def mp_transform(step, lam, frequencies, width=0.03):
    """phi(t) and log F(c) by a trapezoid rule of 30 digits, several times finer than what is tested."""
    with mpmath.workdps(30):
        q, sigma, c = mpmath.mpf(step.q), mpmath.mpf(step.sigma), mpmath.mpf(step.power(lam))
        if step.cut < math.inf:
            places = mpmath.linspace(-12, step.cut, 8)

            def moment(t):
                def integrand(y):
                    loss = mpmath.log(1 + q * mpmath.expm1((y - 1 / (2 * sigma)) / sigma))
                    return mpmath.exp((c + 1j * mpmath.mpf(t)) * loss) * mpmath.npdf(y)

                return mpmath.quad(integrand, places, method="gauss-legendre")

            total = moment(0.0)
            return [moment(t) / total for t in frequencies], mpmath.log(total.real)
        h = mpmath.mpf(min(width, 0.05 * step.sigma))
        low, high = int(min(0, c) / sigma / h - 12 / h), int(max(0, c) / sigma / h + 12 / h)
        y = [h * j for j in range(low, high + 1)]
        loss = [mpmath.log(1 + q * mpmath.expm1((v - 1 / (2 * sigma)) / sigma)) for v in y]
        masses = [h * mpmath.exp(c * x - v * v / 2) / mpmath.sqrt(2 * mpmath.pi) for v, x in zip(y, loss, strict=True)]
        total = mpmath.fsum(masses)
        values = [
            mpmath.fsum(m * mpmath.expj(mpmath.mpf(t) * x) for m, x in zip(masses, loss, strict=True)) / total
            for t in frequencies
        ]
        return values, mpmath.log(total)


@pytest.mark.parametrize(("step", "lam"), [*STEPS[:8], STEPS[9], (Step(1e-6, 1.0, 1.0, cut=11.5), 150.0)])
def test_the_transform_of_a_step_is_within_its_error(step, lam):
    law = step.tilted(step.power(lam), 24.0)
    found = transform.characteristic(law, 8.0, 3)
    wanted, log_moment = mp_transform(step, lam, 8.0 * np.arange(4))
    assert law.error(24.0, 3) < 2e-12
    with mpmath.workdps(30):
        assert abs(law.log_moment - log_moment) <= law.moment_error
        for k, (z, w) in enumerate(zip(found.tolist(), wanted, strict=True)):
            error = abs((1 + mpmath.mpc(z)) * mpmath.expj(8.0 * k * mpmath.mpf(law.mean)) - w)
            assert error <= law.error(8.0 * k, k)


def test_the_frequencies_are_counted_right():
    """Rows, columns and pieces of the two matrices, against the plain sum."""
    step, lam = STEPS[2]
    for count, eta in ((0, 1.0), (1, 1.0), (2, 1.0), (63, 0.5), (64, 0.5), (500, 0.2)):
        law = step.tilted(step.power(lam), count * eta)
        plain = [(law.masses * np.expm1(1j * k * eta * law.losses)).sum() for k in range(count + 1)]
        found = transform.characteristic(law, eta, count)
        assert found.shape == (count + 1,)
        assert np.abs(found - plain).max() < 1e-14 * (10 + count)


@pytest.mark.parametrize(("step", "lam"), STEPS)
def test_a_coarse_quadrature_is_within_its_bound(step, lam):
    """The steps are so coarse that the error is seen: the bound holds and says something."""
    power, seen = step.power(lam), 0
    for t in (0.0, 0.5 * step.sigma, 5.0 * step.sigma):
        fine = transform.step_for(step, power, t)
        values, scale = [], 0.0
        for width in (fine, 1.7 * fine, 2.3 * fine, 3.0 * fine):
            at = transform.grid(step, power, power, width)
            with np.errstate(under="ignore"):
                masses = np.exp(power * at.loss + at.log_weight)
                scale = scale or masses.sum()
                values.append((masses * np.exp(1j * t * at.loss)).sum() / scale)
        for value, width in zip(values[1:], (1.7 * fine, 2.3 * fine, 3.0 * fine), strict=True):
            bound = transform.quadrature_error(step, power, t, width)
            assert abs(value - values[0]) <= bound + 1e-12
            seen += 1e-11 < bound < 1.0
    assert seen >= 3


@pytest.mark.parametrize(("step", "lam"), STEPS)
def test_the_decay_is_bounded_for_all_larger_frequencies(step, lam):
    power = step.power(lam)
    coarse = step.tilted(power, 0.0)
    under = transform.layers(coarse, step, power)
    assert under.masses.min() >= 0.0 and 0.5 < under.masses.sum() < 1.0
    deviation = math.sqrt(float((coarse.masses * coarse.losses**2).sum()))
    t = np.geomspace(0.02, 20.0, 14) / deviation
    law = step.tilted(power, float(t[-1]))
    phi = np.array([abs(1.0 + transform.characteristic(law, u, 1)[1]) for u in t])
    largest = np.maximum.accumulate(phi[::-1])[::-1]
    bound = 1.0 - transform.deficit(under, t)
    assert (largest <= bound + law.error(t, 1)).all()
    assert (np.diff(bound) <= 1e-15).all()
    assert (1.0 - bound >= 0.03 * (1.0 - largest)).all()


def test_what_is_said_of_sinc():
    x = np.linspace(1e-3, 60.0, 200_001)
    sinc = np.abs(np.sin(x) / x)
    largest = np.maximum.accumulate(sinc[::-1])[::-1]
    bound = 1.0 - transform.deficit(transform.Layers(np.array([2.0]), np.array([1.0])), x)
    assert (largest <= bound + 1e-15).all()


# ---- many steps ----

ORDINARY, COUNTS, TRUTH = Step(256 / 60_000, 1.1, 1.0), np.array([3515.0]), 1.1337062  # at delta = 1e-5


def plan_of(step):
    return placement.placement_for(placement.moments_near(step, 7.0), [(3515.0, TRUTH)], math.log(1e-5), 1e-7)


def log_ends(found, epsilon=TRUTH):
    return found.log_lower(np.array([epsilon]))[0], found.log_upper(np.array([epsilon]))[0][0]


def mp_delta(epsilon, step, steps, lam, length, top):
    """delta by the same integral on another line in 30 digits, with a longer period and more nodes."""
    frequencies = np.arange(int(top * length / (2 * math.pi)) + 1) * (2 * math.pi / length)
    values, log_moment = mp_transform(step, lam, step.sign * frequencies, 0.5 * transform.step_for(step, 1.0, top))
    with mpmath.workdps(30):
        total = mpmath.mpf(0)
        for k, (t, phi) in enumerate(zip(frequencies.tolist(), values, strict=True)):
            s = mpmath.mpc(lam, t)
            exponent = steps * log_moment - s * mpmath.mpf(epsilon)
            total += (phi**steps * mpmath.exp(exponent) / (s * (s + 1))).real * (1 if k else 0.5)
        return float(total * 2 / mpmath.mpf(length))


@pytest.mark.parametrize(
    ("q", "sigma", "steps", "delta", "lam", "length", "top"),
    [
        (0.01, 4.0, 10_000, 1e-5, 14.0, 6.0, 40.0),
        (256 / 60_000, 1.1, 3515, 1e-5, 6.0, 8.0, 35.0),
        (0.5, 2.0, 1000, 1e-5, 0.45, 160.0, 2.0),
        (0.02, 5.0, 2000, 1e-25, 22.0, 5.0, 70.0),
        (0.3, 1.5, 60, 1e-3, 1.2, 60.0, 9.0),
    ],
)
def test_both_ends_against_thirty_digits(q, sigma, steps, delta, lam, length, top):
    found = pld.epsilon_bounds(q=q, sigma=sigma, steps=steps, delta=delta)
    assert found.upper - found.lower < 3e-6
    removed, added = Step(q, sigma, 1.0), Step(q, sigma, -1.0)
    assert mp_delta(found.upper, removed, steps, lam, length, top) <= delta
    assert mp_delta(found.upper, added, steps, lam, length, top) <= delta
    assert mp_delta(found.lower, removed, steps, lam, length, top) > delta
    bounds = pld.delta_bounds(q=q, sigma=sigma, steps=steps, epsilon=found.upper)
    assert bounds.lower <= mp_delta(found.upper, removed, steps, lam, length, top) <= bounds.upper
    assert bounds.upper <= bounds.lower * (1 + 1e-6)


def test_a_transform_that_is_zero_at_a_frequency_is_no_trouble():
    """Its logarithm has no number there; before this was seen, a warning came, and a wider interval."""
    found = pld.epsilon_bounds(q=0.5, sigma=2.0, steps=4, delta=1e-5)
    assert found.lower <= 2.523722 <= found.upper < found.lower + 1e-5


@pytest.mark.parametrize("seed", range(20))
def test_the_ends_meet_those_of_the_lattice(seed):
    """Wherever there is a line; both directions by themselves."""
    rng = np.random.default_rng(3000 + seed)
    q, sigma = 10 ** rng.uniform(-3.5, -0.1), 10 ** rng.uniform(-0.4, 1.3)
    steps, delta = int(10 ** rng.uniform(1.5, 4.0)), 10 ** rng.uniform(-14, -2)
    pair = pairs.poisson(pairs.gaussian(1 / sigma), q)
    _, guess, lam = ends.start(q, sigma, steps, delta)
    for sign, law in ((1.0, pair), (-1.0, pairs.exchanged(pair))):
        found = ends.epsilon_ends(Step(q, sigma, sign), steps, delta, guess, lam, 1e-5)
        if found is not None:
            low, high = bracket.epsilon_interval([(law, steps)], delta, 1e-3)
            assert found.lower <= high and low <= found.upper


def test_a_plan_never_decides_what_is_true():
    """With too short a line, or one cut too early, the ends are far apart but still enclose the truth."""
    good, widths = plan_of(ORDINARY), []
    for factor, accuracy in [(1.0, 1e-7), (0.5, 1e-7), (0.3, 1e-7), (1.0, 0.3), (1.0, 3.0), (0.6, 1.0), (2.0, 1e-3)]:
        found = line.line(ORDINARY, COUNTS, good._replace(length=factor * good.length), accuracy)
        for epsilon in (0.3, TRUTH, 2.0):
            low, high = log_ends(found, epsilon)
            exact = pld.delta_bounds(q=ORDINARY.q, sigma=ORDINARY.sigma, steps=3515, epsilon=epsilon)
            assert low <= math.log(exact.upper) and math.log(exact.lower) <= high
            widths += [high - low] if epsilon == TRUTH else []
    assert widths[0] < 1e-6 and max(widths) > 0.1


@pytest.mark.parametrize("row", golden("pld")["rare"])
def test_rare_records_and_a_billion_steps(row):
    """What is summed are differences from 1, blurred where they do not fade; at two steps the lattice answers."""
    found = pld.epsilon_bounds(**row["at"])
    assert found.lower - row["digit"] <= row["epsilon"] <= found.upper + row["digit"]
    assert found.upper - found.lower <= 1e-4 * scale(found.upper)
    assert pld.epsilon(**row["at"]).epsilon <= found.upper


def test_rare_losses_are_cut_and_counted():
    """The truth, cut where nothing is lost: at 13. Without a cut no tilt above 30 or so would do."""
    q, sigma, steps, delta, lam, length, top = 1e-6, 1.0, 10**9, 1e-12, 150.0, 0.3, 350.0
    found = pld.epsilon_bounds(q=q, sigma=sigma, steps=steps, delta=delta)
    step = Step(q, sigma, 1.0, cut=13.0)
    assert ends.start(q, sigma, steps, delta)[0].cut < 13.0
    assert steps * step.lost() < 1e-9 * delta
    truth = mp_delta(found.upper, step, steps, lam, length, top)
    assert truth <= delta < mp_delta(found.lower, step, steps, lam, length, top) * (1 + 1e-9)
    assert found.upper - found.lower <= 1e-5 * scale(found.upper)
    bounds = pld.delta_bounds(q=q, sigma=sigma, steps=steps, epsilon=found.upper)
    assert bounds.lower <= truth * (1 + 1e-9) <= bounds.upper * (1 + 2e-9)
    assert bounds.upper <= bounds.lower * (1 + 1e-5)


def test_what_a_cut_loses_is_given_to_the_upper_end():
    """Far too early a cut: what it loses is most of delta."""
    step = ORDINARY._replace(cut=4.0)
    low, high = log_ends(line.line(step, COUNTS, plan_of(step), 1e-7))
    assert 3515.0 * step.lost() > 1e-3
    assert low < math.log(1e-5) < math.log(3515.0 * step.lost()) < high


@pytest.mark.parametrize(("epsilon", "low", "high"), [(0.0, 1.0, 1.0), (5e5, 1.0, 1.0), (9.9e5, 0.0, 1e-240)])
def test_a_delta_near_one_or_near_nothing_is_found(epsilon, low, high):
    found = pld.delta_bounds(q=0.5, sigma=1.0, steps=5 * 10**6, epsilon=epsilon)
    assert low - 1e-6 <= found.lower <= found.upper <= high


@pytest.mark.parametrize("delta", [0.97, 0.9995, 0.99999])
def test_an_epsilon_at_a_delta_near_one(delta):
    """Where delta hardly changes with epsilon: not the lattice, but what it says."""
    q, sigma, steps = 0.5, 5.0, 10**4
    low, high = ends.both_directions(q, sigma, steps, delta, 1e-5)
    assert 1.0 < low <= high <= low + 1e-4
    coarse = bracket.epsilon_interval([(pairs.poisson(pairs.gaussian(1 / sigma), q), steps)], delta, 3e-2)
    assert low <= coarse[1] and coarse[0] <= high


@pytest.mark.parametrize("blur", [1e-3, 0.02, 0.3])
def test_a_blurred_line_still_encloses_the_truth(blur):
    """The two ends move apart with the square of the blur, and not past the sharp line's."""
    sharp, blurred = (line.line(ORDINARY, COUNTS, plan_of(ORDINARY), 1e-7, w) for w in (0.0, blur))
    (low, high), (least, value) = log_ends(blurred), log_ends(sharp)
    slope = float(sharp.log_upper(np.array([TRUTH]))[1][0])
    assert low <= value and least <= high
    expected = -math.inf if blur == 0.3 else blur**2 * slope * (1.0 - slope)
    assert low - high == pytest.approx(expected, rel=0.2, abs=1e-6)


def test_the_added_record_decides_where_it_is_worse():
    """No such case is known, so the two directions are called with the roles exchanged."""
    step, counts = Step(0.01, 4.0, 1.0), np.array([10_000.0])
    added = ends.epsilon_ends(Step(0.01, 4.0, -1.0), 10_000, 1e-5, 0.9, 15.0, 1e-5)
    assert added.upper == pytest.approx(0.93704, abs=1e-5)
    assert not ends.line_certifies(step, counts, 1e-5, np.array([added.upper]), 15.0)[0]
    assert ends.line_certifies(step, counts, 1e-5, np.array([0.95]), 15.0)[0]
    assert not ends.line_certifies(step, counts, 1e-5, np.array([0.9464]), 15.0)[0]


# ---- curves, small targets ----


def test_a_curve_is_tight_and_safe_at_every_point():
    steps = np.unique(np.geomspace(3, 40_000, 60).astype(int))
    curve = pld.epsilon_curve(q=256 / 60_000, sigma=1.1, steps=steps, delta=1e-5)
    assert (np.diff(curve) >= 0.0).all()
    for count, end in zip(steps[::6].tolist(), curve[::6].tolist(), strict=True):
        point = pld.epsilon_bounds(q=256 / 60_000, sigma=1.1, steps=count, delta=1e-5)
        assert point.lower <= end <= point.upper + 1e-4


def test_a_curve_of_rare_records_has_few_lines(monkeypatch):
    """Chernoff's bound of epsilon is six times too large there, and no place for a line: each point had its own."""
    lines, one = [], ends.line
    monkeypatch.setattr(ends, "line", lambda *given: lines.append(given) or one(*given))
    steps = np.linspace(40_000, 1e6, 500).astype(int)
    curve = pld.epsilon_curve(q=1e-5, sigma=0.7, steps=steps, delta=1e-9)
    assert len(lines) < 50
    for at in (0, 200, 499):
        point = pld.epsilon_bounds(q=1e-5, sigma=0.7, steps=int(steps[at]), delta=1e-9)
        assert point.lower <= curve[at] <= point.upper + 1e-4


def test_a_curve_of_lines_stops_where_there_is_none():
    found = ends.ends_on_lines(1e-4, 1.0, [2, 3, 100_000, 10**7], 1e-7, 1e-4)
    assert set(found) < {2, 3, 100_000, 10**7} and 10**7 in found


@pytest.mark.parametrize(("q", "sigma", "steps", "delta"), [(0.01, 400.0, 1000, 1e-6), (0.1, 3000.0, 100, 1e-7)])
def test_a_small_epsilon_has_a_relative_width(q, sigma, steps, delta):
    found = pld.epsilon_bounds(q=q, sigma=sigma, steps=steps, delta=delta)
    assert 1e-5 < found.upper < 2e-2
    assert found.upper - found.lower <= 4e-3 * found.upper
    step = pairs.poisson(pairs.gaussian(1 / sigma), q)
    low, high = bracket.epsilon_interval([(step, steps)], delta, 1e-4)
    assert low <= found.upper and found.lower <= high <= low + 4e-3 * high


@pytest.mark.parametrize(
    ("q", "steps", "epsilon", "delta"),
    [(0.01, 100, 1.0, 1e-5), (0.2, 30, 0.05, 1e-6), (0.05, 1, 2.0, 1e-6), (1.0, 12, 3.0, 1e-5)],
)
def test_calibration_of_fixed_size_samples(q, steps, epsilon, delta):
    sigma = fixed_size.noise_multiplier(q=q, steps=steps, epsilon=epsilon, delta=delta)
    found = fixed_size.epsilon_bounds(q=q, sigma=sigma, steps=steps, delta=delta)
    assert epsilon * (1 - 1e-3) <= found.upper <= epsilon
    assert fixed_size.epsilon_bounds(q=q, sigma=0.995 * sigma, steps=steps, delta=delta).upper > epsilon
    assert sigma > 1.9 * pld.noise_multiplier(q=q, steps=steps, epsilon=epsilon, delta=delta)


def test_rounding_that_would_decide_an_upper_end_makes_the_lattice_coarser():
    """Epsilon falls with sigma, also where a fine lattice rounds more than it resolves."""
    ends = [fixed_size.epsilon_bounds(q=1e-6, sigma=s, steps=10**5, delta=1e-12).upper for s in (1.1, 1.125, 1.2)]
    assert ends[0] > 1.2 * ends[1] > 2.0 * ends[2]


def test_calibration_of_rare_draws_asks_for_few_epsilons(monkeypatch):
    asked, both = [], pld.both_directions
    monkeypatch.setattr(pld, "both_directions", lambda *given: asked.append(given) or both(*given))
    sigma = pld.noise_multiplier(q=1e-6, steps=10**5, epsilon=1.0, delta=1e-12)
    assert len(asked) <= 3
    assert 1.0 - 1e-4 <= pld.epsilon(q=1e-6, sigma=sigma, steps=10**5, delta=1e-12).epsilon <= 1.0


@pytest.mark.parametrize(
    ("calibrate", "spent", "epsilon"),
    [
        (pld.noise_multiplier, lambda **given: pld.epsilon(**given).epsilon, 0.003),
        (fixed_size.noise_multiplier, fixed_size._upper_end, 0.006),  # its lower end takes half a minute here
    ],
)
def test_calibration_reaches_almost_to_the_largest_sigma_and_refuses_at_once_beyond(calibrate, spent, epsilon):
    setting = {"q": 0.5, "steps": 10**6, "delta": 1e-9}
    sigma = calibrate(**setting, epsilon=epsilon)
    assert 7e5 < sigma < 1e6
    assert epsilon * (1 - 1e-3) <= spent(**setting, sigma=sigma) <= epsilon
    with pytest.raises(ValueError, match=r"^epsilon must be larger for sigma to lie in .*, 1e6\], got 1e-06"):
        calibrate(**setting, epsilon=1e-6)


@pytest.mark.parametrize("calibrate", [pld.noise_multiplier, fixed_size.noise_multiplier])
def test_calibration_names_epsilon_where_so_little_noise_is_beyond_floats(calibrate):
    with pytest.raises(ValueError, match=r"^epsilon must be smaller.* got 10000\.0"):
        calibrate(q=0.3, steps=7, epsilon=1e4, delta=1e-250)


def test_calibration_of_fixed_size_samples_at_its_limits():
    assert fixed_size.noise_multiplier(q=0.01, steps=10, epsilon=1.0, delta=0.2) == 0.0
    assert fixed_size.noise_multiplier(q=0.0, steps=10, epsilon=1.0, delta=1e-5) == 0.0
    for steps in (1, 2):
        with pytest.raises(ValueError, match=r"^epsilon must be smaller for sigma to lie in \[0\.1, 1e6\], got 3000"):
            fixed_size.noise_multiplier(q=0.1, steps=steps, epsilon=3000.0, delta=1e-5)
    with pytest.raises(ValueError, match=r"^epsilon must be larger for sigma"):
        fixed_size.noise_multiplier(q=0.9, steps=2, epsilon=1e-6, delta=1e-9)
