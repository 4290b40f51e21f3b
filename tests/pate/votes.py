"""Small ensembles, all of them, and their neighbours."""

import itertools


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
