"""Small ensembles, all of them, their neighbours, and how far two laws of outputs are apart."""

import itertools
import math


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
