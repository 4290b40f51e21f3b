"""Each check of the exercises of chapter 10: right answers in two ways, and wrong ones with their diagnosis."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from dpml import mechanisms
from dpml.accounting import pld, rdp
from dpml.lessons.ptr import checks as items
from dpml.ptr import broken_trimmed_sum, privacy, renyi, theorems, trimmed_sum
from dpml.ptr.propose_test_release import propose_test_release

from .answers import message, unwritten

MNIST = {"q": 256 / 60_000, "sigma": 1.1, "tau": 0.5, "scale": 1.0, "delta0": 1e-8}


# Item 1

WIDTH = math.sqrt(2 * math.log(1.25e5))


def crossing_of(formula: Callable[[float], float]) -> float:
    return brentq(lambda s: mechanisms.gaussian_epsilon(sigma=s, delta=1e-5) - formula(s), 0.3, 2.0, xtol=1e-12)


def by_bisection() -> float:
    low, high = 0.3, 1.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        too_low = mechanisms.gaussian_delta(sigma=middle, epsilon=WIDTH / middle) > 1e-5
        low, high = (middle, high) if too_low else (low, middle)
    return low


@pytest.mark.parametrize("right", [crossing_of(lambda s: WIDTH / s), by_bisection(), np.float64(0.5754)])
def test_unsound_below_accepts(right, capsys):
    items.check_unsound_below(right)
    assert capsys.readouterr().out.startswith("✓ unsound_below")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (crossing_of(lambda s: WIDTH * s), "as printed"),
        (WIDTH, "gives epsilon = 1"),
        (mechanisms.gaussian_epsilon(sigma=1.1, delta=1e-5), "this is an epsilon"),
        (8.42, "at which the two meet"),
        (4.404, "this is an epsilon"),
        (crossing_of(lambda s: math.sqrt(2 * math.log(1e5)) / s), "without 1.25"),
        (0.6, "agree"),
        (..., "not written yet"),
    ],
)
def test_unsound_below_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_unsound_below, wrong)


# Item 2


def laplace_moment(order: float, scale: float) -> float:
    return order / (2 * order - 1) * math.exp((order - 1) / scale) + (order - 1) / (2 * order - 1) * math.exp(
        -order / scale
    )


def by_formula(order, *, scale):
    return math.log(laplace_moment(order, scale)) / (order - 1)


def by_integral(order, *, scale):
    def integrand(s: float) -> float:
        ratio = math.exp((abs(s) - abs(s - 1)) / scale)
        return ratio**order * math.exp(-abs(s) / scale) / (2 * scale)

    area = sum(
        quad(integrand, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in ((-40 * scale, 0), (0, 1), (1, 1 + 40 * scale))
    )
    return math.log(area) / (order - 1)


@pytest.mark.parametrize("right", [by_formula, by_integral])
def test_laplace_rdp_accepts(right, capsys):
    items.check_laplace_rdp(right)
    assert capsys.readouterr().out.startswith("✓ laplace_rdp")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda order, *, scale: math.log(laplace_moment(order, scale)), "Divide by order - 1"),
        (lambda order, *, scale: math.log(laplace_moment(order, scale)) / order, "divides by the order"),
        (lambda order, *, scale: 1 / scale, "limit of large orders"),
        (lambda order, *, scale: laplace_moment(order, scale), "this is the moment"),
        (lambda order, *, scale: math.log(laplace_moment(order, scale)) * (order - 1), "is multiplied by order - 1"),
        (lambda order, *, scale: by_formula(order, scale=1 / scale), "exponents are multiplied by the scale"),
        (
            lambda order, *, scale: math.log(order / (2 * order - 1) * math.exp((order - 1) / scale)) / (order - 1),
            "second of the two terms",
        ),
        (lambda order, *, scale: order / (2 * scale**2), "rise with the order"),
        (unwritten, "not written yet"),
    ],
)
def test_laplace_rdp_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_laplace_rdp, wrong)


# Item 3


def first(order, sigma, tau, delta0):
    terms = [math.log1p(-delta0) + order * (order - 1) / (2 * sigma**2)]
    terms.append(math.log(delta0) + order * (order - 1) / (2 * (sigma * tau) ** 2))
    return float(np.logaddexp.reduce(terms)) / (order - 1)


def second(order, sigma, scale):
    return order / (2 * sigma**2) + by_formula(order, scale=scale)


def by_two_cases(order, *, sigma, tau, scale, delta0):
    return max(first(order, sigma, tau, delta0), second(order, sigma, scale))


def by_package(order, *, sigma, tau, scale, delta0):
    return float(privacy.theorem_4_3(np.array([order]), sigma=sigma, tau=tau, scale=scale, delta0=delta0)[0])


@pytest.mark.parametrize("right", [by_two_cases, by_package])
def test_ptr_rdp_accepts(right, capsys):
    items.check_ptr_rdp(right)
    assert capsys.readouterr().out.startswith("✓ ptr_rdp")


def averaged(order, *, sigma, tau, scale, delta0):
    mixed = (1 - delta0) * order / (2 * sigma**2) + delta0 * order / (2 * (sigma * tau) ** 2)
    return max(mixed, second(order, sigma, scale))


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda order, *, sigma, tau, scale, delta0: first(order, sigma, tau, delta0), "case 1 alone"),
        (lambda order, *, sigma, tau, scale, delta0: second(order, sigma, scale), "case 2 alone"),
        (
            lambda order, *, sigma, tau, scale, delta0: first(order, sigma, tau, delta0) + second(order, sigma, scale),
            "the two cases are added",
        ),
        (averaged, "is the moment"),
        (
            lambda order, *, sigma, tau, scale, delta0: max(
                first(order, sigma, math.sqrt(tau), delta0), second(order, sigma, scale)
            ),
            "sigma^2 tau^2",
        ),
        (
            lambda order, *, sigma, tau, scale, delta0: min(
                first(order, sigma, tau, delta0), second(order, sigma, scale)
            ),
            "the smaller of the two",
        ),
        (
            lambda order, *, sigma, tau, scale, delta0: max(
                first(order, sigma, tau, delta0), by_formula(order, scale=scale)
            ),
            "no Gaussian part",
        ),
        (
            lambda order, *, sigma, tau, scale, delta0: max(first(order, sigma, tau, delta0), order / (2 * sigma**2)),
            "the Laplace part of it, is missing",
        ),
        (
            lambda order, *, sigma, tau, scale, delta0: max(
                first(order, sigma, tau, 1 - delta0), second(order, sigma, scale)
            ),
            "are exchanged",
        ),
        (
            lambda order, *, sigma, tau, scale, delta0: max(
                first(order, sigma, tau, delta0), second(order, sigma * tau, scale)
            ),
            "the noise of the failed test, sigma",
        ),
        (
            lambda order, *, sigma, tau, scale, delta0: max(order / (2 * sigma**2), second(order, sigma, scale)),
            "or its rare branch",
        ),
        (lambda order, **given: (order - 1) * by_two_cases(order, **given), "this is a log-moment"),
        (
            lambda order, *, sigma, tau, scale, delta0: max(
                (order - 1) * first(order, sigma, tau, delta0), second(order, sigma, scale)
            ),
            "case 1 is a log-moment",
        ),
        (lambda order, *, sigma, tau, scale, delta0: 1.0, "larger of case 1"),
        (unwritten, "not written yet"),
    ],
)
def test_ptr_rdp_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_ptr_rdp, wrong)


# Item 4


def log_moment(k, sigma, scale):
    return k * (k - 1) / (2 * sigma**2) + (math.log(laplace_moment(k, scale)) if k >= 2 else 0.0)


def by_logarithms(order, *, q, sigma, scale, weigh=True, moment=log_moment):
    logs = [
        (math.log(math.comb(order, k)) if weigh else 0.0)
        + (order - k) * math.log1p(-q)
        + k * math.log(q)
        + moment(k, sigma, scale)
        for k in range(order + 1)
    ]
    return float(np.logaddexp.reduce(logs))


def by_exact_cases(order, *, q, sigma, scale):
    cases = renyi.exact_cases(float(order), q=q, sigma=sigma, tau=0.9, scale=scale, delta0=1e-3)
    return (order - 1) * float(cases.case_2)


@pytest.mark.parametrize("right", [by_logarithms, by_exact_cases])
def test_sampled_log_moment_accepts(right, capsys):
    items.check_sampled_log_moment(right)
    assert capsys.readouterr().out.startswith("✓ sampled_log_moment")


def gaussian_part(order, *, q, sigma, scale):
    return by_logarithms(order, q=q, sigma=sigma, scale=scale, moment=lambda k, s, b: k * (k - 1) / (2 * s**2))


def laplace_part(order, *, q, sigma, scale):
    return by_logarithms(order, q=q, sigma=sigma, scale=scale, moment=lambda k, s, b: log_moment(k, 1e9, b))


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda order, **given: by_logarithms(order, **given) / (order - 1), "this is the divergence"),
        (gaussian_part, "Laplace part is missing"),
        (lambda order, **given: by_logarithms(order, **given, weigh=False), "binomial coefficients"),
        (lambda order, *, q, sigma, scale: log_moment(order, sigma, scale), "without sampling"),
        (lambda order, **given: gaussian_part(order, **given) + laplace_part(order, **given), "share one sample"),
        (laplace_part, "Gaussian part is missing"),
        (lambda order, *, q, **given: by_logarithms(order, q=1 - q, **given), "q and 1 - q are exchanged"),
        (
            lambda order, **given: by_logarithms(order, **given, moment=lambda k, s, b: log_moment(order, s, b)),
            "the moment of its k",
        ),
        (
            lambda order, *, q, sigma, scale: by_logarithms(
                order, q=q, sigma=sigma, scale=scale, moment=lambda k, s, b: log_moment(k, s, b) if k < order else -1e9
            ),
            "range(order)",
        ),
        (lambda order, **given: math.exp(by_logarithms(order, **given)), "Its logarithm is asked"),
        (lambda order, **given: 0.0, "a binomial probability times"),
        (unwritten, "not written yet"),
    ],
)
def test_sampled_log_moment_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_sampled_log_moment, wrong)


# Item 5


def by_search() -> int:
    order = 2
    while theorems.theorem_4_4_formula(float(order), **MNIST) >= privacy.exact_subsampled_rdp(float(order), **MNIST):
        order += 1
    return order


@pytest.mark.parametrize("right", [by_search(), 6, np.int64(6), 6.0])
def test_first_false_order_accepts(right, capsys):
    items.check_first_false_order(right)
    assert capsys.readouterr().out.startswith("✓ first_false_order")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (5, "still above"),
        (2, "though its conditions fail"),
        (8, "smaller order"),
        (200, "smaller order"),
        (3, "still above"),
        (5.5, "not among"),
        (..., "not written yet"),
    ],
)
def test_first_false_order_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_first_false_order, wrong)


# Item 6


def by_count(norms, *, trim, tau):
    return max(0, trim - sum(1 for v in norms if v > tau))


def by_enumeration(norms, *, trim, tau):
    lengths = sorted(norms)
    for r in range(trim):
        rank = len(lengths) - trim + 1 + r
        if rank >= 1 and lengths[rank - 1] > tau:
            return r
    return trim


@pytest.mark.parametrize("right", [by_count, by_enumeration])
def test_margin_accepts(right, capsys):
    items.check_margin(right)
    assert capsys.readouterr().out.startswith("✓ margin")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (lambda norms, *, trim, tau: trim - int((norms > tau).sum()), "at least 0"),
        (lambda norms, *, trim, tau: max(0, trim - int((norms >= tau).sum())), "does not exceed"),
        (lambda norms, *, trim, tau: max(0, min(trim, len(norms)) - int((norms > tau).sum())), "fewer vectors"),
        (lambda norms, *, trim, tau: max(0, trim - int((norms > tau).sum()) - 1), "one too small"),
        (lambda norms, *, trim, tau: int((norms > tau).sum()), "what trim has left"),
        (lambda norms, *, trim, tau: len(norms) - int((norms > tau).sum()), "how many norms do not exceed"),
        (lambda norms, *, trim, tau: min(0, trim - int((norms > tau).sum())), "min and max are exchanged"),
        (lambda norms, *, trim, tau: max(0, trim + 1 - int((norms > tau).sum())), "one too large"),
        (lambda norms, *, trim, tau: trim, "first r"),
        (unwritten, "not written yet"),
    ],
)
def test_margin_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_margin, wrong)


# Item 7


def by_loop(vectors, *, ids, trim, bound):
    order = sorted(range(len(vectors)), key=lambda i: (np.linalg.norm(vectors[i]), ids[i]))
    total = np.zeros(vectors.shape[1])
    for i in order[: max(0, len(vectors) - trim)]:
        total = total + vectors[i] * min(1.0, bound / np.linalg.norm(vectors[i]))
    return total


def by_package_sum(vectors, *, ids, trim, bound):
    return trimmed_sum.clipped_trimmed_sum(vectors, ids=ids, trim=trim, bound=bound)


def by_contents(vectors, *, ids, trim, bound):
    """Equal lengths by the entries: a fixed order of all records as well."""
    stays = sorted(vectors.tolist(), key=lambda x: (np.linalg.norm(x), x))[: max(0, len(vectors) - trim)]
    return sum((np.array(x) * min(1.0, bound / np.linalg.norm(x)) for x in stays), np.zeros(vectors.shape[1]))


def in_single_precision(vectors, **given):
    return by_package_sum(vectors, **given).astype(np.float32)


def larger_ids_stay(vectors, *, ids, trim, bound):
    return by_package_sum(vectors, ids=-ids, trim=trim, bound=bound).tolist()


@pytest.mark.parametrize("right", [by_loop, by_package_sum, by_contents, in_single_precision, larger_ids_stay])
def test_total_accepts(right, capsys):
    items.check_total(right)
    assert capsys.readouterr().out.startswith("✓ total")


def wrong_end(vectors, *, ids, trim, bound):
    order = np.lexsort((ids, np.linalg.norm(vectors, axis=1)))[trim:]
    return (vectors[order] * np.minimum(1.0, bound / np.linalg.norm(vectors[order], axis=1))[:, None]).sum(axis=0)


def negative_end(vectors, *, ids, trim, bound):
    lengths = np.linalg.norm(vectors, axis=1)
    order = np.lexsort((ids, lengths))
    stays = order[: len(vectors) - trim]
    return (vectors[stays] * np.minimum(1.0, bound / lengths[stays])[:, None]).sum(axis=0)


def in_place(vectors, *, ids, trim, bound):
    result = by_package_sum(vectors, ids=ids, trim=trim, bound=bound)
    vectors[:] = 0.0
    return result


def above_a_length(vectors, *, ids, trim, bound):
    """As many stay as are not longer than the last that should."""
    lengths = np.linalg.norm(vectors, axis=1)
    if trim >= len(vectors):
        return np.zeros(vectors.shape[1])
    stays = lengths <= np.sort(lengths)[len(vectors) - trim - 1]
    return (vectors[stays] * np.minimum(1.0, bound / lengths[stays])[:, None]).sum(axis=0)


def staying(change):
    """The vectors that stay, changed, and summed."""

    def wrong(vectors, *, ids, trim, bound):
        stays = trimmed_sum.kept(np.linalg.norm(vectors, axis=1), trim=trim, ids=ids)
        return change(vectors[stays])

    return wrong


def as_printed(vectors, *, ids, trim, bound):
    lengths = np.linalg.norm(vectors, axis=1)
    clipped = vectors * np.minimum(1.0, bound / lengths)[:, None]
    order = np.argsort(np.linalg.norm(clipped, axis=1))
    return clipped[order[: max(0, len(vectors) - trim)]].sum(axis=0)


def printed_only(vectors, *, ids, trim, bound):
    print(by_package_sum(vectors, ids=ids, trim=trim, bound=bound))


def sorted_then_by_row(vectors, *, ids, trim, bound):
    return trimmed_sum.clipped_trimmed_sum(vectors, trim=trim, bound=bound)


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (sorted_then_by_row, "let the id decide"),
        (lambda v, *, ids, trim, bound: trimmed_sum.trimmed_sum(v, ids=ids, trim=trim), "not clipped"),
        (wrong_end, "leaves out others than the longest"),
        (above_a_length, "not all above a length"),
        (as_printed, "Sort by the length before clipping"),
        (staying(lambda v: v.sum(axis=0) / max(1.0, np.linalg.norm(v.sum(axis=0)))), "the sum is clipped"),
        (staying(lambda v: (v / np.linalg.norm(v, axis=1)[:, None]).sum(axis=0)), "made longer"),
        (staying(lambda v: np.clip(v, -1.0, 1.0).sum(axis=0)), "each entry is clipped"),
        (lambda v, *, ids, trim, bound: by_package_sum(v, ids=ids, trim=trim + 1, bound=bound), "it adds up 3"),
        (lambda v, **given: by_package_sum(v, **given) / max(1, len(v) - given["trim"]), "the mean"),
        (lambda v, **given: 2 * by_package_sum(v, **given), "another sum"),
        (lambda v, **given: by_package_sum(v, **given) + 1j, "not an array of real numbers"),
        (lambda v, **given: {"total": by_package_sum(v, **given)}, "not an array of real numbers"),
        (lambda v, **given: [[1.0], [1.0, 2.0]], "different lengths"),
        (printed_only, "is a return missing?"),
        (lambda v, *, trim, bound: 0.0, "keep the parameter names"),
        (negative_end, "the sum is zero"),
        (in_place, "an argument was changed"),
        (lambda v, *, ids, trim, bound: np.zeros(7), "shape (7,)"),
        (unwritten, "not written yet"),
    ],
)
def test_total_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_total, wrong)


@pytest.mark.parametrize("name", ["by_clipped_norms", "by_position"])
def test_total_refuses_the_wrong_sorts(name):
    f = getattr(broken_trimmed_sum, name)
    came = message(items.check_total, lambda v, *, ids, trim, bound: f(v, trim=trim, bound=bound))
    assert "Sort by the length before clipping" in came or "let the id decide" in came


# Item 8

RUN = {**MNIST, "steps": 3500, "delta": 1e-5}


def converted(moments, orders, *, delta, convert=rdp.conversion_improved):
    divergences = np.array([3500 * v / (a - 1) for v, a in zip(moments, orders, strict=True)])
    return float(np.min(convert(np.array(orders, dtype=float), rdp=divergences, delta=delta)))


ORDERS = list(range(2, 41))
MOMENTS = [by_logarithms(a, q=MNIST["q"], sigma=1.1, scale=1.0) for a in ORDERS]
LEFT = 1e-5 - 3500 * MNIST["q"] * 1e-8


@pytest.mark.parametrize(
    "right",
    [
        converted(MOMENTS, ORDERS, delta=LEFT),
        renyi.epsilon_by_rdp_branch_in_delta(**{k: v for k, v in RUN.items() if k != "tau"}).epsilon,
    ],
)
def test_epsilon_moved_accepts(right, capsys):
    items.check_epsilon_moved(right)
    assert capsys.readouterr().out.startswith("✓ epsilon_moved")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (renyi.epsilon_by_rdp(**RUN).epsilon, "curve of both cases"),
        (2.6301514, "curve of both cases"),
        (privacy.epsilon(**RUN).epsilon, "loss distribution's epsilon"),
        (converted(MOMENTS, ORDERS, delta=LEFT, convert=rdp.conversion_classic), "older conversion"),
        (rdp.epsilon(q=MNIST["q"], sigma=1.1, steps=3500, delta=1e-5).epsilon, "Gaussian noise alone"),
        (converted(np.array(MOMENTS) * (np.array(ORDERS) - 1), ORDERS, delta=LEFT), "these are log-moments"),
        (1.0, "less 3500 q delta0"),
        ("2", "not a number"),
        (..., "not written yet"),
    ],
)
def test_epsilon_moved_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_epsilon_moved, wrong)


# Item 9


def by_searching_delta() -> float:
    target = privacy.epsilon(**RUN).epsilon
    plain = {"q": MNIST["q"], "steps": 3500, "delta": 1e-5}
    return brentq(lambda s: pld.epsilon(sigma=s, **plain).epsilon - target, 0.8, 0.9, xtol=1e-4)


def test_matched_sigma_accepts(capsys):
    for right in (privacy.matching_gaussian_sigma(**RUN), by_searching_delta()):
        items.check_matched_sigma(right)
        assert capsys.readouterr().out.startswith("✓ matched_sigma")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (1.1, "costs privacy, too"),
        (0.55, "sigma times tau"),
        (0.7, "baseline of the paper"),
        (0.925, "one release without sampling"),
        (0.7246, "the paper's formula gives"),
        (1.931, "epsilon that both shall have"),
        (0.7634, "bound by Rényi divergences"),
        (0.8164, "bound by Rényi divergences"),
        (2.0, "256/60000"),
        (-1.0, "256/60000"),
        (..., "not written yet"),
    ],
)
def test_matched_sigma_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_matched_sigma, wrong)


# Item 10


def by_the_book(median, *, margin, tau, sigma, scale, delta0, rng):
    run = propose_test_release(
        median, f2=median, margin=margin, bound=0.5, tau=tau, sigma=sigma, scale=scale, delta0=delta0, rng=rng
    )
    return float(run.value)


def variant(*, laplace=1.0, test_noise=None, noise=None, out=None, small=None, large=None, limit=None, own_noise=False):
    def release(median, *, margin, tau, sigma, scale, delta0, rng):
        source = np.random.default_rng() if own_noise else rng
        noisy = margin + (test_noise(source, scale) if test_noise else laplace * source.laplace(0.0, scale))
        at = limit(scale, delta0) if callable(limit) else limit
        passed = noisy > (-scale * math.log(2 * delta0) if at is None else at)
        if passed:
            deviation = sigma * tau if small is None else small(sigma, tau) if callable(small) else small
        else:
            deviation = sigma * 0.5 if large is None else large(sigma, tau) if callable(large) else large
        value = median + (noise(source, deviation) if noise else deviation * source.standard_normal())
        return out(value) if out else value

    return release


def both_drawn(median, *, margin, tau, sigma, scale, delta0, rng):
    """Both noises drawn, and a difference of exponential noises for the Laplace noise; a 0-d array."""
    small, large = rng.normal(0.0, sigma * tau), rng.normal(0.0, sigma / 2)
    passed = margin + rng.exponential(scale) - rng.exponential(scale) >= scale * np.log(0.5 / delta0)
    return np.array(median + np.where(passed, small, large))


@pytest.mark.parametrize("right", [by_the_book, variant(), both_drawn])
def test_release_accepts(right, capsys):
    items.check_release(right)
    assert capsys.readouterr().out.startswith("✓ release")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        (variant(small=lambda sigma, tau: sigma * 0.1), "does not follow the law"),
        (variant(noise=lambda rng, s: rng.normal(0.0, s) + rng.normal(0.0, s)), "does not follow the law"),
        (variant(out=lambda value: min(1.0, max(0.0, value))), "does not follow the law"),
        (variant(out=lambda value: round(value)), "in each of"),
        (lambda median, *, margin, rng: median, "keep the parameter names"),
        (lambda median, *, margin, tau, sigma, scale, delta0, rng: median, "in each of"),
        (variant(own_noise=True), "its own randomness"),
    ],
)
def test_release_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_release, wrong)


# Item 11

GOOD = (
    "Take the sensitive dataset T nearest to the neighbour. From S first change one record to reach the neighbour, "
    "then go on to T, so the distance is at most one more; exchanging the two datasets gives the other inequality."
)


OTHER = GOOD.replace("exchanging", "swapping").replace("first change", "via a change of")


UNLIKE = [
    "Let B be the set of datasets whose local sensitivity is larger than tau. The margin is the distance to B, and the "
    "distance to a set is 1-Lipschitz. No property of f was used in any place.",
    "Suppose the margin of S' is k: k edits make it a bad dataset. Undoing the one record leads from S to S', and so "
    "k+1 edits suffice from S. Likewise from S', so the two differ by at most one.",
    "The margin counts edits until the local sensitivity exceeds tau. A path from S' to an unstable dataset extends to "
    "one from S with one more edit. Conversely, a path from S extends to one from S'.",
    "d(S, T) ≤ d(S, S') + d(S', T) ≤ 1 + d(S', T) for each T with local sensitivity > tau. Take the minimum over T on "
    "each side, and then do the same with S and S' interchanged.",
]


@pytest.mark.parametrize("right", [GOOD, OTHER, *UNLIKE])
def test_why_one_accepts(right, capsys):
    items.check_why_one(right)
    assert capsys.readouterr().out.startswith("✓ why_one")


@pytest.mark.parametrize(
    ("wrong", "diagnosis"),
    [
        ("Because of the triangle inequality.", "words"),
        (GOOD.replace("exchanging", "considering").replace("the two", "those"), "exchanged"),
        (GOOD.replace("sensitive", "other"), "leads to"),
        (7, "triple quotes"),
        (..., "not written yet"),
    ],
)
def test_why_one_names_the_mistake(wrong, diagnosis):
    assert diagnosis in message(items.check_why_one, wrong)
