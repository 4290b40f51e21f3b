"""Labels of privacy numbers: what is accepted, and that the sentence is true."""

import dataclasses
import itertools
import math
import re
from decimal import Decimal

import pytest

from dpml.accounting import Bounds, Guarantee
from dpml.accounting.guarantee import ADJACENCIES, KINDS, SAMPLINGS

PLACE = {"delta": 1e-5, "adjacency": "add/remove", "sampling": "Poisson"}
GOOD = {**PLACE, "kind": "upper bound", "order": 33.0}


SENTENCES = {
    Guarantee(1.25857474125, **GOOD): "epsilon is at most 1.25858 at delta = 1e-05 (upper bound), for neighbours that "
    "differ by one record added or removed, with Poisson sampling; found at Rényi order 33.",
    Guarantee(1.0, delta=0, kind="exact", adjacency="replace-one"): "epsilon is at most 1 at delta = 0 (exact), for "
    "neighbours that differ in one replaced record.",
    Guarantee(2, delta=0.1, kind="approximation", adjacency="as the mechanism's"): "epsilon is about 2 at delta = 0.1 "
    "(an approximation, not a guarantee), for the neighbours of the mechanism it was made from.",
    Guarantee(math.inf, delta=0, kind="exact", adjacency="replace-one"): "No epsilon is known to hold at delta = 0, "
    "for neighbours that differ in one replaced record.",
    Guarantee(2, delta=1e-6, kind="upper bound", adjacency="group"): "epsilon is at most 2 at delta = 1e-06 (upper "
    "bound), for datasets as many steps apart as the group is large.",
    Bounds(1.99999999, upper=2.00000001, **PLACE): "epsilon lies between 1.99999 and 2.00001 at delta = 1e-05, for "
    "neighbours that differ by one record added or removed, with Poisson sampling; quote the upper side.",
}


@pytest.mark.parametrize(("number", "sentence"), SENTENCES.items(), ids=range(len(SENTENCES)))
def test_sentences(number, sentence):
    assert str(number) == sentence


@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, 2 / 3, 1.0000001, 123456.7, 1e-12, 1e300, 0.30000000000000004])
def test_printed_numbers_are_rounded_up(epsilon):
    text = str(Guarantee(epsilon, delta=epsilon % 1, kind="exact", adjacency="replace-one"))
    printed, printed_delta = (float(v) for v in re.findall(r"(?:most|delta =) (\S+)", text))
    assert epsilon <= printed <= epsilon * (1 + 1e-5)
    assert epsilon % 1 <= printed_delta <= 1


def test_what_is_claimed_at_a_delta_is_claimed_at_this_delta():
    """A lower bound, or that nothing is known, may be false at a delta that is rounded up."""
    delta = 1.23456789e-7
    nothing = Guarantee(math.inf, delta=delta, kind="upper bound", adjacency="add/remove")
    bounds = Bounds(0.5, upper=1.0, delta=delta, adjacency="add/remove")
    for sentence in (str(nothing), str(bounds)):
        assert "at delta = 1.23456789e-07, " in sentence
    assert "at delta = 1.23457e-07 " in str(Guarantee(1.0, delta=delta, kind="exact", adjacency="add/remove"))


@pytest.mark.parametrize("epsilon", [5e-324, 1e-323, 4.4e-323, 1e-310, 1.797e308, 1.7976931348623157e308])
def test_sentences_at_the_ends_of_the_range_of_floats(epsilon):
    """As decimal numbers, since reading them back as floats would hide the rounding."""
    exact, last = Decimal(epsilon), Decimal("2.5e-324")  # half of the smallest float
    slack = Decimal("1e-16") if epsilon > 1e-300 else 0  # elsewhere the shortest decimal form stands for the float
    printed = re.search(r"most (\S+)", str(Guarantee(epsilon, delta=0, kind="exact", adjacency="replace-one")))[1]
    assert exact * (1 - slack) <= Decimal(printed) <= exact * Decimal("1.00001") + last
    sentence = str(Bounds(epsilon, upper=math.inf, delta=0, adjacency="replace-one"))
    printed = re.search(r"between (\S+) and infinity", sentence)[1]
    assert exact * Decimal("0.99999") - last <= Decimal(printed) <= exact * (1 + slack)


def test_the_order_is_printed_as_it_is():
    labels = {"delta": 0, "kind": "upper bound", "adjacency": "replace-one"}
    for order, text in ((1.0000001, "1.0000001"), (33.0, "33"), (2.5, "2.5"), (1e300, "1e+300")):
        assert f"; found at Rényi order {text}." in str(Guarantee(1.0, **labels, order=order))


def test_every_label_has_words():
    sentences = {
        str(Guarantee(1, delta=0.1, kind=kind, adjacency=adjacency, sampling=sampling))
        for kind, adjacency, sampling in itertools.product(KINDS, ADJACENCIES, SAMPLINGS)
    }
    assert len(sentences) == len(KINDS) * len(ADJACENCIES) * len(SAMPLINGS)


def test_bounds_quote_the_upper_side():
    bounds = Bounds(0.5, upper=math.inf, **PLACE)
    assert bounds.guarantee() == Guarantee(math.inf, **PLACE, kind="upper bound")
    assert "between 0.5 and infinity" in str(bounds)


def test_numbers_become_floats_and_stay():
    guarantee = Guarantee(1, delta=0, kind="exact", adjacency="replace-one", order=2)
    assert [type(v) for v in (guarantee.epsilon, guarantee.delta, guarantee.order)] == [float] * 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        guarantee.epsilon = 0.5
    with pytest.raises(TypeError):
        Guarantee(1.0, 1e-5, "exact", "replace-one")
