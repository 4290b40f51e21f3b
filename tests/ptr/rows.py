"""What the tests of the room share: golden rows and random numbers as arguments, and Gauss-Legendre panels."""

import math

import numpy as np


def given(row):
    """The arguments that all functions of the room have, from a golden row; q where the row has one."""
    setting = {"sigma": row["sigma1"], "tau": row["sigma2"] / row["sigma1"], "scale": row["b"], "delta0": row["delta0"]}
    return setting | ({"q": row["q"]} if "q" in row else {})


def scattered(rng, **ranges):
    """One value for each argument, its logarithm uniform between those of the two ends."""
    return {name: math.exp(rng.uniform(*np.log(ends))) for name, ends in ranges.items()}


def panels(edges, count):
    """Nodes and weights of the Gauss-Legendre rule with `count` nodes between neighbouring edges."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    edges = np.asarray(edges)
    half, middle = np.diff(edges) / 2.0, (edges[1:] + edges[:-1]) / 2.0
    return (middle[:, None] + half[:, None] * nodes).ravel(), (half[:, None] * weights).ravel()
