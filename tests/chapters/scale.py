"""The numbers of chapter 15."""

import itertools
import math

import pytest

from dpml.accounting import pld
from dpml.data import recorded
from dpml.lessons.scale import explorers


def cell_06(rows, says):
    (_, sigma, first, same, at_first), (_, _, last, _, at_last) = rows[0], rows[-1]
    assert sigma == pytest.approx(same) and first / last == pytest.approx(600) and first == pytest.approx(at_first)
    assert all(one[3] > other[3] for one, other in itertools.pairwise(rows))
    says({"28 %": at_last / at_first})


def cell_08(gain, rows, says):
    says({"1.3": gain[3.0], "2.65": gain[None]})
    falls = [large / small for _, small, large, *_ in rows[:3]]
    says({"22": 100 * min(falls), "36 %": max(falls)})


def cell_10(few, sigma):
    (small, small_bare), (large, large_bare) = few[1_000], few[10_000]
    assert small < small_bare - 10 and abs(large - large_bare) < 1.5 and few[3_000][0] > small + 8
    assert pld.epsilon(q=1 / 40, sigma=sigma, steps=100, delta=1e-5).epsilon == pytest.approx(1.0, rel=1e-3)


def cell_12(says):
    def times(**state):
        return float(explorers.batch_and_noise().frame(**state).title.split("run ")[1].split()[0])

    says({"3.1": times(batch=60), "1.5": times(batch=600), "1.2": times(batch=3000)})
    assert times(batch=600, plan="more") == pytest.approx(times(batch=60))
    assert ", 400 steps" in explorers.batch_and_noise().frame(batch=3000).title


def cell_16(wide):
    (smallest, least), *_, (largest, most) = wide.items()
    assert (
        round(largest / smallest) == 32 and most[0] > 2 and most[0] / least[0] == pytest.approx(math.sqrt(32), rel=0.01)
    )
    assert most[1] == max(row[1] for row in wide.values()) and abs(most[1] - most[2]) < 1


def cell_19(apart):
    assert apart < 1e-4


def cell_20(cost, says):
    def of(model, batch, who):
        [row] = cost[model, batch, who]
        return row

    says({"2,453": of("mlp", 8192, "opacus hooks")["mebibytes"], "2,485": 8192 * 79_510 * 4 / 2**20})
    says({"10": of("mlp", 8192, "dpml")["mebibytes"]})
    assert of("cnn", 8192, "dpml")["mebibytes"] > of("cnn", 8192, "opacus hooks")["mebibytes"]
    says({"1.15": of("mlp", 256, "dpml")["milliseconds"], "1.32": of("mlp", 8192, "dpml")["milliseconds"]})


def cell_22(off, exact, promised, true, says):
    says({"5.9 %": off})
    assert exact < 1e-6 and promised == pytest.approx(3.0, rel=1e-3) and true > 3.3


def cell_24(difference):
    assert difference < 1e-5


def cell_27(measured):
    for (planned, lost), deviation in measured.items():
        assert deviation == pytest.approx(2 * math.sqrt((10 - lost) / (10 - planned)), rel=0.02)


def cell_29(says):
    frame = explorers.noise_shares().frame(away=0.2, planned=0.0)
    says({"4.2": frame.marks[-1].y[0], "12 %": math.sqrt(1 / 0.8) - 1})
    assert "holds" in explorers.noise_shares().frame(away=0.2, planned=0.2).readout


def cell_33(spent, trials, fair, final, says):
    says({"7.4": spent.epsilon})
    assert len(trials) == 4 and {row["n"] for row in trials} == {8_000} and {row["steps"] for row in trials} == {800}
    assert 1.8 < fair / final["noise"] < 2.1


def cell_35(long, says):
    says({"4.4": long[1000][1] / long[1000][0], "1.08": long[10**6][1] / long[10**6][0]})
    says({"3.7": long[10**6][0] / long[10**5][0]})


def cell_76(counts, curves, long, says):
    says({"174": len(counts)})
    says({"0.59": curves["Rényi"][0], "0.009": curves["tight"][0]})
    for curve, last in zip(curves.values(), long[10**6][:2], strict=True):
        assert sorted(curve) == curve.tolist() and curve[-1] == pytest.approx(last, rel=1e-3)


def cell_37(claims, ptr_, dpsgd_, printed, bare, says):
    assert [one > other for _, one, other in claims] == [True, True, False, True, True, False, False, False]
    arms = {arm["method"]: arm for arm in recorded("ptr_tables")["gpu"]["arms"]}
    says({"691": arms["TSGD+Gaussian, paper"]["steps"], "3,746": arms["TSGD+PTR"]["steps"]})
    says({"2.7": dpsgd_ - ptr_, "1.8": bare - printed, "0.55": arms["TSGD+PTR"]["sigma"] * 0.5})
    spends = [arms[name]["spent"] for name in ("DP-SGD, paper", "TSGD+Gaussian, paper", "TSGD+PTR", "DP-SGD, matched")]
    assert all(spent == pytest.approx(2.0, rel=1e-3) for spent in spends)
    assert "4/tau = 8" in arms["TSGD+PTR"]["broken"], "so that tau is one half"
    assert arms["TSGD+PTR"]["spent"] == pytest.approx(arms["DP-SGD, matched"]["spent"], rel=1e-3)
