"""Every argument of every public function gets NaN, infinity, text, None, a boolean, a list and a negative number.

The functions are found by introspection, so a new one without an entry in the table of good values fails here.
"""

import inspect
import math
import re

import numpy as np
import pytest

from dpml import mechanisms
from dpml.accounting import amplification, composition, guarantee, moments, pld, rdp, tradeoff
from dpml.accounting.pld import fixed_size, losses
from dpml.audit import samples
from dpml.pate import (
    data_dependent,
    gaussian_votes,
    instability,
    laplace_votes,
    m_samp,
    m_stab,
    publish_cost,
    sparse_vector,
    student,
    voting,
)
from dpml.pate.sparse_vector import broken, outcomes, privacy
from dpml.ptr import (
    broken_trimmed_sum,
    convergence,
    propose_test_release,
    random_choice,
    renyi,
    single_release,
    theorems,
    trimmed_sum,
)
from dpml.ptr import privacy as ptr_privacy
from dpml.ptr import statistics as ptr_statistics

MODULES = (
    mechanisms,
    amplification,
    composition,
    guarantee,
    tradeoff,
    samples,
    moments,
    rdp,
    pld,
    fixed_size,
    losses,
    instability,
    m_stab,
    m_samp,
    sparse_vector,
    outcomes,
    privacy,
    broken,
)
MODULES += (voting, laplace_votes, gaussian_votes, student, data_dependent, publish_cost)
MODULES += (propose_test_release, ptr_statistics, trimmed_sum, broken_trimmed_sum)
MODULES += (ptr_privacy, theorems, renyi, single_release, random_choice, convergence)

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
    "truth": 0.8,
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
    "rdp_other": 0.5,
    "epsilon_other": 2.0,
    "delta_other": 1e-6,
    "delta0": 0.01,
    "low": 0.0,
    "high": 1.0,
    "trim": 1,
    "norms": [0.5, 2.0],
    "ids": [4, 2],
    "vectors": [[1.0, 0.0], [0.5, 2.0]],
    "r": 1,
    "share": 0.25,
    "start": 2.0,
    "learning_rate": 0.05,
    "convexity": 1.0,
    "dimension": 5,
    "batch": 40,
    "parts": [(losses.gaussian(sigma=1.5), 2), (losses.laplace(scale=1.5), 1)],
}
GOOD_HERE = {("m_svec_guarantee", "threshold"): 90.0}
GOOD_HERE |= {("theorem_4_4", "sigma"): 20.0, ("theorem_4_4", "q"): 0.01, ("privacy.noise_multiplier", "epsilon"): 3.0}
GOOD_HERE |= {("independent_pair_rdp", "rdp_other"): lambda order: 0.2 * order}
GOOD_HERE |= {(f, "order"): 4 for f in ("black_box_upper",)}
GOOD_HERE |= {(f"theorem_4_2{g}", "delta0"): 1e-8 for g in ("", "_printed")}
GOOD_HERE |= {("epsilon_by_rdp_branch_in_delta", "delta0"): 1e-8}
ADJACENCY = {"without_replacement": "replace-one", "with_replacement": "replace-one"}
ARRAYS = {
    "successes",
    "value",
    "y",
    "fpr",
    "bits",
    "answers",
    "scores",
    "scores_neighbour",
    "counts",
    "distance",
    "stream",
    "above",
    "distances",
}
ARRAYS_HERE = {(f, "order") for f in ("rdp.gaussian", "rdp.laplace", "rdp.randomized_response", "subsampled_gaussian")}
ARRAYS_HERE |= {(f"conversion_{f}", name) for f in ("classic", "improved") for name in ("order", "rdp")}
ARRAYS_HERE |= {("epsilon_curve", "steps"), ("pld.epsilon_curve", "steps"), ("privacy.epsilon_curve", "steps")}
ARRAYS_HERE |= {("random_choice_rdp", name) for name in ("order", "rdp", "rdp_other")}
ARRAYS_HERE |= {(f, "order") for f in ("theorem_4_3", "theorem_4_4", "theorem_4_4_formula", "rdp_case_1", "rdp_case_2")}
ARRAYS_HERE |= {(f, "order") for f in ("exact_cases", "exact_subsampled_rdp")}
ARRAYS_HERE |= {(f"laplace_moment{f}", "lam") for f in ("", "_data_dependent")}
ARRAYS_HERE |= {(f"{f}_rdp{g}", "order") for f in ("gnmax", "confident") for g in ("", "_data_dependent")}
ARRAYS_HERE |= {(f, "values") for f in ptr_statistics.__all__}
ARRAYS_HERE |= {(f, name) for f in trimmed_sum.__all__ for name in ("norms", "ids", "vectors")}
ARRAYS_HERE |= {(f, "vectors") for f in broken_trimmed_sum.__all__}
ARRAYS_HERE |= {("propose_test_release", "f1"), ("propose_test_release", "f2"), ("propose_test_refuse", "f2")}
CURVES = {"poisson_subsampled_upper", "poisson_subsampled_lower", "without_replacement_upper"}  # rdp is a function
CURVES |= {"independent_pair_rdp"}
SIGNED = {
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
}  # a negative number is good
LABELS = {"kind", "adjacency", "sampling"}
TRUE_IS_GOOD = {"bits", "answers", "above"}
NONE_IS_GOOD = {("Guarantee", "order"), ("m_samp", "n_models")}
NONE_IS_GOOD |= {(f, "ids") for f in ("kept", "trimmed_sum", "clipped_trimmed_sum")}
NONE_IS_AN_ANSWER = {"above_threshold"}
INFINITY_IS_GOOD = {("Guarantee", "epsilon"), ("Bounds", "upper")}
INFINITY_IS_GOOD |= {(f, "margin") for f in ("pass_probability", "propose_test_release", "propose_test_refuse")}
ANY_RECORDS_ARE_GOOD = {("subsampling_stability", "dataset")}
SCALAR_IS_BAD = {"scores", "scores_neighbour"}

RECORDS = {
    "Evidence",
    "DeltaBounds",
    "SamplingPlan",
    "PublishedCost",
    "SubsampleVotes",
    "Noise",
    "Released",
    "Release",
    "Cases",
    "Claim",
    "DirectChoice",
}  # plain records, made by functions that check

FUNCTIONS = {}
for module in MODULES:
    for name in module.__all__:
        function = getattr(module, name)
        if callable(function) and name not in RECORDS and function not in FUNCTIONS.values():
            key = f"{module.__name__.split('.')[-1]}.{name}" if name in FUNCTIONS else name
            FUNCTIONS[key] = function


def good_arguments(name):
    arguments = {}
    for parameter in inspect.signature(FUNCTIONS[name]).parameters:
        if parameter == "rng":
            arguments[parameter] = np.random.default_rng(0)
        elif parameter == "adjacency":
            arguments[parameter] = ADJACENCY.get(name, "add/remove")
        elif parameter == "guarantees":
            part = {"delta": 0.0, "kind": "exact", "adjacency": "replace-one"}
            arguments[parameter] = [guarantee.Guarantee(1.0, **part)]
        elif parameter == "rdp" and name in CURVES:
            arguments[parameter] = lambda order: 0.1 * order
        elif parameter == "order" and name in CURVES:
            arguments[parameter] = 4
        elif (name, parameter) in GOOD_HERE:
            arguments[parameter] = GOOD_HERE[name, parameter]
        elif parameter != "_":
            arguments[parameter] = GOOD[parameter]
    return arguments


def bad_values(name, parameter):
    yield from ("0.5", "", b"1", object(), 1j, {0.5})
    if (name, parameter) not in NONE_IS_GOOD:
        yield None
    if parameter not in TRUE_IS_GOOD:
        yield from (True, np.True_)
    yield from (math.nan, -math.inf, np.float64("nan"))
    yield from (np.timedelta64(1), np.timedelta64(1, "s"), np.array(np.timedelta64(1)), np.ma.masked)
    yield from (np.ma.masked_array(1.0, mask=True), np.ma.masked_array([0.0, 1.0], mask=[True, False]))
    if (name, parameter) not in INFINITY_IS_GOOD:
        yield math.inf
    if parameter not in SIGNED:
        yield from (-1, -1e-9)
    if parameter in ARRAYS or (name, parameter) in ARRAYS_HERE:
        yield from ([0.0, math.nan], [0.0, math.inf], ["a"], [None], [[1.0], [1.0, 0.0]], [0.0, True])
    elif (name, parameter) in ANY_RECORDS_ARE_GOOD:
        yield from ([], np.array(0.5), 10**400)
    else:
        yield from (np.array([0.5, 0.5]), [0.5, 0.5], [3, 3], np.array([0.5]), 10**400)
    if parameter in SCALAR_IS_BAD:
        yield 1.0


CASES = [(name, parameter) for name in FUNCTIONS for parameter in good_arguments(name)]


def test_the_table_is_complete_and_the_good_values_are_good():
    assert len(FUNCTIONS) > 35
    for name, function in FUNCTIONS.items():
        assert function(**good_arguments(name)) is not None or name in NONE_IS_AN_ANSWER


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_each_bad_value_is_refused_by_name(name, parameter):
    tried = 0
    for bad in bad_values(name, parameter):
        if parameter in TRUE_IS_GOOD and isinstance(bad, list) and bad == [0.0, True]:
            continue  # bits may be booleans
        if parameter in {"k", "size", "trim", "r"} and isinstance(bad, int) and bad == 10**400:
            continue  # a count may be any integer; where the result leaves the floats: test_composition.py
        with pytest.raises(ValueError, match=rf"^{parameter} must ") as caught:
            FUNCTIONS[name](**{**good_arguments(name), parameter: bad})
        assert len(str(caught.value)) < 400
        assert re.search(r", got |share one adjacency", str(caught.value)), "the message shows what came"
        tried += 1
    assert tried >= 12


@pytest.mark.parametrize(
    ("name", "parameter", "bad"),
    [
        ("laplace_density", "scale", 0.0),
        ("gaussian_delta", "sigma", 0.0),
        ("gaussian_epsilon", "sigma", 0),
        ("gaussian_epsilon", "delta", 1.1),
        ("gaussian_sigma", "delta", 0.0),
        ("gaussian_sigma", "delta", 1.0),
        ("gaussian_sigma_classic", "epsilon", 0.0),
        ("gaussian_sigma_classic", "epsilon", 1.0),
        ("gaussian_sigma_classic", "delta", 0.0),
        ("gaussian_sigma_classic_formula", "epsilon", 0.0),
        ("laplace_scale", "epsilon", 0.0),
        ("randomized_response_epsilon", "truth", 1.0),
        ("randomized_response_estimate", "epsilon", 0.0),
        ("randomized_response_estimate", "answers", [0.5]),
        ("exponential", "scores", []),
        ("exponential", "scores", [[1.0, 2.0]]),
        ("amplify", "q", 1.0000001),
        ("poisson", "q", 1.5),
        ("poisson", "delta", 1.5),
        ("poisson", "adjacency", "replace-one"),
        ("poisson", "adjacency", "as the mechanism's"),
        ("without_replacement", "adjacency", "add/remove"),
        ("without_replacement", "m", 6),
        ("without_replacement", "m", 2.0),
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
        ("epsilon", "q", 1.5),
        ("epsilon", "delta", 1.5),
        ("epsilon", "steps", 10.0),
        ("epsilon", "steps", 2**53 + 1),
        ("epsilon", "max_lam", 0),
        ("epsilon", "max_lam", 32.0),
        ("epsilon", "sigma", 1e-200),
        ("rdp.epsilon", "q", 1.5),
        ("rdp.epsilon", "delta", 1.5),
        ("rdp.epsilon", "steps", 10.0),
        ("rdp.epsilon", "sigma", 1e-200),
        ("epsilon_curve", "q", 1.5),
        ("epsilon_curve", "delta", 1.5),
        ("epsilon_curve", "steps", [1, 2.5]),
        ("epsilon_curve", "sigma", 1e-200),
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
        ("independent_pair_rdp", "rdp_other", lambda order: math.nan),
        ("random_choice_rdp", "delta0", 0.0),
        ("random_choice_direct", "delta_other", 1.5),
        ("delta_cases", "sigma", 0.01),
        ("single_epsilon", "delta", 1e-300),
        ("privacy.epsilon_bounds", "q", 1.5),
        ("privacy.epsilon_bounds", "q", 1e-10),
        ("privacy.epsilon_bounds", "tau", 0),
        ("privacy.epsilon_bounds", "scale", 0),
        ("privacy.epsilon_bounds", "delta0", 0.51),
        ("privacy.epsilon_bounds", "steps", 10.0),
        ("privacy.epsilon", "delta", 1e-300),
        ("privacy.epsilon_curve", "steps", [1, 2.5]),
        ("privacy_loss", "sigma", 1e5),
        ("epsilon_by_rdp", "steps", 2**53 + 1),
        ("epsilon_by_rdp_branch_in_delta", "delta", 1e-9),
        ("privacy.noise_multiplier", "epsilon", 0.01),
        ("privacy.noise_multiplier", "delta", 0.0),
        ("matching_gaussian_sigma", "delta", 0.0),
        ("poisson_subsampled_upper", "order", 2.0),
        ("poisson_subsampled_upper", "order", 1),
        ("poisson_subsampled_upper", "rdp", lambda order: math.nan),
        ("poisson_subsampled_lower", "rdp", lambda order: -1.0),
        ("without_replacement_upper", "rdp", lambda order: "0.1"),
        ("without_replacement_upper", "q", 1.5),
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
        ("distance_to_instability", "counts", [3]),
        ("distance_to_instability", "counts", [2.5, 1]),
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
    with pytest.raises(ValueError, match=rf"^{parameter} must "):
        FUNCTIONS[name](**{**good_arguments(name), parameter: bad})
