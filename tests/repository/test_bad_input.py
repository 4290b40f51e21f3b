"""Every argument of every public function gets NaN, infinity, text, None, a boolean, a list and a negative number.

The functions are found by walking the package, and what an argument may be is read off its annotation. A new function
fails here until each of its arguments has a good value.
"""

import importlib
import inspect
import math
import pkgutil
import re

import numpy as np
import pytest

import dpml
from dpml.accounting import guarantee
from dpml.accounting.pld import losses

ROOMS = ("accounting", "audit", "mechanisms", "pate", "ptr")
GOOD = {
    "value": 0.3,
    "y": 0.3,
    "center": 0.5,
    "scale": 1.5,
    "sigma": 1.5,
    "epsilon": 0.6,
    "delta": 1e-5,
    "delta_prime": 1e-5,
    "total_delta": 1e-4,
    "total_epsilon": 1.2,
    "q": 0.2,
    "fpr": 0.1,
    "bits": [0, 1, 1],
    "answers": [0, 1, 1],
    "scores": [0.0, 1.0, 3.0],
    "scores_neighbour": [0.5, 0.1],
    "k": 3,
    "size": 3,
    "m": 2,
    "n": 5,
    "successes": 3,
    "trials": 10,
    "alarm": 0.05,
    "true_positives": 9,
    "positives": 10,
    "false_positives": 1,
    "negatives": 10,
    "confidence": 0.9,
    "kind": "exact",
    "adjacency": "add/remove",
    "sampling": "none",
    "order": 2.0,
    "lam": 1.5,
    "max_lam": 32,
    "steps": 3,
    "rdp": 0.25,
    "lower": 0.5,
    "upper": 1.0,
    "loss": losses.gaussian(sigma=1.5),
    "pairs": losses.laplace(scale=1.5).pairs,
    "counts": [5, 3, 2],
    "threshold": 4.0,
    "sigma_threshold": 2.0,
    "queries": 4,
    "asked": 5,
    "answered": 3,
    "guarantee": guarantee.Guarantee(1.0, delta=0.0, kind="exact", adjacency="replace-one"),
    "distance": 2.0,
    "function": sum,
    "dataset": (0, 1, 1),
    "values": (0, 1),
    "beta": 0.01,
    "agreement": 0.75,
    "n_models": 700,
    "classes": 3,
    "chunk": 64,
    "data": [0, 1, 0, 1, 1],
    "train": lambda data, members: np.zeros(len(members), dtype=int),
    "stream": [0.0, 1.0, -1.0],
    "above": [0, 1, 0],
    "cutoff": 2,
    "threshold_scale": 1.5,
    "query_scale": 2.5,
    "labels": ["a", "b", "a"],
    "distances": [3, 0, 40],
    "f1": 0.3,
    "f2": 0.3,
    "margin": 3,
    "bound": 1.0,
    "tau": 0.25,
    "delta0": 0.01,
    "low": 0.0,
    "high": 1.0,
    "trim": 1,
    "norms": [0.5, 2.0],
    "ids": [4, 2],
    "vectors": [[1.0, 0.0], [0.5, 2.0]],
    "r": 1,
    "start": 2.0,
    "learning_rate": 0.05,
    "convexity": 1.0,
    "dimension": 5,
    "batch": 40,
    "parts": [(losses.gaussian(sigma=1.5), 2), (losses.laplace(scale=1.5), 1)],
}
PART = {"delta": 0.0, "kind": "exact", "adjacency": "replace-one"}
GOOD["guarantees"] = [guarantee.Guarantee(1.0, **PART)]
GOOD_HERE = {
    ("theorem_4_4", "sigma"): 20.0,
    ("theorem_4_4", "q"): 0.01,
    ("ptr.privacy.noise_multiplier", "epsilon"): 3.0,
    ("binomial_sum", "lam"): 3,
}
GOOD_HERE |= {(f"theorem_4_2{g}", "delta0"): 1e-8 for g in ("", "_printed")}
GOOD_HERE |= {("epsilon_by_rdp_branch_in_delta", "delta0"): 1e-8}
GOOD_HERE |= {(f"amplification.{f}", "adjacency"): "replace-one" for f in ("without_replacement", "with_replacement")}
SIGNED = {  # a negative number is good
    "value",
    "y",
    "center",
    "scores",
    "scores_neighbour",
    "distance",
    "threshold",
    "stream",
    "f1",
    "f2",
    "low",
}
TRUE_IS_GOOD = {"bits", "answers", "above"}
NONE_IS_AN_ANSWER = {"pate.sparse_vector.above_threshold"}
INFINITY_IS_GOOD = {("guarantee.Guarantee", "epsilon"), ("guarantee.Bounds", "upper")}
INFINITY_IS_GOOD |= {(f, "margin") for f in ("pass_probability", "propose_test_release")}
SCALAR_IS_BAD = {"scores", "scores_neighbour"}
ANY_COUNT_IS_GOOD = {"k", "size", "trim", "r"}  # where the result leaves the floats: tests/accounting


def public_functions():
    """By dotted name. Records (named tuples) are made by functions that check."""
    found = {}
    for _, module_name, _ in pkgutil.walk_packages(dpml.__path__, "dpml."):
        if module_name.split(".")[1] in ROOMS:
            module = importlib.import_module(module_name)
            for name in getattr(module, "__all__", ()):
                function = getattr(module, name)
                if callable(function) and not hasattr(function, "_fields"):
                    found[f"{function.__module__}.{name}".removeprefix("dpml.")] = function
    return found


FUNCTIONS = public_functions()


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
        elif key := entry(GOOD_HERE, name, parameter):
            arguments[parameter] = GOOD_HERE[key]
        else:
            arguments[parameter] = 4 if (parameter, annotation) == ("order", "int") else GOOD[parameter]
    return arguments


def bad_values(name, parameter):
    annotation = annotations(name)[parameter]
    yield from ("0.5", "", b"1", object(), 1j, {0.5})
    if "None" not in annotation:
        yield None
    if parameter not in TRUE_IS_GOOD:
        yield from (True, np.True_)
    yield from (math.nan, -math.inf, np.float64("nan"))
    yield from (np.timedelta64(1), np.timedelta64(1, "s"), np.array(np.timedelta64(1)), np.ma.masked)
    yield from (np.ma.masked_array(1.0, mask=True), np.ma.masked_array([0.0, 1.0], mask=[True, False]))
    if not entry(INFINITY_IS_GOOD, name, parameter):
        yield math.inf
    if parameter not in SIGNED:
        yield from (-1, -1e-9)
    if "ArrayLike" in annotation or annotation == "Iterable[float]":
        yield from ([0.0, math.nan], [0.0, math.inf], ["a"], [None], [[1.0], [1.0, 0.0]])
        if parameter not in TRUE_IS_GOOD:
            yield [0.0, True]
    else:
        yield from (np.array([0.5, 0.5]), [0.5, 0.5], [3, 3], np.array([0.5]))
        if parameter not in ANY_COUNT_IS_GOOD:
            yield 10**400
    if parameter in SCALAR_IS_BAD:
        yield 1.0


CASES = [(name, parameter) for name in FUNCTIONS for parameter in annotations(name)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_good_values_are_good(name):
    assert FUNCTIONS[name](**good_arguments(name)) is not None or name in NONE_IS_AN_ANSWER


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


BAD_COUNTS = [3, [], [3], [[3], [4]], [[[1, 2]]], [3, -1], [3.5, 1], [True, 2]]


@pytest.mark.parametrize(
    ("name", "parameter", "bad"),
    [
        ("laplace_density", "scale", 0.0),
        ("gaussian_delta", "sigma", 0.0),
        ("gaussian_epsilon", "sigma", 0),
        ("gaussian_epsilon", "sigma", 1e-151),
        ("gaussian_epsilon", "delta", 1.1),
        ("gaussian_sigma", "delta", 0.0),
        ("gaussian_sigma", "delta", 1.0),
        ("gaussian_sigma_classic", "epsilon", 0.0),
        ("gaussian_sigma_classic", "epsilon", 1.0),
        ("gaussian_sigma_classic", "delta", 0.0),
        ("gaussian_sigma_classic_formula", "epsilon", 0.0),
        ("laplace_scale", "epsilon", 0.0),
        ("laplace_scale", "epsilon", 1e-310),
        ("laplace_epsilon", "scale", 1e-310),
        ("randomized_response_estimate", "epsilon", 0.0),
        ("randomized_response_estimate", "answers", [0.5]),
        ("randomized_response_estimate", "answers", []),
        ("exponential", "scores", []),
        ("exponential", "scores", [[1.0, 2.0]]),
        ("amplify", "q", 1.0000001),
        ("amplification.poisson", "q", 1.5),
        ("amplification.poisson", "delta", 1.5),
        ("amplification.poisson", "adjacency", "replace-one"),
        ("amplification.poisson", "adjacency", "as the mechanism's"),
        ("amplification.without_replacement", "adjacency", "add/remove"),
        ("amplification.without_replacement", "m", 6),
        ("amplification.without_replacement", "m", 2.0),
        ("with_replacement", "n", 0),
        ("poisson_replace_one", "epsilon", 1e308),
        ("basic", "adjacency", "Group"),
        ("laplace_loss", "scale", 1e-310),
        ("randomized_response_subsampled", "epsilon", 701.0),
        ("basic", "k", 0),
        ("basic", "k", 2.0),
        ("group_privacy", "size", 0),
        ("advanced", "k", 0),
        ("advanced", "delta_prime", 0.0),
        ("advanced", "delta_prime", 1.0),
        ("advanced", "epsilon", 710.0),
        ("advanced_tanh", "delta_prime", 1.0),
        ("advanced_tanh", "epsilon", 1e308),
        ("advanced_first_k", "delta_prime", 0.0),
        ("optimal", "k", 10**9 + 1),
        ("optimal", "total_delta", 1.1),
        ("optimal", "epsilon", 1e308),
        ("optimal_delta", "k", 10**9 + 1),
        ("optimal_delta", "epsilon", 1e308),
        ("log_moment", "lam", 0.0),
        ("log_moment", "q", 1.5),
        ("log_moment", "sigma", 0.0),
        ("log_moment", "sigma", 1e-200),
        ("log_moment_e1", "lam", 0),
        ("log_moment_e2", "sigma", 0.0),
        ("moments.epsilon", "q", 1.5),
        ("moments.epsilon", "delta", 1.5),
        ("moments.epsilon", "steps", 10.0),
        ("moments.epsilon", "steps", 2**53 + 1),
        ("moments.epsilon", "max_lam", 0),
        ("moments.epsilon", "max_lam", 32.0),
        ("moments.epsilon", "sigma", 1e-200),
        ("rdp.epsilon", "q", 1.5),
        ("rdp.epsilon", "delta", 1.5),
        ("rdp.epsilon", "steps", 10.0),
        ("rdp.epsilon", "sigma", 1e-200),
        ("rdp.epsilon_curve", "q", 1.5),
        ("rdp.epsilon_curve", "delta", 1.5),
        ("rdp.epsilon_curve", "steps", [1, 2.5]),
        ("rdp.epsilon_curve", "sigma", 1e-200),
        ("subsampled_gaussian", "order", 1.0),
        ("subsampled_gaussian", "order", [2.0, 1.0]),
        ("subsampled_gaussian", "q", 1.5),
        ("subsampled_gaussian", "sigma", 0.0),
        ("rdp.gaussian", "order", 1),
        ("rdp.gaussian", "sigma", 1e-200),
        ("rdp.laplace", "order", 1.0),
        ("rdp.laplace", "scale", 0.0),
        ("rdp.laplace", "scale", 1e-310),
        ("rdp.randomized_response", "order", 1.0),
        ("conversion_classic", "order", 1.0),
        ("conversion_classic", "rdp", [[0.1], [-0.1]]),
        ("conversion_improved", "order", 1.0),
        ("conversion_improved", "delta", 1.1),
        ("theorem_4_2", "delta", 1e-8),
        ("theorem_4_2", "delta0", 0.500001),
        ("theorem_4_3", "tau", 0.0),
        ("theorem_4_3", "tau", 1.5),
        ("theorem_4_3", "tau", 1e-200),
        ("theorem_4_3", "order", [2.0, 1.0]),
        ("theorem_4_4", "q", 1.0),
        ("theorem_4_4", "sigma", 1.1),
        ("theorem_4_4", "order", 1000.0),
        ("theorem_4_4_formula", "order", 1e7),
        ("theorem_4_4_formula", "scale", 0.0),
        ("exact_subsampled_rdp", "q", 1.5),
        ("exact_subsampled_rdp", "tau", 0.0),
        ("exact_subsampled_rdp", "scale", 0.0),
        ("exact_subsampled_rdp", "delta0", 0.0),
        ("exact_subsampled_rdp", "delta0", 0.6),
        ("exact_subsampled_rdp", "order", 1e6 + 1),
        ("exact_subsampled_rdp", "order", 2e4 + 0.5),
        ("black_box_upper", "order", 2.0),
        ("propose_test_release", "tau", 1.0),  # the bound itself: nothing to test
        ("propose_test_release", "margin", 2.5),
        ("propose_test_release", "delta0", 0.5000001),
        ("propose_test_release", "scale", 1e308),
        ("propose_test_release", "f2", [0.0, 0.0]),
        ("delta_cases", "sigma", 0.01),
        ("single_epsilon", "delta", 1e-300),
        ("ptr.privacy.epsilon_bounds", "q", 1.5),
        ("ptr.privacy.epsilon_bounds", "q", 1e-10),
        ("ptr.privacy.epsilon_bounds", "tau", 0),
        ("ptr.privacy.epsilon_bounds", "scale", 0),
        ("ptr.privacy.epsilon_bounds", "delta0", 0.51),
        ("ptr.privacy.epsilon_bounds", "steps", 10.0),
        ("ptr.privacy.epsilon", "delta", 1e-300),
        ("ptr.privacy.epsilon_curve", "steps", [1, 2.5]),
        ("privacy_loss", "sigma", 1e5),
        ("epsilon_by_rdp", "steps", 2**53 + 1),
        ("epsilon_by_rdp_branch_in_delta", "delta", 1e-9),
        ("ptr.privacy.noise_multiplier", "delta", 0.0),
        ("matching_gaussian_sigma", "delta", 0.0),
        ("poisson_subsampled_upper", "order", 2.0),
        ("poisson_subsampled_upper", "order", 1),
        ("poisson_subsampled_upper", "rdp", lambda order: math.nan),
        ("poisson_subsampled_lower", "rdp", lambda order: -1.0),
        ("fnr_lower_bound", "fpr", 1.1),
        ("gaussian_fnr", "fpr", [0.5, 1.1]),
        ("clopper_pearson", "successes", 11),
        ("clopper_pearson", "trials", 0),
        ("clopper_pearson", "confidence", 0.0),
        ("clopper_pearson", "confidence", 1.0),
        ("epsilon_lower_bound", "true_positives", 11),
        ("epsilon_lower_bound", "false_positives", 11),
        ("epsilon_lower_bound", "confidence", 1.0),
        ("epsilon_lower_bound_from_scores", "scores", [1.0]),
        ("epsilon_lower_bound_from_scores", "rng", 0),
        *((f, "counts", bad) for f in ("distance_to_instability", "noisy_argmax") for bad in BAD_COUNTS),
        ("sparse_vector.sparse", "cutoff", 4),
        ("sparse_vector.sparse", "delta", 1.0),
        ("sparse_vector.sparse", "epsilon", 0.0),
        ("m_svec", "distances", [1.0, 0.5, 3.0]),
        ("m_svec", "labels", ["a"]),
        ("m_svec", "cutoff", 4),
        ("m_svec", "delta", 0.0),
        ("m_stab", "counts", [[3, 1], [0, 0]]),
        ("m_stab", "delta", 0.0),
        ("m_stab", "delta", 1.0),
        ("m_stab", "epsilon", 0.0),
        ("release_probability", "delta", 1.0),
        ("distance_needed", "beta", 1.0),
        ("stability_threshold", "epsilon", 5e-324),
        ("sampling_plan", "epsilon", 400.0),
        ("sampling_plan", "n", 1e5),
        ("m_samp", "n_models", 600),
        ("subsample_votes", "q", 0.0),
        ("subsample_votes", "classes", 1),
        ("subsample_votes", "train", lambda data, members: np.zeros(3, dtype=int)),
        ("epsilon_lower_bound_from_scores", "rng", np.random.RandomState(0)),
    ],
)
def test_the_edges_of_the_ranges(name, parameter, bad):
    """Under the end of the function's dotted name, which must be one function's alone."""
    (full,) = [full for full in FUNCTIONS if f".{full}".endswith(f".{name}")]
    with pytest.raises(ValueError, match=rf"^{parameter} must "):
        FUNCTIONS[full](**{**good_arguments(full), parameter: bad})
