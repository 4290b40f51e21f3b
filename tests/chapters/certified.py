"""The numbers of chapter 13."""

import numpy as np
import pytest

from dpml.certified import pixeldp, smoothing
from dpml.certified.stobatch import budget, reconstruction
from dpml.lessons.certified import explorers


def cell_06(attacked, test_x, after, test_y, plain):
    assert (attacked - test_x).norm(dim=1).max() <= 1 + 1e-5 and attacked.abs().max() <= 1
    before = (plain(test_x).argmax(1) == test_y).double().mean()
    assert before > 0.88 and (after == test_y).double().mean() < before - 0.3


def cell_07(was, after, fooled, test_y):
    assert was[fooled] == test_y[fooled] != after[fooled]


def cell_71(says):
    says({"0.0547": pixeldp.hoeffding_half_width(draws=1000, classes=10, eta=0.05)})


def cell_10(says, count, least, radius, draws, alpha, sigma):
    assert radius == pytest.approx(smoothing.radius(count, draws=draws, alpha=alpha, sigma=sigma), rel=1e-9)
    says({"747": count}, within=50)
    says({"0.266": radius}, within=0.05)


def cell_15(says):
    figure = explorers.radius_of_votes()
    assert "Cohen certifies 1.44 σ, PixelDP 1.12 σ" in figure.frame(share=0.95).title
    assert "Cohen certifies 2.46 σ, PixelDP 1.33 σ" in figure.frame(share=1.0).title
    says({"3.20": smoothing.radius(10_000, draws=10_000, alpha=0.001, sigma=1.0)})
    assert "at least 0.9250" in figure.frame(share=0.95).readout


def cell_18(says):
    f = 0.95**2, 0.05**2
    epsilon = pixeldp.largest_epsilon(f[0], upper=f[1], delta=0.0)
    says({"2.94": epsilon, "5.89": budget.printed_size(kappa=epsilon, phi=epsilon)})
    says({"1.47": budget.sound_size(kappa=epsilon, phi=epsilon), "2.30": -np.log(0.1)})
    title = explorers.two_noises().frame(doubt=0.05).title
    assert title == "The label flips at 2.30 b: the sum says 5.89 b, the harmonic rule 1.47 b."


def cell_20(one):
    assert pixeldp.certified_size(**one) == pytest.approx(1.4722, abs=5e-5)
    assert smoothing.laplace_radius(**one) == pytest.approx(2.3026, abs=5e-5)


def cell_22(says, b, sound, epsilon_1, size, m, beta):
    assert b == pytest.approx(62.1714, abs=5e-5) and sound == pytest.approx(2.0588, abs=5e-5)
    claimed = epsilon_1 / budget.gamma_x(**size)
    says({"0.0161": claimed, "128": sound / claimed, "62": b})
    says({"2176": budget.printed_sensitivity(dimension=64, beta=beta)})
    says({"6144": budget.sound_sensitivity(dimension=64, beta=beta)})


def cell_24():
    figure = explorers.claimed_epsilon()
    titles = [figure.frame(case=case).title.partition("this scale has")[2] for case in ("digits", "mnist", "colour")]
    assert {title.partition(",")[0] for title in titles} == {" ε = 0.588"}


def cell_30(from_one, from_none, batch, guess, b):
    for found in (from_one, from_none):
        assert np.abs(found - batch).max() < 1e-9
    assert np.abs(guess - batch)[1:].mean() > b


def cell_34():
    figure = explorers.reconstruction_of_a_batch()
    for budget_1 in (10.0, 1.0, 0.1, 0.01):
        assert "errs by less than 10⁻¹⁶ on average" in figure.frame(epsilon_1=budget_1).title
        assert "errs by less than 10⁻¹⁶ on average" in figure.frame(epsilon_1=budget_1, way="none").title
    assert "ε = 2.06" in figure.frame(epsilon_1=0.1, way="fresh").title


def cell_47(opened, true, result, accuracy):
    assert np.abs(opened - true).max() < 1e-9
    assert result.guarantee is None and result.claimed < 0.3 and accuracy > 0.6


def cell_36(digits, m):
    figure = explorers.rank_test()
    assert figure.frame().title == (
        "Second singular value below 10⁻⁶ for the true batch, 5.5 for the neighbour: it tells them apart."
    )
    assert all("does not tell" in figure.frame(case=case).title for case in ("same", "clipped"))
    batch = 2.0 * digits.train_images[:m].reshape(m, -1) / 16.0 - 1.0
    mirrored = [reconstruction.same_covariance(batch, index=i)[i] for i in range(m)]
    assert batch.min() == -1.0 and min(np.abs(image).max() for image in mirrored) > 1.0


def cell_38(found, digits, m):
    assert (found == digits.train_labels[:m]).all()


def cell_42(says, table):
    rows = {name: [epsilon, *values] for name, epsilon, _, *values in table}
    says({"4.9": float(rows["central"][0]), "205": float(rows["local, 200"][0])})
    lost = rows["plain"][1] - rows["central"][1]
    assert 0.01 < lost < 0.06
    assert all(private >= plain - 0.02 for private, plain in zip(rows["central"][2:], rows["plain"][2:], strict=True))
    assert rows["local, 200"][1] > 0.8
    says({"20 %": rows["local, 20"][1]}, within=0.04)


def cell_44(held, tried):
    assert held == tried > 90


def cell_49(says, table):
    rows = {(name, claimed, spent): values for name, claimed, spent, *values in table}
    printed = [values[0] for (name, _, _), values in rows.items() if name == "as printed"]
    says({"86": 100 * min(printed), "88 %": max(printed), "78 %": rows["local", "none", "100"][0]})
    says({"88 %": rows["no noise", "none", "none"][0]})
    central = rows["central", "none", "4.903"]
    others = [values for (name, _, _), values in rows.items() if name != "central"]
    assert all(central[i] > max(row[i] for row in others) for i in range(3))


def cell_51(says):
    figure = explorers.certified_accuracy()
    said = "76 % without privacy, 73 % at ε = 4.9, 44 % at ε = 1.3"
    assert figure.frame(radius=0.5).title == f"Certified to 0.5 at σ = 0.5: {said}."
    said = "58 % without privacy, 50 % at ε = 4.9, 9 % at ε = 1.3"
    assert figure.frame(radius=0.5, noise="1.0").title == f"Certified to 0.5 at σ = 1.0: {said}."
    says({"76 %": 0.76, "73 %": 0.73, "44 %": 0.44, "58": 58, "50": 50, "9 %": 0.09})
    says({"1.23": smoothing.radius(1000, draws=1000, alpha=0.001, sigma=0.5)})
