"""Constants, conditions and bounds of the Byzantine paper; where it is wrong as printed, its counterexamples run."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import torch

from dpml import mechanisms
from dpml.accounting import rdp
from dpml.byzantine import theory
from tests.golden import golden

GOLDEN = golden("byzantine")
KAPPAS = {name: getattr(theory, f"kappa_{name}") for name in ("krum", "mda", "median", "bulyan")}


def exact_delta(s, clip_norm, q, m, epsilon):
    """By integrating the definition: all gradients are -C, or the replaced one is +C, in one dimension."""
    with mpmath.workdps(30):
        s, step, q = mpmath.mpf(s), 2 * mpmath.mpf(clip_norm) / m, mpmath.mpf(q)

        def density(y, mean):
            return mpmath.npdf(y, mean, s)

        def above(y):  # averages less -C
            return max(0, (1 - q) * density(y, 0) + q * density(y, step) - mpmath.exp(epsilon) * density(y, 0))

        start = step / 2 + s**2 / step * mpmath.log1p(mpmath.expm1(epsilon) / q)  # here the two densities cross
        return float(mpmath.quad(above, [start, start + s, start + 4 * s, start + 12 * s, start + 40 * s]))


@pytest.mark.parametrize("row", GOLDEN["theorem1"], ids=lambda row: f"{row['b']} of {row['m']}, {row['eps']}")
def test_golden_steps(row):
    """Theorem 1's noise, its exact delta, and Proposition 2 for three rules."""
    rest = {"clip_norm": row["C"], "q": row["b"] / row["m"], "m": row["b"], "epsilon": row["eps"]}
    given = rest | {"delta": row["delta"]}
    s = theory.theorem_1_noise(**given)
    assert s == pytest.approx(row["s"], rel=1e-9)
    true = theory.one_step_delta(s=s, **rest)
    assert true == pytest.approx(row["exact_step_delta"], rel=1e-9)
    assert true == pytest.approx(exact_delta(s, **rest), rel=1e-9)
    assert (true <= row["delta"]) == row["theorem1_true"]
    least = theory.worker_noise(**given)
    assert row["delta"] * (1.0 - 1e-11) < exact_delta(least, **rest) <= row["delta"]
    for name, n, f in (("mda", 15, 3), ("mda", 15, 6), ("krum", 15, 3)):
        bounds = theory.proposition_2_bounds(kappa=KAPPAS[name](n=n, n_byzantine=f), dimension=row["d"], **given)
        expected = row[f"prop2_{name}_{n}_{f}"]
        assert bounds.necessary == pytest.approx(expected["necessary_printed"], rel=1e-9)
        assert bounds.sharp == pytest.approx(expected["necessary_sharp_kappa2_d_s2"], rel=1e-9)
        assert bounds.sufficient == pytest.approx(expected["sufficient_v0"], rel=1e-9)
        assert bounds.trivial == pytest.approx(expected["vacuous_if_above_C2"], rel=1e-12)
        assert bounds.sound == min(bounds.sharp, bounds.trivial)


def test_no_pair_of_records_loses_more_than_the_worst_one():
    """Other gradients of the batch and other replaced records, in one dimension, by the same integral."""
    s, q, m, epsilon = 0.9, 0.25, 4, 0.3
    worst = theory.one_step_delta(s=s, clip_norm=1.0, q=q, m=m, epsilon=epsilon)
    y = np.linspace(-12.0, 12.0, 40_001)

    def law(values):
        """The density of the average of 4 of 16 records, whose gradients are these, plus noise."""
        means = {}
        for batch in itertools.combinations(range(16), m):
            mean = round(sum(values[i] for i in batch) / m, 9)
            means[mean] = means.get(mean, 0) + 1
        total = sum(means.values())
        return sum(k / total * np.exp(-((y - mean) ** 2) / 2.0 / s**2) for mean, k in means.items())

    scale = (y[1] - y[0]) / s / math.sqrt(2.0 * math.pi)
    found = {}
    for others in (-1.0, 0.0, 1.0, "mixed"):
        rest = [-1.0, 1.0] * 7 + [0.0] if others == "mixed" else [others] * 15
        for ours, theirs in ((1.0, -1.0), (-1.0, 1.0), (1.0, 0.0)):
            p, p_neighbour = law([ours, *rest]), law([theirs, *rest])
            found[others, ours, theirs] = float(np.maximum(p - math.exp(epsilon) * p_neighbour, 0.0).sum()) * scale
    assert max(found.values()) == pytest.approx(worst, rel=1e-4)
    assert found[-1.0, 1.0, -1.0] == pytest.approx(worst, rel=1e-4)
    assert all(delta <= worst * (1.0 + 1e-4) for delta in found.values())


def test_theorem_1_holds_where_its_lemma_does():
    """Where the base epsilon stays below 1, that is e^epsilon <= 1 + (e - 1) q."""
    for q, epsilon, delta in itertools.product([1.0, 0.5, 0.1, 0.01], [1e-3, 0.01, 0.1, 0.5, 0.9], [1e-9, 1e-5, 1e-3]):
        given = {"clip_norm": 1.0, "q": q, "m": 10, "epsilon": epsilon}
        if math.expm1(epsilon) <= math.expm1(1.0) * q and delta < q:
            s = theory.theorem_1_noise(**given, delta=delta)
            assert theory.one_step_delta(s=s, **given) <= delta
            assert theory.worker_noise(**given, delta=delta) < s


def test_golden_constants():
    for row in GOLDEN["kappa"]:
        for name, function in KAPPAS.items():
            if row[name] is not None:
                assert function(n=row["n"], n_byzantine=row["f"]) == pytest.approx(row[name], rel=1e-9)
    for f, least in GOLDEN["min_n_for_kappa_mda_below_0.08"].items():
        assert theory.kappa_mda(n=least, n_byzantine=int(f)) < 0.08 <= theory.kappa_mda(n=least - 1, n_byzantine=int(f))


def test_the_sound_constant_of_mda():
    """The squared diameter is at most 2 sum |g - mean|^2, which two vectors reach; and the constant by hand."""
    rng = np.random.default_rng(0)
    for h in (2, 3, 5, 12):
        rows = rng.standard_t(1.5, size=(200, h, 3))
        diameters = ((rows[:, :, None] - rows[:, None]) ** 2).sum(3).max((1, 2))
        spreads = ((rows - rows.mean(1, keepdims=True)) ** 2).sum((1, 2))
        assert (diameters <= 2.0 * spreads * (1.0 + 1e-12)).all()
        assert h > 2 or diameters == pytest.approx(2.0 * spreads)
    assert theory.kappa_mda_sound(n=15, n_byzantine=3) == pytest.approx(math.sqrt(8.0 * 11.0) * 3.0 / 12.0)
    assert theory.kappa_mda_sound(n=3, n_byzantine=1) == pytest.approx(theory.kappa_mda(n=3, n_byzantine=1))
    assert theory.kappa_mda_sound(n=1, n_byzantine=0) == 0.0


# ---- variance to norm ----


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e-100, 1e135])
def test_ratios_of_huge_and_tiny_rows_know_no_scale(scale):
    rows = np.random.default_rng(0).normal(1.0, 1.0, size=(6, 3))
    assert theory.vn_ratio(scale * rows) == pytest.approx(theory.vn_ratio(rows), rel=1e-12)
    found, expected = (theory.measured_resilience(2.0 * at * rows, gradients=at * rows) for at in (scale, 1.0))
    assert found.moments == pytest.approx(expected.moments, rel=1e-12)
    with pytest.raises(ValueError, match=r"^outputs must "):
        theory.measured_resilience(1e130 * rows, gradients=1e-130 * rows)


def test_noise_that_leaves_the_floats_is_refused_by_name():
    given = {"clip_norm": 1e100, "q": 1.0, "m": 1, "delta": 1e-5, "epsilon": 1e-300}
    with pytest.raises(ValueError, match=r"^epsilon must "):
        theory.theorem_1_noise(**given)
    with pytest.raises(ValueError, match=r"^epsilon must "):
        theory.proposition_2_bounds(kappa=1.0, dimension=10, **(given | {"epsilon": 1e-90}))
    tiny = {"clip_norm": 1.0, "q": 1e-300, "m": 1, "epsilon": 699.0}  # e^epsilon/q is beyond the floats
    base = float(mpmath.log1p(mpmath.expm1(mpmath.mpf(699)) / mpmath.mpf(1e-300)))
    delta = 1e-300 * mechanisms.gaussian_delta(sigma=0.01, epsilon=base)
    assert theory.one_step_delta(s=0.02, **tiny) == pytest.approx(delta, rel=1e-9)


def test_an_angle_that_is_nearly_a_right_one():
    given = dict.fromkeys(("eta", "mu", "smoothness", "v", "s", "clip_norm"), 0.0) | {"gap": 1.0, "dimension": 1}
    bound = theory.theorem_2_bound(**given, alpha=math.nextafter(math.pi / 2.0, 0.0), steps=1)
    assert bound.sound == pytest.approx(2.0 / (math.ulp(1.5) + 6.123233995736766e-17) ** 2, rel=1e-12)


def test_the_ratio_of_known_rows():
    rows = [[3.0, 4.0], [5.0, 4.0], [4.0, 1.0]]  # average (4, 3); squared deviations 2 + 2 + 4
    assert theory.vn_ratio(rows) == pytest.approx(math.sqrt(8.0 / 2.0) / 5.0, rel=1e-14)
    assert theory.vn_ratio(torch.tensor(rows)) == pytest.approx(0.4, rel=1e-6)
    assert theory.vn_ratio([[1.0], [-1.0]]) == math.inf
    for case in GOLDEN["gar_cases"]:
        assert theory.vn_ratio(np.array(case["honest"])) == pytest.approx(case["vn_ratio"], rel=1e-9)


def test_the_measured_ratio_is_the_one_of_the_formula():
    """50 batches of 5 of 20 records, with noise, in 2000 dimensions.

    The squared ratio has a relative deviation of about sqrt(2 / (49 * 2000)) + 2 * 0.01 below the line: 10 % is more
    than five of these.
    """
    rng = np.random.default_rng(0)
    records = 1.0 + rng.normal(size=(20, 2000))
    records -= records.mean(0) - 1.0  # the gradient is 1 in each coordinate, of length sqrt(2000)
    v = math.sqrt(((records - 1.0) ** 2).sum(1).mean())
    sent = [records[rng.permutation(20)[:5]].mean(0) + 0.7 * rng.normal(size=2000) for _ in range(50)]
    expected = theory.noisy_vn_ratio(
        gradient_norm=math.sqrt(2000.0), dimension=2000, s=0.7, variance=theory.batch_variance(v=v, q=0.25, m=5)
    )
    assert theory.vn_ratio(np.array(sent)) == pytest.approx(expected, rel=0.1)


def test_proposition_1_no_rule_meets_the_condition_with_noise():
    """Q = |theta|^2 / 2 with noise s: nearer to 0 than kappa sqrt(d) s the ratio is above 1/kappa, for each kappa."""
    for kappa in (0.01, 0.7, 7.8):
        edge = kappa * math.sqrt(100.0) * 0.3
        inside, outside = (
            theory.noisy_vn_ratio(gradient_norm=factor * edge, dimension=100, s=0.3) for factor in (0.99, 1.01)
        )
        assert outside < 1.0 / kappa < inside


def test_the_bounds_of_proposition_2_are_in_order():
    """On many settings: the printed bounds are weaker than the sharp ones, on either side."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        m, clip_norm = int(rng.integers(1, 2000)), float(rng.uniform(0.1, 10.0))
        q, largest = m / int(m + rng.integers(1, 10**6)), float(rng.uniform(0.0, clip_norm))
        step = {"clip_norm": clip_norm, "q": q, "m": m, "epsilon": float(rng.uniform(0.001, 0.999))}
        step |= {"kappa": float(rng.uniform(0.01, 30.0)), "dimension": int(rng.integers(1, 10**6))}
        step |= {"delta": float(rng.uniform(1e-12, 1.0)) * q, "v": float(rng.uniform(0.0, 5.0))}
        bounds = theory.proposition_2_bounds(**step, largest_gradient=largest)
        assert bounds.necessary <= bounds.sharp <= bounds.enough <= bounds.sufficient * (1.0 + 1e-12)
        assert bounds.sound == pytest.approx(min(bounds.sharp, largest**2), rel=1e-12)


def test_resilience_of_known_outputs():
    """Outputs at 60 degrees and of twice the length; outputs that point the other way are not resilient."""
    honest = np.array([[1.0, 0.0], [1.0, 0.0]])
    turned = theory.measured_resilience([[1.0, math.sqrt(3.0)]], gradients=honest)
    assert turned.sine == pytest.approx(0.0, abs=1e-12)
    assert turned.moments == pytest.approx((4.0, 8.0, 16.0))
    assert theory.measured_resilience(0.25 * honest, gradients=torch.tensor(honest)).sine == pytest.approx(0.75)
    assert theory.measured_resilience(-honest, gradients=honest).sine == pytest.approx(2.0)


def test_the_variance_of_a_batch_falls_with_its_size():
    """Lemma 3 bounds it by v^2; against all batches of a small set of records."""
    values = np.array([[0.0, 1.0], [2.0, -1.0], [5.0, 0.5], [-3.0, 2.0], [1.0, 1.0], [0.5, 4.0]])
    v = math.sqrt(((values - values.mean(0)) ** 2).sum(1).mean())
    found = []
    for m in range(1, 7):
        means = np.array([values[list(batch)].mean(0) for batch in itertools.combinations(range(6), m)])
        found.append(float(((means - values.mean(0)) ** 2).sum(1).mean()))
        assert theory.batch_variance(v=v, q=m / 6, m=m) == pytest.approx(found[-1], rel=1e-12, abs=1e-15)
    assert found[0] == pytest.approx(v**2)
    assert found == sorted(found, reverse=True)


def test_theorem_2_fails_for_the_minimum_of_expectations():
    """Huber's loss, gradient clipped to [-1, 1], one honest gradient as the rule; below eta it throws theta out to 2.

    Squared gradients are in [0, 1]: by Hoeffding, one of 5000 means over 4000 paths is off by 0.08 with probability
    below 5000 exp(-2 * 4000 * 0.08^2) < 1e-18. The condition holds: kappa^2 s^2 < eta^2 for kappa = 0.3.
    """
    steps, eta, s, paths = 5000, 0.2, 0.5, 4000
    rng = np.random.default_rng(0)
    theta, least, expected = np.full(paths, 3.0), np.full(paths, np.inf), []
    for step in range(1, steps + 1):
        gradient = np.clip(theta, -1.0, 1.0)
        expected.append((gradient**2).mean())
        least = np.minimum(least, gradient**2)
        honest = gradient + s * rng.standard_normal(paths)
        theta = np.where(np.abs(gradient) <= eta, 2.0, theta - honest / math.sqrt(step))
    bound = theory.theorem_2_bound(
        eta=eta, gap=2.5, alpha=0.0, mu=1.0, smoothness=1.0, v=0.0, dimension=1, s=s, clip_norm=1.001, steps=steps
    )
    assert min(expected) == pytest.approx(0.467, abs=0.005)  # as the chapter says
    assert bound.printed == pytest.approx(0.120, abs=0.0005)
    assert min(expected) - 0.08 > bound.printed
    assert least.mean() + 0.08 < bound.sound


def test_the_bound_of_theorem_2_by_hand():
    """gap 2, sin alpha = 1/2, mu 3, L 4, variance 1 + 4 * 0.25 + 1 = 3, at T = 100."""
    given = {"gap": 2.0, "alpha": math.pi / 6.0, "mu": 3.0, "smoothness": 4.0, "v": 1.0, "dimension": 4, "s": 0.5}
    rate = (2.0 + 3.0 * 3.0 * 4.0 / 2.0 * (1.0 + math.log(100.0))) / (0.5 * 10.0)
    for eta in (0.1, 10.0):
        bound = theory.theorem_2_bound(eta=eta, clip_norm=1.0, steps=100, **given)
        assert bound.sound == pytest.approx(eta**2 + rate, rel=1e-12)
        assert bound.printed == pytest.approx(max(eta**2, rate), rel=1e-12)


def test_corollary_1_tends_to_what_is_sufficient():
    step = {"clip_norm": 2.0, "q": 1000 / 60000, "m": 1000, "epsilon": 0.2, "delta": 1e-5}
    eta2 = theory.proposition_2_bounds(kappa=0.7, dimension=100, v=1.0, **step).sufficient
    rest = {"gap": 1.0, "alpha": 0.1, "mu": 1.0, "smoothness": 1.0, "v": 1.0, "dimension": 100}
    far = theory.corollary_1(kappa=0.7, steps=10**15, **step, **rest)
    assert far.sound == pytest.approx(eta2, rel=1e-3)
    near = theory.corollary_1(kappa=0.7, steps=10, **step, **rest)
    s = theory.theorem_1_noise(**step)
    expected = theory.theorem_2_bound(eta=math.sqrt(eta2), s=s, clip_norm=2.0, steps=10, **rest)
    assert near == pytest.approx(expected, rel=1e-12)


# ---- privacy over many steps ----

RUN = {"q": 1000 / 60000, "steps": 300, "delta": 1.2e-4}


def test_what_the_server_sees_costs_more_than_one_worker():
    """epsilon = 0.2 a step, 1000 of 60000 records, 300 steps, 12 honest workers, with the noise of Theorem 1.

    The printed budget counts one worker, by Rényi divergences, with Poisson samples and the noise over 2C: 0.82, and
    3.11 for all twelve. With the samples and the neighbours that the algorithm has, it is 0.838 and 3.461.
    """
    s = theory.theorem_1_noise(clip_norm=2.0, q=RUN["q"], m=1000, epsilon=0.2, delta=1e-5)
    sigma = s * 1000 / 2.0
    worker = theory.worker_guarantee(sigma=sigma, **RUN)
    server = theory.server_guarantee(n_honest=12, sigma=sigma, **RUN)
    assert worker.epsilon == pytest.approx(0.8384, rel=1e-3)
    assert server.epsilon == pytest.approx(3.4606, rel=1e-3)
    assert (server.adjacency, server.sampling) == ("replace-one", "without replacement")
    assert rdp.epsilon(sigma=sigma / 2.0, **RUN).epsilon == pytest.approx(0.82, abs=5e-3)
    assert rdp.epsilon(sigma=sigma / 2.0, **{**RUN, "steps": 3600}).epsilon == pytest.approx(3.11, abs=5e-3)


@pytest.mark.parametrize("workers", [1, 3])
def test_all_records_in_each_step_are_one_gaussian(workers):
    """At q = 1 closed forms hold: n T releases of sigma are one of sigma / sqrt(n T), a replacement moves it by 2."""
    given = {"sigma": 30.0, "q": 1.0, "steps": 50, "delta": 1e-6}
    guarantee = theory.server_guarantee(n_honest=workers, **given)
    sigma = 30.0 / 2.0 / math.sqrt(50 * workers)
    assert guarantee.epsilon == pytest.approx(mechanisms.gaussian_epsilon(sigma=sigma, delta=1e-6), rel=1e-9)
    if workers == 1:
        assert guarantee == theory.worker_guarantee(**given)


def test_one_step_of_the_guarantee_is_the_exact_delta():
    given = {"clip_norm": 2.0, "q": 25 / 60000, "m": 25, "epsilon": 0.2}
    s = theory.worker_noise(**given, delta=1e-5)
    one = theory.worker_guarantee(sigma=s * 25 / 2.0, q=given["q"], steps=1, delta=1e-5)
    assert one.epsilon == pytest.approx(0.2, rel=1e-9)
