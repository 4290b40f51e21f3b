"""Answers to the exercises of chapter 10, right and wrong; `test_answers` tries them."""

import itertools
import math

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

from dpml.accounting import pld, rdp
from dpml.lessons.ptr import checks as items
from dpml.ptr import broken_trimmed_sum, privacy, renyi, theorems, trimmed_sum
from dpml.ptr.propose_test_release import propose_test_release

MNIST = {"q": 256 / 60_000, "sigma": 1.1, "tau": 0.5, "scale": 1.0, "delta0": 1e-8}
RUN = {**MNIST, "steps": 3500, "delta": 1e-5}


def laplace_moment(order: float, scale: float) -> float:
    first, second = order * math.exp((order - 1) / scale), (order - 1) * math.exp(-order / scale)
    return (first + second) / (2 * order - 1)


def by_formula(order, *, scale):
    return math.log(laplace_moment(order, scale)) / (order - 1)


def by_integral(order, *, scale):
    def integrand(s: float) -> float:
        ratio = math.exp((abs(s) - abs(s - 1)) / scale)
        return ratio**order * math.exp(-abs(s) / scale) / (2 * scale)

    edges = (-40 * scale, 0, 1, 1 + 40 * scale)
    area = sum(quad(integrand, *pair, epsabs=0, epsrel=1e-12)[0] for pair in itertools.pairwise(edges))
    return math.log(area) / (order - 1)


def by_two_cases(order, *, sigma, tau, scale, delta0):
    terms = [math.log1p(-delta0) + order * (order - 1) / (2 * sigma**2)]
    terms.append(math.log(delta0) + order * (order - 1) / (2 * (sigma * tau) ** 2))
    first = float(np.logaddexp.reduce(terms)) / (order - 1)
    return max(first, order / (2 * sigma**2) + by_formula(order, scale=scale))


def by_package(order, *, sigma, tau, scale, delta0):
    return float(privacy.theorem_4_3(np.array([order]), sigma=sigma, tau=tau, scale=scale, delta0=delta0)[0])


def by_logarithms(order, *, q, sigma, scale):
    logs = [
        math.log(math.comb(order, k) * (1 - q) ** (order - k) * q**k)
        + k * (k - 1) / (2 * sigma**2)
        + (math.log(laplace_moment(k, scale)) if k >= 2 else 0.0)
        for k in range(order + 1)
    ]
    return float(np.logaddexp.reduce(logs))


def by_exact_cases(order, *, q, sigma, scale):
    cases = renyi.exact_cases(float(order), q=q, sigma=sigma, tau=0.9, scale=scale, delta0=1e-3)
    return (order - 1) * float(cases.case_2)


def by_search() -> int:
    order = 2
    while theorems.theorem_4_4_formula(float(order), **MNIST) >= privacy.exact_subsampled_rdp(float(order), **MNIST):
        order += 1
    return order


def by_count(norms, *, trim, tau):
    return max(0, trim - sum(1 for v in norms if v > tau))


def by_enumeration(norms, *, trim, tau):
    lengths = sorted(norms)
    for r in range(trim):
        rank = len(lengths) - trim + 1 + r
        if rank >= 1 and lengths[rank - 1] > tau:
            return r
    return trim


def by_package_sum(vectors, *, ids, trim, bound):
    return trimmed_sum.clipped_trimmed_sum(vectors, ids=ids, trim=trim, bound=bound)


def by_contents(vectors, *, ids, trim, bound):
    """Equal lengths by the entries: a fixed order of all records as well."""
    stays = sorted(vectors.tolist(), key=lambda x: (np.linalg.norm(x), x))[: max(0, len(vectors) - trim)]
    return sum((np.array(x) * min(1.0, bound / np.linalg.norm(x)) for x in stays), np.zeros(vectors.shape[1]))


def larger_ids_stay(vectors, *, ids, trim, bound):
    """And single precision."""
    return by_package_sum(vectors, ids=-ids, trim=trim, bound=bound).astype(np.float32).tolist()


def wrong_end(vectors, *, ids, trim, bound):
    order = np.lexsort((ids, np.linalg.norm(vectors, axis=1)))[trim:]
    return (vectors[order] * np.minimum(1.0, bound / np.linalg.norm(vectors[order], axis=1))[:, None]).sum(axis=0)


def negative_end(vectors, *, ids, trim, bound):
    lengths = np.linalg.norm(vectors, axis=1)
    order = np.lexsort((ids, lengths))
    stays = order[: len(vectors) - trim]
    return (vectors[stays] * np.minimum(1.0, bound / lengths[stays])[:, None]).sum(axis=0)


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
        return change(vectors[stays], bound)

    return wrong


def sorted_then_by_row(vectors, *, ids, trim, bound):
    return trimmed_sum.clipped_trimmed_sum(vectors, trim=trim, bound=bound)


def moved_by_hand() -> float:
    orders = np.arange(2.0, 41.0)
    moments = [by_logarithms(int(a), q=MNIST["q"], sigma=1.1, scale=1.0) for a in orders]
    left = 1e-5 - 3000 * MNIST["q"] * 1e-8
    return float(np.min(rdp.conversion_improved(orders, rdp=3000 * np.array(moments) / (orders - 1), delta=left)))


def by_searching_sigma() -> float:
    target = privacy.epsilon(**RUN).epsilon
    plain = {"q": MNIST["q"], "steps": 3500, "delta": 1e-5}
    return brentq(lambda s: pld.epsilon(sigma=s, **plain).epsilon - target, 0.8, 0.9, xtol=1e-4)


def by_the_book(median, *, margin, tau, sigma, scale, delta0, rng):
    run = propose_test_release(
        median, f2=median, margin=margin, bound=0.5, tau=tau, sigma=sigma, scale=scale, delta0=delta0, rng=rng
    )
    return float(run.value)


def both_drawn(median, *, margin, tau, sigma, scale, delta0, rng):
    """Both noises drawn, and a difference of exponential noises for the Laplace noise; a 0-d array."""
    small, large = rng.normal(0.0, sigma * tau), rng.normal(0.0, sigma / 2)
    passed = margin + rng.exponential(scale) - rng.exponential(scale) >= scale * np.log(0.5 / delta0)
    return np.array(median + np.where(passed, small, large))


RIGHT = {
    items.check_barrier: [math.log(5e7), 17.73],
    items.check_laplace_rdp: [by_formula, by_integral],
    items.check_ptr_rdp: [by_two_cases, by_package],
    items.check_sampled_log_moment: [by_logarithms, by_exact_cases],
    items.check_first_false_order: [by_search(), 6.0],
    items.check_margin: [by_count, by_enumeration],
    items.check_total: [by_contents, larger_ids_stay],
    items.check_epsilon_moved: [
        moved_by_hand(),
        renyi.epsilon_by_rdp_branch_in_delta(**{k: v for k, v in RUN.items() if k != "tau"} | {"steps": 3000}).epsilon,
    ],
    items.check_matched_sigma: [privacy.matching_gaussian_sigma(**RUN), by_searching_sigma()],
    items.check_release: [by_the_book, both_drawn],
}
WRONG = {
    items.check_total: [
        (sorted_then_by_row, "let the id decide"),
        (lambda v, *, ids, trim, bound: trimmed_sum.trimmed_sum(v, ids=ids, trim=trim), "not clipped"),
        (wrong_end, "leaves out others than the longest"),
        (above_a_length, "not all above a length"),
        (
            lambda v, *, ids, **given: broken_trimmed_sum.by_clipped_norms(v, **given),
            "Sort by the length before clipping",
        ),
        (staying(lambda v, c: v.sum(axis=0) / max(1.0, np.linalg.norm(v.sum(axis=0)) / c)), "the sum is clipped"),
        (staying(lambda v, c: c * (v / np.linalg.norm(v, axis=1)[:, None]).sum(axis=0)), "made longer"),
        (staying(lambda v, c: np.clip(v, -c, c).sum(axis=0)), "each entry is clipped"),
        (lambda v, *, ids, trim, bound: by_package_sum(v, ids=ids, trim=trim + 1, bound=bound), "it adds up 3"),
        (lambda v, **given: by_package_sum(v, **given) / max(1, len(v) - given["trim"]), "the mean"),
        (lambda v, **given: 2 * by_package_sum(v, **given), "another sum"),
        (lambda v, **given: by_package_sum(v, **given) + 1j, "not an array of real numbers"),
        (lambda v, **given: [[1.0], [1.0, 2.0]], "different lengths"),
        (negative_end, "the sum is zero"),
        (lambda v, *, ids, trim, bound: np.zeros(7), "shape (7,)"),
    ],
    items.check_release: [
        (lambda median, **case: both_drawn(median, **case | {"tau": case["tau"] / 10}), "does not follow the law"),
        (lambda median, **case: float(np.clip(both_drawn(median, **case), 0, 1)), "and cut nothing off"),
    ],
}
