"""Labels of privacy numbers: what is accepted, and that the sentence is true."""

import dataclasses
import math
import re

import pytest

from dpml.accounting import Bounds, Guarantee
from dpml.accounting.guarantee import ADJACENCIES, KINDS, SAMPLINGS

GOOD = {"delta": 1e-5, "kind": "upper bound", "adjacency": "add/remove", "sampling": "Poisson", "order": 33.0}


def test_sentences():
    assert str(Guarantee(1.25857474125, **GOOD)) == (
        "epsilon is at most 1.25858 at delta = 1e-05 (upper bound), for neighbours that differ by one record added or "
        "removed, with Poisson sampling; found at Rényi order 33."
    )
    assert str(Guarantee(1.0, delta=0, kind="exact", adjacency="replace-one")) == (
        "epsilon is at most 1 at delta = 0 (exact), for neighbours that differ in one replaced record."
    )
    assert str(Guarantee(2, delta=0.1, kind="approximation", adjacency="as the mechanism's")) == (
        "epsilon is about 2 at delta = 0.1 (an approximation, not a guarantee), for the neighbours of the mechanism it "
        "was made from."
    )
    assert str(Guarantee(math.inf, delta=0, kind="exact", adjacency="replace-one")) == (
        "No epsilon holds at delta = 0, for neighbours that differ in one replaced record."
    )
    assert str(Bounds(1.99999999, upper=2.00000001, delta=1e-5, adjacency="add/remove", sampling="Poisson")) == (
        "epsilon lies between 1.99999 and 2.00001 at delta = 1e-05, for neighbours that differ by one record added or "
        "removed, with Poisson sampling; quote the upper side."
    )


@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, 2 / 3, 1.0000001, 123456.7, 1e-12, 1e300, 0.30000000000000004])
def test_printed_numbers_are_rounded_up(epsilon):
    text = str(Guarantee(epsilon, delta=epsilon % 1, kind="exact", adjacency="replace-one"))
    printed, printed_delta = (float(v) for v in re.findall(r"(?:most|delta =) (\S+)", text))
    assert epsilon <= printed <= epsilon * (1 + 1e-5)
    assert epsilon % 1 <= printed_delta <= 1


def test_every_label_has_words():
    sentences = {
        str(Guarantee(1, delta=0.1, kind=kind, adjacency=adjacency, sampling=sampling))
        for kind in KINDS
        for adjacency in ADJACENCIES
        for sampling in SAMPLINGS
    }
    assert len(sentences) == len(KINDS) * len(ADJACENCIES) * len(SAMPLINGS)


@pytest.mark.parametrize(
    ("name", "bad"),
    [("epsilon", v) for v in (-1e-9, math.nan, -math.inf, None, "1", True)]
    + [("delta", v) for v in (-1e-9, 1.1, math.nan, math.inf, None, "1", True)]
    + [("order", v) for v in (1.0, 0.5, math.nan, math.inf, "2", True)]
    + [(label, v) for label in ("kind", "adjacency", "sampling") for v in (None, "", "Exact", 3, True, ["exact"])],
)
def test_guarantee_refuses(name, bad):
    with pytest.raises(ValueError, match=rf"^{name} must be"):
        Guarantee(**{"epsilon": 1.0, **GOOD, name: bad})


@pytest.mark.parametrize(
    ("name", "bad"),
    [("lower", v) for v in (-1e-9, math.nan, math.inf, None, "1", True)]
    + [("upper", v) for v in (0.4, math.nan, None, "1", True)]
    + [("delta", v) for v in (-1e-9, 1.1, math.nan, None, True)]
    + [(label, v) for label in ("adjacency", "sampling") for v in (None, "", "Exact", 3)],
)
def test_bounds_refuses(name, bad):
    good = {"lower": 0.5, "upper": 1.0, "delta": 1e-5, "adjacency": "add/remove", "sampling": "none"}
    with pytest.raises(ValueError, match=rf"^{name} must be"):
        Bounds(**{**good, name: bad})


def test_bounds_quote_the_upper_side():
    bounds = Bounds(0.5, upper=math.inf, delta=1e-5, adjacency="add/remove", sampling="Poisson")
    quoted = bounds.guarantee()
    assert quoted == Guarantee(math.inf, delta=1e-5, kind="upper bound", adjacency="add/remove", sampling="Poisson")
    assert "between 0.5 and infinity" in str(bounds)


def test_numbers_become_floats_and_stay():
    guarantee = Guarantee(1, delta=0, kind="exact", adjacency="replace-one", order=2)
    assert [type(v) for v in (guarantee.epsilon, guarantee.delta, guarantee.order)] == [float] * 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        guarantee.epsilon = 0.5
    with pytest.raises(TypeError):
        Guarantee(1.0, 1e-5, "exact", "replace-one")
