"""What Byzantine workers send, and when two rules fall for it."""

import math

import numpy as np
import pytest
import torch

from dpml.byzantine import aggregation, attacks, theory
from tests.golden import golden

ATTACKS = [attacks.little, attacks.empire, attacks.sign_flip]
every_attack = pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)


def test_golden_vectors():
    """The golden vectors subtract one deviation."""
    for case in golden("byzantine")["gar_cases"]:
        if case["attack"] in {"little", "empire"}:
            honest = np.array(case["honest"])
            sent = attacks.little(honest, z=-1.0) if case["attack"] == "little" else attacks.empire(honest)
            assert sent == pytest.approx(np.array(case["byzantine"]), rel=1e-12, abs=1e-15)


def test_each_attack_by_hand():
    honest = [[1.0, 0.0], [3.0, 0.0], [5.0, 3.0]]
    assert attacks.little(honest) == pytest.approx([5.0, 1.0 + math.sqrt(3.0)])
    assert attacks.little(honest, z=-2.0) == pytest.approx([-1.0, 1.0 - 2.0 * math.sqrt(3.0)])
    assert attacks.empire(honest) == pytest.approx([-0.3, -0.1])
    assert attacks.empire(honest, zeta=2.0) == pytest.approx(attacks.sign_flip(honest))
    assert attacks.sign_flip(honest) == pytest.approx([-3.0, -1.0])


@every_attack
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_torch_and_numpy_agree(attack, dtype):
    honest = torch.tensor(np.random.default_rng(0).normal(size=(6, 4))).to(dtype).requires_grad_()
    sent = attack(honest)
    assert sent.dtype == dtype
    assert not sent.requires_grad
    expected = attack(honest.detach().double().numpy())
    digits = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]
    assert sent.double().numpy() == pytest.approx(expected, rel=digits, abs=digits)


# ---- noise and a small lie ----


def picks(n, f, z, d=20_000, tries=10):
    """How often Krum picks a Byzantine row, and minimum-diameter averaging keeps all of them, in vectors of noise."""
    rng = np.random.default_rng(round(1000 * abs(z)))
    krum, mda = 0, 0
    for _ in range(tries):
        honest = rng.standard_normal((n - f, d))
        sent = np.vstack([honest, np.tile(attacks.little(honest, z=z), (f, 1))])
        krum += int(aggregation.krum_scores(sent, n_byzantine=f).argmin()) >= n - f
        mda += set(range(n - f, n)) <= set(aggregation.mda_subset(sent, n_byzantine=f).tolist())
    return krum / tries, mda / tries


@pytest.mark.parametrize(("n", "f"), [(15, 3), (15, 6), (11, 1)])
def test_the_thresholds_divide_all_from_nothing(n, f):
    """5 % on either side: in 20000 dimensions a squared distance spreads by 1 %, and sums of eight or more by less.

    Krum: z^2 is 10 % from where two scores are equal, more than six deviations of their difference. MDA: below the
    threshold the whole set of copies is nearer; above it, no set with a copy beats the honest one.
    """
    krum, mda = theory.krum_threshold(n=n, n_byzantine=f), theory.mda_threshold(n=n, n_byzantine=f)
    assert picks(n, f, 0.95 * krum)[0] == 1.0
    assert picks(n, f, 1.05 * krum)[0] == 0.0
    assert picks(n, f, 0.95 * mda)[1] == 1.0
    assert picks(n, f, 1.05 * mda)[1] == 0.0
    assert picks(n, f, -0.95 * krum)[0] == 1.0  # the sign does not matter


def test_golden_thresholds():
    for row in golden("byzantine")["noise_regime_thresholds"]:
        given = {"n": row["n"], "n_byzantine": row["f"]}
        assert theory.krum_threshold(**given) == pytest.approx(row["krum_z"], rel=1e-12)
        assert theory.mda_threshold(**given) == pytest.approx(row["mda_z"], rel=1e-12)
