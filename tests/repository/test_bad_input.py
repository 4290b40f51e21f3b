"""Every argument of every public function gets NaN, infinity, text, None, a boolean, a list and a negative number.

The functions are found by walking the package, and what an argument may be is read off its annotation. A new function
fails here until each of its arguments has a good value.
"""

import inspect
import math
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from book.ext import docstrings
from dpml.accounting import guarantee
from dpml.accounting.pld import losses
from dpml.certified import pixeldp
from tests.golden import golden

ROOMS = ("accounting", "audit", "mechanisms", "pate", "ptr")
ROOMS += ("byzantine.aggregation", "byzantine.attacks", "byzantine.theory")
ROOMS += ("certified.pixeldp", "certified.smoothing", "certified.stobatch.budget", "certified.stobatch.reconstruction")
DATA = golden("bad_input")
GOOD = DATA["good"] | {
    "loss": losses.gaussian(sigma=1.5),
    "pairs": losses.laplace(scale=1.5).pairs,
    "guarantee": guarantee.Guarantee(1.0, delta=0.0, kind="exact", adjacency="replace-one"),
    "function": sum,
    "dataset": (0, 1, 1),
    "values": (0, 1),
    "train": lambda data, members: np.zeros(len(members), dtype=int),
    "parts": [(losses.gaussian(sigma=1.5), 2), (losses.laplace(scale=1.5), 1)],
}
TABLE = np.arange(6.0).reshape(3, 2) ** 2  # examples, or weights
GOOD |= {"noisy": TABLE, "known": TABLE[0], "theta": TABLE[:2], "gradient": TABLE[:2]}
GOOD |= {"released": np.ones((3, 2, 2)), "limits": pixeldp.Limits(np.array([0.6, 0.1]), np.array([0.9, 0.4]))}
GOOD |= {"predict": lambda noisy: np.zeros(len(noisy), dtype=int)}
PART = {"delta": 0.0, "kind": "exact", "adjacency": "replace-one"}
GOOD["guarantees"] = [guarantee.Guarantee(1.0, **PART)]
GOOD_HERE = {(f, parameter): value for f, row in DATA["good_here"].items() for parameter, value in row.items()}
GOOD_HERE |= {("smoothing.certify", "x"): np.zeros((3, 2))}
GOOD_HERE |= {(f"reconstruction.{f}", "data"): TABLE for f in ("rank_test", "same_covariance")}
SIGNED = set(DATA["signed"])  # a negative number is good
TRUE_IS_GOOD = {"bits", "answers", "above", "included", "correct"}
NONE_IS_AN_ANSWER = {"pate.sparse_vector.above_threshold"}
INFINITY_IS_GOOD = {("guarantee.Guarantee", "epsilon"), ("guarantee.Bounds", "upper")}
INFINITY_IS_GOOD |= {(f, "margin") for f in ("pass_probability", "propose_test_release")}
INFINITY_IS_GOOD |= {("encoder_gradient", "bound")}
ROWS = {"vectors", "honest", "outputs", "gradients"}
BAD_ROWS = [
    np.zeros((0, 3)),
    np.zeros((3, 3, 3)),
    np.ones(3),
    np.ones((5, 2), dtype=bool),
    [],
    [[]],
    [[1.0, 2.0], [3.0]],
]
BAD_ROWS += [np.ma.masked_array(np.ones((5, 2)), mask=np.eye(5, 2)), [[math.nan, 1.0], [0.0, 1.0]], [[0.0], [math.inf]]]
SCALAR_IS_BAD = {"scores", "scores_neighbour", "losses"}
ANY_COUNT_IS_GOOD = {"k", "size", "trim", "r"}  # where the result leaves the floats: tests/accounting


# By dotted name. Records (named tuples) are made by functions that check.
FUNCTIONS = {
    f"{entry.written_in}.{entry.name}".removeprefix("dpml."): entry.value
    for module in docstrings.modules()
    if f"{module}.".startswith(tuple(f"dpml.{room}." for room in ROOMS))
    for entry in docstrings.public(module)
    if callable(entry.value) and not hasattr(entry.value, "_fields")
}


def entry(table, name, parameter):
    """Whether, and as what, a table has this parameter: under the end of the function's dotted name."""
    return next((key for key in table if key[1] == parameter and f".{name}".endswith(f".{key[0]}")), None)


def annotations(name):
    return {p.name: str(p.annotation) for p in inspect.signature(FUNCTIONS[name]).parameters.values() if p.name != "_"}


def good_arguments(name):
    arguments = {}
    for parameter, annotation in annotations(name).items():
        if annotation == "np.random.Generator":
            arguments[parameter] = np.random.default_rng(0)
        elif annotation == "Callable[[int], float]":  # a curve of divergences, at integer orders
            arguments[parameter] = lambda order: 0.1 * order
        elif parameter == "vectors" and name.startswith("byzantine"):
            arguments[parameter] = [[1.0, 0.0], [0.5, 2.0], [0.0, -1.0]]
        elif key := entry(GOOD_HERE, name, parameter):
            arguments[parameter] = GOOD_HERE[key]
        else:
            arguments[parameter] = 4 if (parameter, annotation) == ("order", "int") else GOOD[parameter]
    return arguments


MASKED = np.ma.masked_array([0.0, 1.0], mask=[True, False])  # NumPy would use what stands behind the mask
WIDEST = np.finfo(np.longdouble).max
TOO_WIDE = [WIDEST] if np.finfo(np.float64).max < WIDEST else []  # refused as infinite, without a warning


def bad_values(name, parameter):
    annotation = annotations(name)[parameter]
    yield from ("0.5", "", b"1", object(), 1j, {0.5}, {}, Decimal(1))
    if "None" not in annotation:
        yield None
    if parameter not in TRUE_IS_GOOD:
        yield from (True, np.True_)
    yield from (math.nan, -math.inf, np.float64("nan"))
    yield from (np.timedelta64(1), np.timedelta64(1, "s"), np.array(np.timedelta64(1)), np.ma.masked)
    yield from (np.ma.masked_array(1.0, mask=True), MASKED)
    if not entry(INFINITY_IS_GOOD, name, parameter):
        yield from (math.inf, *TOO_WIDE)
    if parameter not in SIGNED:
        yield from (-1, -1e-9)
    if annotation == "int":
        yield from (2.0, np.float64(2.0), Fraction(2))
    if "ArrayLike" in annotation or annotation == "Iterable[float]":
        yield from ([0.0, math.nan], [0.0, math.inf], ["a"], [None], [[1.0], [1.0, 0.0]])
        yield from ([MASKED, MASKED], (MASKED,), [10**400])
        yield [0.5] if parameter in TRUE_IS_GOOD else [0.0, True]
    else:
        yield from (np.array([0.5, 0.5]), [0.5, 0.5], [3, 3], np.array([0.5]))
        if parameter not in ANY_COUNT_IS_GOOD:
            yield 10**400
    if parameter in ROWS and name.startswith("byzantine"):
        yield from BAD_ROWS
    if parameter in SCALAR_IS_BAD:
        yield 1.0


CASES = [(name, parameter) for name in FUNCTIONS for parameter in annotations(name)]


EXTREMES = (5e-324, 1e-160, 1e-17, 1.0 - 2.0**-53, 1.0 + 2.0**-52, 1e8, 1e160, 1.7e308)


def outcome(name, arguments):
    """What comes out, in words: a refusal, a result (a stream of them run to its end), never another exception."""
    try:
        result = FUNCTIONS[name](**arguments)
        return repr(list(result) if inspect.isgenerator(result) else result)
    except ValueError as refusal:
        return str(refusal)


@pytest.mark.parametrize(
    ("name", "parameter"), [(f, p) for f, p in CASES if annotations(f)[p] in ("float", "ArrayLike")]
)
def test_extremes_give_a_result_or_a_refusal(name, parameter):
    """The same whatever NumPy was told to do about overflow and underflow, and never NaN."""
    for extreme in EXTREMES:
        found = []
        for setting in ("ignore", "raise"):
            with np.errstate(all=setting):
                found.append(outcome(name, good_arguments(name) | {parameter: extreme}))
        assert found[0] == found[1] and not re.search(r"\bnan\b", found[0]), extreme


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_each_bad_value_is_refused_by_name(name, parameter):
    """And before anything is drawn."""
    good = good_arguments(name)
    for bad in bad_values(name, parameter):
        with pytest.raises(ValueError, match=rf"^{parameter} must ") as caught:
            FUNCTIONS[name](**{**good, parameter: bad})
        assert len(str(caught.value)) < 400
        assert re.search(r", got |share one adjacency", str(caught.value)), "the message shows what came"
    assert "rng" not in good or good["rng"].random() == np.random.default_rng(0).random()


OPERATIONS = ["add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "lt", "le", "gt", "ge", "repr"]
RAW = {k.__name__: type("Raw", (k,), {f"__{name}__": None for name in OPERATIONS}) for k in (float, int)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_good_values_are_good_and_used_as_the_check_made_them(name):
    """Else an int8 overflows, and a float32 loses half of its digits."""
    good = good_arguments(name)
    result = FUNCTIONS[name](**good | {p: RAW[a](good[p]) for p, a in annotations(name).items() if a in RAW})
    assert result is not None or name in NONE_IS_AN_ANSWER
    assert repr(list(result) if inspect.isgenerator(result) else result), "nor is such a number returned"


@pytest.mark.parametrize(("name", "parameter"), [(f, p) for f, p in CASES if "ArrayLike" in annotations(f)[p]])
def test_of_nothing_comes_nothing_or_a_refusal_by_name(name, parameter):
    for shape in ((0,), (0, 2), (2, 0)):
        assert not re.search("nan|operation", outcome(name, good_arguments(name) | {parameter: np.zeros(shape)})), shape


BAD_COUNTS = [3, [], [3], [[3], [4]], [[[1, 2]]], [3, -1], [3.5, 1], [True, 2]]


EDGES = [(f, parameter, bad) for f, row in DATA["bad"].items() for parameter, all_bad in row.items() for bad in all_bad]


@pytest.mark.parametrize(
    ("name", "parameter", "bad"),
    [
        *EDGES,
        ("poisson_subsampled_upper", "rdp", lambda order: math.nan),
        ("poisson_subsampled_lower", "rdp", lambda order: -1.0),
        *((f, "counts", bad) for f in ("distance_to_instability", "noisy_argmax") for bad in BAD_COUNTS),
        ("subsample_votes", "train", lambda data, members: np.zeros(3, dtype=int)),
        ("epsilon_lower_bound_from_scores", "rng", np.random.RandomState(0)),
    ],
)
def test_the_edges_of_the_ranges(name, parameter, bad):
    """Under the end of the function's dotted name, which must be one function's alone."""
    (full,) = [full for full in FUNCTIONS if f".{full}".endswith(f".{name}")]
    with pytest.raises(ValueError, match=rf"^{parameter} must "):
        FUNCTIONS[full](**{**good_arguments(full), parameter: bad})


RANGE = re.compile(
    r"((?:\w+, )*(?:\w+ or )?\w+)(?: is)? not(?: an integer| one)? in ([\[(])([^][(),]+), ([^][(),]+)([])])"
)
NAMED = {"1/2": 0.5, "1/e": math.exp(-1.0), "pi/2": math.pi / 2.0}
ELSEWHERE = ("accounting.pld", "ptr.privacy")  # ranges that hold only where no closed form does


def end_of_range(text):
    """2^53, 1e-300, inf or pi/2 as a number; None for what depends on other arguments."""
    base, _, power = text.partition("^")
    try:
        return float(base) ** float(power or 1)
    except ValueError:
        return NAMED.get(text)


def documented_ranges():
    """Each range after "Raises:" with numbers as ends: function, argument, ends, which of them are open, the text."""
    for name in FUNCTIONS:
        text = " ".join(inspect.getdoc(FUNCTIONS[name]).partition("Raises:")[2].partition("\n\n")[0].split())
        for listed, left, *ends, right in RANGE.findall(text):
            low, high = map(end_of_range, ends)
            if None not in (low, high) and not name.startswith(ELSEWHERE):
                known = [parameter for parameter in re.findall(r"\w+", listed) if parameter in annotations(name)]
                yield from ((name, parameter, low, high, left == "(", right == ")", text) for parameter in known)


@pytest.mark.parametrize("row", list(documented_ranges()), ids=lambda row: f"{row[0]}-{row[1]}")
def test_a_documented_range_is_the_one_that_is_refused(row):
    """One step outside an end, by name; just inside it, at most for another reason than its range."""
    name, parameter, low, high, low_open, high_open, text = row
    whole = annotations(name)[parameter] == "int"
    for end, is_open, way in ((low, low_open, -1), (high, high_open, 1)):
        outside, inside = (
            (end, math.nextafter(end, -way * math.inf)) if is_open else (math.nextafter(end, way * math.inf), end)
        )
        if math.isfinite(end):
            with pytest.raises(ValueError, match=rf"^{parameter} must "):
                FUNCTIONS[name](**good_arguments(name) | {parameter: int(end) + way if whole else outside})
        if not whole and math.isfinite(end) and not re.search("so small|range of floats|is above", text):
            found = outcome(name, good_arguments(name) | {parameter: inside})
            assert not re.match(rf"{parameter} must be .*in [\[(]", found), found
