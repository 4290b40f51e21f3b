"""The numbers of chapter 08."""

import math

import numpy as np

from dpml.lessons.sparse_vector import explorers
from dpml.pate import sparse_vector, stability
from dpml.pate.sparse_vector import outcomes, privacy


def chance(answers, bits, *, threshold, b, b2):
    noise = {"threshold_scale": b, "query_scale": b2}
    return math.exp(outcomes.outcome_log_probability(answers, above=bits, threshold=threshold, **noise))


def cell_03(counts, settings, above_threshold):
    """The chapter's six lines and the function of the package draw the same."""
    for seed in range(20):
        one, other = (np.random.default_rng(seed) for _ in range(2))
        assert above_threshold(counts, **settings, rng=one) == sparse_vector.above_threshold(
            counts, **settings, rng=other
        )


def cell_40(stop, noisy, noisy_threshold):
    assert stop == 5 and max(noisy[:5]) < noisy_threshold <= noisy[5]


def cell_37(chances):
    assert math.isclose(chances.sum(), 1.0, rel_tol=1e-9)


def cell_05(worst_loss, right):
    assert 0.999 <= worst_loss(10, threshold=-20.0, **right) < worst_loss(100, threshold=-20.0, **right) <= 1 + 1e-9
    assert math.isclose(worst_loss(5, threshold=-20.0, **right), 0.92166, abs_tol=1e-5)


def cell_08(says, worst_loss, right):
    no_threshold = {"threshold_scale": 0.0, "query_scale": 4.0}
    says({"5": worst_loss(20, threshold=0.0, **no_threshold), "25": worst_loss(100, threshold=0.0, **no_threshold)})
    says({"1.5": worst_loss(100, threshold=-20.0, threshold_scale=2.0, query_scale=2.0)})
    bits, settings = [0] * 50 + [1] * 50, {"threshold": 0.0, "b": 2.0, "b2": 4.0}
    pair = [0.0] * 100, [1.0] * 50 + [-1.0] * 50
    says({"24.2": math.log(chance(pair[0], bits, **settings) / chance(pair[1], bits, **settings))})


def cell_13(seen):
    assert (False, True) in seen([0.0, 1.0]) and (False, True) not in seen([1.0, 0.0])


def cell_16(says, lines):
    ratios = [classic / least for _, classic, least in lines]
    says({"2.6": ratios[2], "9.6": ratios[0]})
    assert math.isclose(ratios[1], 3.054, abs_tol=5e-4)
    says({"191.9": privacy.sparse_scale_classic(epsilon=0.1, delta=1e-5, cutoff=1)})
    says({"19.2": math.sqrt(32 * math.log(1e5))})
    printed = math.sqrt(32 * math.log(1e5)) * 0.1
    above = [chance([f], [1], threshold=0.0, b=printed / 2, b2=printed) for f in (0.0, -1.0)]
    says({"1.92": printed, "0.337": above[1], "0.127": above[0] - math.exp(0.1) * above[1]})


def cell_20(says, b, days, day, budget):
    says({"24": 2 * b, "168": 7 * 24})
    # The run ends with its third answer, so two were false alarms.
    assert budget["cutoff"] == 3 and day == 137 and np.flatnonzero(days > 110).tolist() == [137, 602]


def cell_22(says, classic, least):
    says({"197.6": classic.scale})
    wrong = math.sqrt(32 * math.log(1e5)) * 0.1
    settings = {"threshold": 2 * wrong * math.log(2e5), "b": wrong, "b2": 2 * wrong}
    near = np.array([chance([distance], [1], **settings) for distance in (45.0, 46.0)])
    says({"0.042": max((some - math.exp(0.1) * some[::-1]).max() for some in (near, 1 - near))})
    passing = privacy.unstable_pass_probability(scale=least.scale, threshold=least.threshold)
    assert math.isclose(passing, 0.5e-5, rel_tol=1e-3)


def cell_28(says, images, labels, questions, runs, truth, easy, sigma, accuracy):
    number, good = runs["easy"].T
    says({"203": number.min()})
    assert (number == 400).sum() == 9 and good.sum() / number.sum() > 0.99 and runs["hard"].sum() == 0
    assert (easy.argmax(axis=1) != truth).sum() == 1
    says({"56": sigma})
    assert 0.8 < accuracy < 0.95

    one, two = (privacy.m_svec_noise(epsilon=2.0, delta=1e-5, cutoff=cutoff) for cutoff in (1, 2))
    says({"23.6": one.threshold, "50": two.threshold})
    assert stability.distance_to_instability([100, 0]) == 50

    def all_answered(votes):
        distances = stability.distance_to_instability(votes)
        return chance(-distances, [0] * len(votes), threshold=-one.threshold, b=one.scale, b2=2 * one.scale)

    says({"0.995": all_answered(easy)})
    hard, _ = questions["hard"]
    assert stability.distance_to_instability(hard)[0] == 0 and all_answered(hard[:1]) < 1e-5
    # Ten classes: 100 teachers of 16 images, each of which chooses the nearest mean.
    order = np.random.default_rng(0).permutation(10_000)
    votes = np.zeros(10, dtype=int)
    for shard in np.array_split(order[:1600], 100):
        kinds = np.unique(labels[shard])
        means = np.stack([images[shard][labels[shard] == kind].mean(axis=0) for kind in kinds])
        votes[kinds[((images[order[-400]] - means) ** 2).sum(axis=1).argmin()]] += 1
    assert stability.distance_to_instability(votes) == 1 and all_answered(votes[None]) < 1e-4


def cell_31(says):
    figure = explorers.when_it_pays()
    least, classic = figure.frame(), figure.frame(noise="classic")
    assert "from about 340 queries" in least.title and "from about 18,000 queries" in classic.title
    assert "gap of 578" in least.readout and "gap of 4,140" in classic.readout
    assert round(4140 / 578) == 7  # a factor of seven
