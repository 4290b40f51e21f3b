"""Small ensembles, all of them, their neighbours, and how far two laws of outputs are apart."""

import itertools
import math

import numpy as np
from scipy.special import log_ndtr, logsumexp


def histograms(voters, classes):
    """Every way in which the voters can vote."""
    for bars in itertools.combinations(range(voters + classes - 1), classes - 1):
        ends = (-1, *bars, voters + classes - 1)
        yield tuple(b - a - 1 for a, b in itertools.pairwise(ends))


def moved(counts):
    """Every histogram that one replaced record can lead to: one vote goes from a class to another."""
    for a, b in itertools.permutations(range(len(counts)), 2):
        if counts[a] > 0:
            other = list(counts)
            other[a] -= 1
            other[b] += 1
            yield tuple(other)


def hockey_stick(one, other, epsilon):
    """The least delta for these two laws in this direction, by summing over outputs: dictionaries of probabilities."""
    return sum(max(0.0, p - math.exp(epsilon) * other.get(key, 0.0)) for key, p in one.items())


@np.errstate(under="ignore")
def gnmax_log_law(counts, sigma):
    """log P of each class: the trapezoidal rule, which converges fast for smooth integrands that vanish at the ends."""
    c = np.asarray(counts) / sigma
    x = np.arange(c.min() - 12.0, c.max() + 12.0, 0.05)[:, None]
    log_cdf = log_ndtr(x - c)
    terms = log_cdf.sum(axis=1, keepdims=True) - log_cdf - (x - c) ** 2 / 2.0 - 0.5 * math.log(2.0 * math.pi)
    return logsumexp(terms, axis=0) + math.log(0.05)
