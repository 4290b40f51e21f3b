"""The numbers of chapter 05."""

import numpy as np
import pytest

from dpml import mechanisms


def cell_51(g, clipped, C, longer):
    norms = clipped.norm(dim=1).numpy()
    assert norms.max() <= C * (1 + 1e-6) and (norms > C * (1 - 1e-6)).sum() == longer == 7
    assert (clipped == g).all(dim=1).sum() == len(g) - longer


def cell_11(says, promised, right, mean_clipped, inside, outside, exact):
    says({"0.926": promised})
    assert right < promised and inside < promised
    assert mean_clipped > 7.0
    assert 3.5 < outside < exact == pytest.approx(13.2067, abs=1e-3)


def cell_14(coordinates):
    assert coordinates > 4.0


def cell_16(difference):
    assert difference < 1e-4


def cell_18(errors):
    assert max(errors.values()) <= 3e-6


def cell_20(says, model, cost):
    says({"79,510": sum(p.numel() for p in model.parameters())})
    assert cost["by_closed_form"] < cost["by_vmap"] and cost["by_closed_form"] < cost["by_loop"]


def cell_26(in_pieces):
    assert in_pieces < 3e-6


def cell_47(says, p, labels, attack, told):
    says({"79,510": p, "0.00605": labels[None].epsilon})
    assert [labels[fixed].public for fixed in (None, 10)] == ["n", "none"]
    assert labels[None].epsilon == labels[10].epsilon == pytest.approx(0.00604524, abs=1e-8)
    assert 3.0 < attack < told[200, 1]
    says({"10": told[200, 1], "2.3": told[10_000, 200], "5.0": told[10_000, 800]})
    for (n, steps), epsilon in told.items():  # the Gaussian limit
        limit = mechanisms.gaussian_epsilon(sigma=n / np.sqrt(2 * p * steps), delta=1e-5)
        assert epsilon == pytest.approx(limit, rel=0.02)


def cell_28(run, by_our_loop):
    assert 2.9 < run.guarantee.epsilon <= 3.0 and run.trace.accuracy[-1] > 0.7
    assert run.trace.clipped[0] > run.trace.clipped[-1] and np.all(np.diff(run.trace.epsilon) > 0)
    assert by_our_loop == pytest.approx(run.trace.accuracy[-1], abs=0.002)


def cell_91(says, both, all_three, mechanism, batches, x):
    trial = mechanism.guarantee(sampling=batches, n=len(x), steps=100, delta=1e-5)
    says({"3.55": both.epsilon})
    assert both.epsilon < 3.0 + trial.epsilon - 1.0 and both.epsilon < all_three.epsilon < both.epsilon + 0.05


def cell_33(says, recorded):
    def mean(field, **wanted):
        rows = [row for row in recorded["rows"] if all(row[name] == value for name, value in wanted.items())]
        return np.mean([row[field] for row in rows], axis=0)

    says({"83 %": mean("accuracy", part="subset", model="mlp", epsilon=3.0)})
    for epsilon, fewer, more in ((3.0, "81.2 %", "82.5 %"), (8.0, "82.4 %", "83.8 %")):
        of = {part: mean("accuracy", part=part, model="mlp", epsilon=epsilon) for part in ("subset", "tested", "full")}
        says({fewer: of["tested"], more: of["full"], "1.3": 100 * (of["full"] - of["tested"])})
        assert of["tested"] < of["full"] < of["subset"]
    small, large = {"part": "sweep", "batch": 50, "sigma": 0.7}, {"part": "sweep", "batch": 250, "sigma": 2.0}
    says({"75.0 %": mean("accuracy", **small), "1.7": mean("spent", **small)})
    says({"77.1 %": mean("accuracy", **large)})
    says({"0.73": mean("spent", **large)})
    clipped = {c: mean("clipped", part="clip", clip_norm=c) for c in (0.1, 10.0, 30.0)}
    says({"92 %": clipped[0.1][0], "42 %": clipped[0.1][-1], "50 %": clipped[10.0][0], "28 %": clipped[10.0][-1]})
    says({"0 %": clipped[30.0][0], "11 %": clipped[30.0][-1]})
    accuracy = {c: mean("accuracy", part="clip", clip_norm=c) for c in (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)}
    says({"81.8 %": accuracy.pop(30.0), "82.7 %": min(accuracy.values()), "83.0 %": max(accuracy.values())})
