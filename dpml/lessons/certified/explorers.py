"""Explorers of chapter 13, certified robustness.

The first two and the last are about predictions: neighbours are two images at a distance. The others are about
training: neighbours are two datasets, one example of which is replaced.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dpml import data
from dpml.accounting.tradeoff import laplace_fnr
from dpml.audit.samples import lower_limit
from dpml.certified import pixeldp, smoothing
from dpml.certified.stobatch import budget, reconstruction
from dpml.classroom.explorer import Explorer, Range, Switch
from dpml.classroom.marks import Area, Axis, Frame, Key, Line, Points, Role, Rule, Text

Array = NDArray[np.float64]

ALPHA, EPSILON_1 = 0.001, 0.1
BATCH, BETA, SHOWN = 350, 32, 12  # digits in a batch, hidden units, the digit that is drawn
LEVELS = np.linspace(-0.8, 0.8, 9)  # of the layers of a picture


def radius_of_votes() -> Explorer:
    """What a share of noisy votes certifies: the theorem of PixelDP, and the sharp one for the same noise.

    Both get the same lower limit on the probability of the label, and what is left for the others. PixelDP gets the
    delta that certifies most: it is valid at each.
    """
    shares = np.array([0.505, *np.arange(0.54, 0.97, 0.04), 0.97, 0.98, 0.99, 0.995, 1.0])
    names = {"gaussian": "Cohen", "laplace": "Laplace, sharp"}

    def limit(share: float, draws: int) -> float:
        return float(lower_limit(round(share * draws), trials=draws, alarm=ALPHA))

    def radii(p: float, noise: str) -> tuple[float, float]:
        """By the sharp theorem and by PixelDP's, in units of the deviation or the scale."""
        if p <= 0.5:
            return 0.0, 0.0
        u = 1.0 - p
        if noise == "laplace":
            both = smoothing.laplace_radius(p, upper=u, scale=1.0), pixeldp.certified_size(p, upper=u, scale=1.0)
            return float(both[0]), float(both[1])

        logs = np.linspace(math.log(1e-3), math.log(0.5), 8)
        for _ in range(3):  # the best delta lies between the neighbours of the best one so far
            sizes = [float(pixeldp.certified_size_gaussian(p, upper=u, sigma=1.0, delta=math.exp(log))) for log in logs]
            best = int(np.argmax(sizes))
            logs = np.linspace(logs[max(best - 1, 0)], logs[min(best + 1, 7)], 8)
        return float(smoothing.gaussian_radius(p, upper=u, sigma=1.0)), max(sizes)

    @cache
    def curves(draws: int, noise: str) -> Array:
        return np.array([radii(limit(share, draws), noise) for share in shares]).T

    def draw(share: float, draws: int, noise: str) -> Frame:
        sharp, dp = curves(draws, noise)
        here = radii(limit(share, draws), noise)
        unit, norm = ("σ", "ℓ₂") if noise == "gaussian" else ("b", "ℓ₁")
        votes = f"{round(share * draws):,} of {draws:,} votes"
        found = f"{names[noise]} certifies {here[0]:.2f} {unit}, PixelDP {here[1]:.2f} {unit}"
        below = max(0.1, float(np.interp(0.9, shares, dp)) - 0.6)  # the curve of PixelDP, where its name stands
        return Frame(
            title=f"{votes}: {found if here[0] else 'no label has a proven majority, so abstain'}.",
            readout=f"With 99.9 % confidence the label has probability at least {limit(share, draws):.4f}. "
            f"Radii in {norm}, in units of {unit}.",
            marks=[
                Line(shares, sharp, "guarantee", Text(names[noise], 0.97, sharp[-1] + 0.15, anchor="end")),
                Line(shares, dp, "muted", Text("PixelDP", 0.9, below, anchor="start")),
                Rule("muted", x=share),
                Points([share, share], here, "measured"),
            ],
        )

    asked = [0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0]
    noises = {"gaussian": "Gaussian", "laplace": "Laplace"}
    return Explorer(
        "certified-radius-of-votes",
        draw,
        [
            Range("share", "share of the votes", asked, 0.8, "How many of the noisy copies get the label."),
            Range("draws", "n", [20, 100, 300, 1000, 3000, 10_000], 1000, "How many noisy copies vote.", "{:,}", "log"),
            Switch("noise", "noise", noises, "gaussian", "Gaussian noise certifies in ℓ₂, Laplace noise in ℓ₁."),
        ],
        x=Axis("share of the votes for the label", 0.5, 1.005),
        y=Axis("certified radius, in units of the noise", 0.0, 7.0),
        asked="both",
    )


def two_noises() -> Explorer:
    """A score that is a product of two noisy ones: where its label truly flips, and which sizes two rules certify.

    In one dimension: a point has class 1 if it lies below a threshold, and each of the two factors adds Laplace noise
    of its own. The expected scores are exact: how often noise and a shift together cross the threshold is the trade-off
    curve of the noise.
    """
    shifts = np.linspace(0.0, 12.0, 73)

    def draw(doubt: float, ratio: float) -> Frame:
        scales = 1.0, ratio
        crossed = doubt, (2.0 * doubt) ** (1.0 / ratio) / 2.0  # how often each noise alone crosses the threshold
        flips = -math.log(2.0 * doubt)

        def beyond(p: float, scale: float) -> Array:
            moved = [1.0 - float(laplace_fnr(p, scale=scale / shift)) for shift in shifts[1:]]
            return np.array([p, *moved])

        second = beyond(crossed[0], 1.0), beyond(crossed[1], ratio)
        score, other = (1.0 - second[0]) * (1.0 - second[1]), second[0] * second[1]
        budgeted = float(pixeldp.largest_epsilon(score[0], upper=other[0], delta=0.0))
        kappa, phi = (scale * budgeted for scale in scales)
        printed = float(budget.printed_size(kappa=kappa, phi=phi))
        sound = float(budget.sound_size(kappa=kappa, phi=phi))
        promise = "sum" if printed < 11.0 else f"sum: {printed:.1f} b"
        covered = np.array([0.0, sound])
        return Frame(
            title=f"The label flips at {flips:.2f} b: the sum says {printed:.2f} b, the harmonic rule {sound:.2f} b.",
            readout=f"At ε = {budgeted:.3f} one noise alone would cover {kappa:.2f} b, the other {phi:.2f} b.",
            marks=[
                Area(covered, [0.0, 0.0], [1.0, 1.0], "muted"),
                Line(shifts, score, "D", Text("score of class 1", 11.9, 0.04)),
                Line(shifts, other, "D'", Text("score of class 2", 11.9, 0.84)),
                Rule("guarantee", x=sound, label=Text("harmonic", sound + 0.1, 1.2, anchor="start")),
                Rule("muted", x=flips, label=Text("the label flips", flips + 0.1, 1.12, anchor="start")),
                Rule("source", x=printed, label=Text(promise, min(printed, 9.4) + 0.1, 1.04, anchor="start")),
            ],
        )

    doubts = [0.01, 0.02, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4]
    ratios = [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0]
    return Explorer(
        "certified-two-noises",
        draw,
        [
            Range("doubt", "p₂", doubts, 0.2, "How often the first noise takes the point across the threshold."),
            Range("ratio", "second scale", ratios, 1.0, "The scale of the second noise; that of the first is b."),
        ],
        x=Axis("how far the point is moved, in units of b", 0.0, 12.0),
        y=Axis("expected score", 0.0, 1.3),
        asked="both",
    )


def claimed_epsilon() -> Explorer:
    """What the noisy images of a batch cost: as the paper prints it, and with fresh noise of the same scale."""
    sizes = np.geomspace(10, 10_000, 31).round().astype(int)
    images = {"digits": ("8 × 8 digits", 64), "mnist": ("28 × 28, grey", 784), "colour": ("32 × 32, colour", 3072)}

    def claimed(m: int, beta: int, dimension: int) -> float:
        return EPSILON_1 / budget.gamma_x(dimension=dimension, beta=beta, m=m)

    def draw(m: int, beta: int, case: str) -> Frame:
        name, dimension = images[case]
        printed, sound = claimed(m, beta, dimension), budget.sound_epsilon(m=m, epsilon_1=EPSILON_1, beta=beta)
        lines = (
            [claimed(int(size), beta, dimension) for size in sizes],
            [budget.sound_epsilon(m=int(size), epsilon_1=EPSILON_1, beta=beta) for size in sizes],
        )
        return Frame(
            title=f"{name}: claimed ε = {printed:.3g}; fresh noise of this scale has ε = {sound:.3g}, "
            f"{sound / printed:,.0f} times as much.",
            readout=f"m = {m:,}, β = {beta}, ε₁ = {EPSILON_1}: a scale of "
            f"{budget.input_scale(dimension=dimension, beta=beta, m=m, epsilon_1=EPSILON_1):.3g} for each pixel. "
            "With one noise for all images no ε holds.",
            marks=[
                Line(
                    sizes, lines[0], "source", Text("claimed for the images", 12.0, 3.0 * lines[0][10], anchor="start")
                ),
                Line(sizes, lines[1], "guarantee", Text("with fresh noise", 12.0, 3.0 * lines[1][10], anchor="start")),
                Rule("muted", y=1.0, label=Text("ε = 1", 9000.0, 1.15, anchor="end")),
                Points([m, m], [printed, sound], "measured"),
            ],
        )

    units, names = [4, 8, 16, 32, 64, 128, 256, 512], {key: name for key, (name, _) in images.items()}
    return Explorer(
        "certified-claimed-epsilon",
        draw,
        [
            Range("m", "m", [10, 30, 100, 350, 1000, 2500, 10_000], 100, "How many images a batch has.", "{:,}", "log"),
            Range("beta", "β", units, 32, "How many units the hidden layer has.", scale="log"),
            Switch("case", "images", names, "digits", "How many pixels d an image has: 64, 784 or 3,072 numbers."),
        ],
        x=Axis("m, images in a batch", 10, 10_000, "log"),
        y=Axis("ε", 1e-6, 1e3, "log"),
        asked="both",
    )


def _batch() -> Array:
    """The first 350 digits, one a row, from -1 (background) to 1."""
    whole = data.digits().train_images[:BATCH].reshape(BATCH, -1)
    return np.asarray(2.0 * whole / whole.max() - 1.0)


def _picture(image: Array, left: float) -> list[Area]:
    """An image of 8 x 8 numbers from -1 to 1 as layers, of which dark pixels have more.

    A layer is one area: it runs along each row of pixels, as high as a pixel where the layer has one.
    """
    steps = np.array([0.0, *np.repeat(np.arange(9.0), 2)[1:-1], 8.0])
    x = np.tile(steps + left, 8)
    low = np.repeat(np.arange(7.0, -1.0, -1.0), len(steps))
    rows = np.repeat(np.clip(image.reshape(8, 8), -1.0, 1.0), 2, axis=1)
    pixels = np.pad(rows, ((0, 0), (1, 1)), constant_values=-1.0).ravel()
    return [Area(x, low, low + (pixels > level), "guarantee") for level in LEVELS]


def _frame(left: float, name: str) -> Line:
    x = np.array([0.0, 8.0, 8.0, 0.0, 0.0]) + left
    return Line(x, [0.0, 0.0, 8.0, 8.0, 0.0], "muted", Text(name, left + 4.0, 8.5, anchor="middle"))


def _epsilon_1(values: list[float], start: float) -> Range:
    meaning = "The paper's budget for the images: smaller means more noise."
    return Range("epsilon_1", "ε₁", values, start, meaning, "{:g}", "log")


def _size(error: float) -> str:
    return f"{error:.2g}" if error > 1e-16 else "less than 10⁻¹⁶"


def reconstruction_of_a_batch() -> Explorer:
    """A digit, what is released of it, and what an attacker makes of the batch: with one noise for all, or fresh."""
    images = _batch()
    dimension = images.shape[1]
    settings = {"dimension": dimension, "beta": BETA, "m": BATCH}
    budgets = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0]
    ways = {
        "known": "one noise, one image known",
        "none": "one noise, none known",
        "fresh": "fresh noise, one image known",
    }

    @cache
    def run(epsilon_1: float, way: str) -> tuple[Array, Array, float]:
        """The released digit, the recovered one, and the mean error of a pixel over the batch."""
        scale = budget.input_scale(**settings, epsilon_1=epsilon_1)
        noise = np.random.default_rng(0).laplace(scale=scale, size=images.shape)
        noisy = images + (noise if way == "fresh" else noise[SHOWN])
        if way == "none":
            found = reconstruction.from_background(noisy, low=-1.0)
        else:
            found = reconstruction.from_known_image(noisy, known=images[0], index=0)
        return noisy[SHOWN], found[SHOWN], max(1e-17, float(np.abs(found - images).mean()))

    def draw(epsilon_1: float, way: str) -> Frame:
        released, found, error = run(epsilon_1, way)
        scale = budget.input_scale(**settings, epsilon_1=epsilon_1)
        sound = budget.sound_epsilon(m=BATCH, epsilon_1=epsilon_1, beta=BETA)
        scales = [budget.input_scale(**settings, epsilon_1=e) for e in budgets]
        fresh, shared = ([run(e, kind)[2] for e in budgets] for kind in ("fresh", "none"))
        kept = "no ε holds" if way != "fresh" else f"this noise has ε = {sound:.3g}"
        return Frame(
            title=f"Noise of scale {scale:.3g} on each pixel, and the attacker errs by {_size(error)} on average: "
            f"{kept}.",
            readout=f"{BATCH} digits, pixels from −1 to 1, ε₁ = {epsilon_1:g}: {ways[way]}.",
            marks=[
                _frame(0.0, "the digit"),
                _frame(9.0, "released"),
                _frame(18.0, "recovered"),
                *_picture(images[SHOWN], 0.0),
                *_picture(released, 9.0),
                *_picture(found, 18.0),
            ],
            beside=[
                Line(budgets, scales, "muted", Text("scale of the noise", 0.012, 3e5, anchor="start")),
                Line(budgets, fresh, "guarantee", Text("error, fresh noise", 250.0, 60.0, anchor="end")),
                Line(budgets, shared, "source", Text("error, one noise for all", 0.012, 1e-10, anchor="start")),
                Points([epsilon_1], [error], "measured"),
            ],
            table=(
                ["ε₁", "scale of the noise", "error, fresh noise", "error, one noise"],
                [
                    [f"{e:g}", f"{b:.3g}", f"{own:.3g}", _size(same)]
                    for e, b, own, same in zip(budgets, scales, fresh, shared, strict=True)
                ],
            ),
        )

    meaning = "Whether all images share their noise, and what the attacker knows."
    return Explorer(
        "certified-reconstruction",
        draw,
        [
            _epsilon_1(budgets, 10.0),
            Switch("way", "noise and attacker", ways, "known", meaning),
        ],
        x=[Axis("8 × 8 pixels, drawn from −1 to 1", -0.5, 26.5, ticks=()), Axis("ε₁", 0.01, 300.0, "log")],
        y=[Axis("", -3.0, 11.7, ticks=()), Axis("error or noise of a pixel", 1e-17, 1e7, "log")],
        asked="right",
    )


def rank_test() -> Explorer:
    """The singular values that a released gradient leaves for the true batch, and for a neighbour of it."""
    images = _batch()
    cases = {
        "ordinary": "another image",
        "same": "a mirrored image, outside [−1, 1]",
        "clipped": "another image, h clipped",
    }

    @cache
    def values(epsilon_1: float, beta: int, case: str) -> tuple[Array, Array]:
        rng = np.random.default_rng(beta)
        theta = rng.normal(size=(images.shape[1], beta)) / 8.0
        settings = {"dimension": images.shape[1], "beta": beta, "m": BATCH, "epsilon_1": epsilon_1}
        noisy = images + rng.laplace(scale=budget.input_scale(**settings), size=images.shape[1])
        gradient = reconstruction.encoder_gradient(
            noisy,
            theta=theta,
            hidden_noise=rng.laplace(scale=budget.hidden_scale(**settings), size=beta),
            bound=1.0 if case == "clipped" else math.inf,
        )
        other = reconstruction.same_covariance(images) if case == "same" else np.vstack([images[-1], images[1:]])
        tested = (reconstruction.rank_test(gradient, theta=theta, data=guess) for guess in (images, other))
        true, neighbour = (np.maximum(found, 1e-12) for found in tested)
        return true, neighbour

    def size(found: Array) -> str:  # what rounding leaves differs from one machine to another
        return "below 10⁻⁶" if found[1] < 1e-6 else f"{found[1]:.2g}"

    def draw(epsilon_1: float, beta: int, case: str) -> Frame:
        true, neighbour = values(epsilon_1, beta, case)
        ranks = np.arange(1, beta + 1)
        told = "tells them apart" if neighbour[1] > 1e3 * true[1] else "does not tell them apart"
        return Frame(
            title=f"Second singular value {size(true)} for the true batch, {size(neighbour)} for the neighbour: "
            f"it {told}.",
            readout=f"One gradient of {BATCH} digits, β = {beta}, ε₁ = {epsilon_1:g}; the neighbour has {cases[case]}.",
            marks=[
                Line(ranks, neighbour, "D'"),
                Line(ranks, true, "D"),
                Points(ranks, neighbour, "D'", Key("neighbour", 11.0, 3e11)),
                Points(ranks, true, "D", Key("true batch", 4.0, 3e11)),
            ],
            table=(
                ["rank", "true batch", "neighbour"],
                [
                    [str(rank), f"{one:.3g}", f"{two:.3g}"]
                    for rank, one, two in zip(ranks, true, neighbour, strict=True)
                ],
            ),
        )

    return Explorer(
        "certified-rank-test",
        draw,
        [
            _epsilon_1([0.01, 0.1, 1.0, 10.0, 100.0], 0.1),
            Range("beta", "β", [2, 4, 6, 8, 12, 16], 8, "How many units the hidden layer has."),
            Switch("case", "neighbour", cases, "ordinary", "How the batch of the neighbour differs in one image."),
        ],
        x=Axis("rank of the singular value", 0.5, 16.5),
        y=Axis("singular value", 1e-12, 1e13, "log"),
        asked="both",
    )


def certified_accuracy() -> Explorer:
    """Recorded runs on the digits: certified accuracy against the radius, without privacy and with two budgets."""
    recorded = data.recorded("stobatch")["cpu"]
    runs = data.grouped(recorded["rows"], "set", "method", "noise", "multiplier")
    radii = sorted(recorded["settings"]["radii"])
    places = [recorded["settings"]["radii"].index(radius) for radius in radii]
    seeds = len(recorded["settings"]["preset"]["seeds"])
    looks: dict[float, Role] = {0.0: "muted", 2.0: "D", 6.0: "D'"}

    @cache
    def curve(noise: float, multiplier: float) -> tuple[float | None, Array]:
        """The epsilon, and the mean certified accuracy over the seeds, in percent."""
        rows = runs["digits", "StoBatch, central", noise, multiplier]
        return rows[0]["spent"], 100 * np.mean([row["radii_l2"] for row in rows], axis=0)[places]

    def draw(radius: float, noise: str) -> Frame:
        found = {multiplier: curve(float(noise), multiplier) for multiplier in looks}
        names = {m: "no privacy" if epsilon is None else f"ε = {epsilon:.1f}" for m, (epsilon, _) in found.items()}
        now = {m: float(np.interp(radius, radii, line)) for m, (_, line) in found.items()}
        said = ", ".join(f"{now[m]:.0f} % at {names[m]}" if m else f"{now[m]:.0f} % without privacy" for m in looks)
        return Frame(
            title=f"Certified to {radius:.1f} at σ = {noise}: {said}.",
            readout=f"Mean of {seeds} seeds, radius in ℓ₂ for pixels from −1 to 1.",
            marks=[
                *(
                    Line(radii, found[m][1], role, Key(names[m], 1.5, 97.0 - 8.0 * i))
                    for i, (m, role) in enumerate(looks.items())
                ),
                Rule("muted", x=radius),
                Points([radius] * len(now), list(now.values()), "measured"),
            ],
        )

    moves = [0.0, 0.2, 0.3, 0.5, 0.7, 1.0, 1.2, 1.5, 1.8, 2.0]
    meaning = "The deviation of the noise on a pixel, in training and in smoothing."
    return Explorer(
        "certified-accuracy",
        draw,
        [
            Range("radius", "radius", moves, 0.2, "How far an attacker may move the image."),
            Switch("noise", "σ", {"0.25": "0.25", "0.5": "0.5", "1.0": "1"}, "0.5", meaning),
        ],
        x=Axis("certified ℓ₂ radius", 0.0, 2.05),
        y=Axis("right and certified, %", 0.0, 102.0),
        asked="both",
    )
