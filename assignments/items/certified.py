r"""Graded exercises of chapter 13: a radius from votes, how many votes it takes, a size by PixelDP, two noises, one noise
for a whole batch, a false claim, statements, an argument.

With p at most the probability of the label under N(0, sigma^2 I), the label stays within sigma Phi^-1(p) in l2; under
Laplace noise of scale b it stays within -b log(2(1 - p)) in l1. From k of n votes, p is the Clopper-Pearson limit, the
alpha-quantile of Beta(k, n - k + 1). PixelDP asks for E_A > e^(2 epsilon) E_B, and noises of several layers add costs.
"""

from __future__ import annotations

import numpy as np

from assignments.item import Argued, Graded, Sheet
from assignments.items import drawing
from assignments.items.drawing import code, counterexample, function, number, statements, tex

IMPORTS = drawing.imports("from scipy import stats")
LIMIT = "stats.beta.ppf(alpha, votes, draws - votes + 1)"


def make(rng: np.random.Generator) -> Sheet:
    """Draw the sheet."""
    radius = gaussian_radius(rng) if rng.random() < 0.5 else laplace_radius(rng)
    votes = least_draws(rng) if rng.random() < 0.5 else needed_noise(rng)
    pixel = pixeldp_size(rng) if rng.random() < 0.5 else pixeldp_scale(rng)
    two = both_sizes(rng) if rng.random() < 0.5 else second_size(rng)
    batch = known_image(rng) if rng.random() < 0.5 else known_mean(rng)
    argued = no_training_privacy() if rng.random() < 0.5 else one_large_noise()
    items = (radius, votes, pixel, two, batch, claim(rng), statements(rng, BANK), argued)
    return Sheet("Graded exercises 13: Certified robustness", IMPORTS, items)


def voted(rng: np.random.Generator) -> list[dict[str, object]]:
    """Votes that certify something, and two that do not."""
    rows: list[dict[str, object]] = []
    for draws, share in ((100, 0.8), (1000, 0.97), (10_000, 0.999), (200, 1.0), (100, 0.52), (1000, 0.3)):
        votes = min(draws, round(draws * share) + int(rng.integers(0, 3)))
        alpha, noise = float(rng.choice([0.05, 0.01, 0.001])), round(float(rng.uniform(0.2, 1.5)), 2)
        rows.append({"votes": votes, "draws": draws, "alpha": alpha, "noise": noise})
    return rows


VOTES = r"""
A network answers for {draws} noisy copies of an image; `votes` of the `draws` answers are the label, which was guessed
beforehand on other copies. Let $p$ be the exact one-sided lower confidence limit (Clopper and Pearson) for the
probability of the label, wrong with probability at most `alpha`.
"""


def radius_item(rng: np.random.Generator, *, noise: str, norm: str, right: str, other: str) -> Graded:
    return function(
        "certified_radius",
        title="A radius from votes",
        asked=f"""
            {" ".join(VOTES.format(draws="`draws`").split())} The noise is {noise}.

            Write `certified_radius(*, votes, draws, alpha, noise)`: the largest radius $r$, in the {norm} norm, such that with this
            confidence no image nearer than $r$ has another most probable label; 0 where $p \\le 1/2$. Of the other labels nothing is
            used but that they share $1 - p$. `stats.beta.ppf` may help.
        """,
        takes="*, votes, draws, alpha, noise",
        right="""
            p = {p}
            return {value} if p > 0.5 else 0.0
        """,
        parts={"p": LIMIT, "value": right},
        inputs=voted(rng),
        cases={
            "is 0 without a majority": "f(votes=10, draws=100, alpha=0.01, noise=1.0) == 0",
            "doubles with the noise": "abs(f(votes=99, draws=100, alpha=0.01, noise=2.0) / "
            "f(votes=99, draws=100, alpha=0.01, noise=1.0) - 2) < 1e-9",
        },
        mistakes={
            "it uses the share of the votes itself; the probability may be smaller.": {"p": "min(votes / draws, 1 - 1e-9)"},
            "alpha is halved: that is a two-sided interval, and one side is asked.": {"p": LIMIT.replace("alpha", "alpha / 2")},
            "this is the upper limit of the interval.": {
                "p": "min(stats.beta.ppf(1 - alpha, votes + 1, max(draws - votes, 1e-9)), 1 - 1e-9)"
            },
            "this is the formula for the other noise.": {"value": other},
            "half of the radius: both quantiles count, and they are equal here.": {"value": f"({right}) / 2"},
        },
        hint="First p from the votes, then the radius from p.",
        rel=1e-6,
        points=3,
    )  # fmt: skip


def gaussian_radius(rng: np.random.Generator) -> Graded:
    return radius_item(
        rng,
        noise=r"Gaussian, independent in each pixel, with standard deviation `noise`",
        norm="Euclidean",
        right="noise * stats.norm.ppf(p)",
        other="-noise * math.log(2 * (1 - p))",
    )


def laplace_radius(rng: np.random.Generator) -> Graded:
    return radius_item(
        rng,
        noise=r"Laplace, independent in each pixel, with scale `noise` (density proportional to $e^{-|x|/b}$)",
        norm=r"$\ell_1$",
        right="-noise * math.log(2 * (1 - p))",
        other="noise * stats.norm.ppf(p)",
    )


def least_draws(rng: np.random.Generator) -> Graded:
    sigma = round(float(rng.uniform(0.3, 0.9)), 2)  # at 1 it would make no difference
    target = round(sigma * float(rng.uniform(1.5, 2.6)), 2)
    alpha = float(rng.choice([1e-2, 1e-3, 1e-4]))
    form = "math.ceil(math.log({alpha}) / stats.norm.logcdf({target} / {sigma}))"
    given = {"alpha": alpha, "target": target, "sigma": sigma}
    return number(
        "least_draws",
        title="How many draws does a radius take?",
        asked=f"""
            A label gets *all* votes. Gaussian noise has standard deviation {sigma}. The certificate may be wrong with probability at most
            ${tex(alpha)}$: its $p$ is the exact one-sided lower limit for the probability of the label. (If all $n$ votes agree, that is
            the $p$ with $p^n = {tex(alpha)}$.)

            Set `least_draws` to the smallest number of draws with which the certified Euclidean radius $\\sigma\\,\\Phi^{{-1}}(p)$ is at
            least {target}.
        """,
        right=form.format(**given),
        mistakes={
            "rounded down, the radius is just too small.": form.format(**given).replace("ceil", "floor"),
            "alpha is halved: one side is asked.": form.format(**given | {"alpha": alpha / 2}),
            "the radius is divided by sigma before the distribution function is taken.": form.format(**given | {"sigma": 1.0}),
            "this p is for twice the radius: with both quantiles equal the radius is sigma times one of them.": form.format(
                **given | {"target": 2 * target}
            ),
        },
        rel=0.0,
    )  # fmt: skip


def needed_noise(rng: np.random.Generator) -> Graded:
    draws = int(rng.choice([1000, 5000, 10_000]))
    votes = draws - int(rng.integers(2, 40))
    alpha, target = float(rng.choice([1e-2, 1e-3])), round(float(rng.uniform(0.4, 1.5)), 2)
    limit = f"stats.beta.ppf({{}}, {votes}, {draws - votes + 1})"
    return number(
        "sigma",
        title="Which noise would do?",
        asked=f"""
            {votes:,} of {draws:,} noisy copies of an image get the label. Suppose that this stays so for another standard deviation of
            the Gaussian noise. The certificate may be wrong with probability at most ${tex(alpha)}$, with the exact one-sided
            lower limit for the probability of the label.

            Set `sigma`, to at least four digits, to the standard deviation with which the certified Euclidean radius is {target}.
        """,
        right=f"{target} / stats.norm.ppf({limit.format(alpha)})",
        mistakes={
            "the share of the votes is no lower limit.": f"{target} / stats.norm.ppf({votes} / {draws})",
            "alpha is halved: one side is asked.": f"{target} / stats.norm.ppf({limit.format(alpha / 2)})",
            "a larger quantile needs less noise, not more.": f"{target} * stats.norm.ppf({limit.format(alpha)})",
            "this is for Laplace noise and the l1 norm.": f"-{target} / math.log(2 * (1 - {limit.format(alpha)}))",
        },
    )


PIXEL = r"""
PixelDP: Laplace noise of scale $b$ is added to each pixel, so that a change of the image of $\ell_1$ norm $s$ costs
$\varepsilon = s/b$. A score between 0 and 1 then changes in its mean by a factor of at most $e^{\varepsilon}$, up or
down. The mean of the score of the label is at least $A$, that of each other label at most $B$.
"""


def scores(rng: np.random.Generator) -> tuple[float, float]:
    """A and B, with B below 1 - A."""
    return round(float(rng.uniform(0.6, 0.78)), 3), round(float(rng.uniform(0.02, 0.2)), 3)


def pixeldp_size(rng: np.random.Generator) -> Graded:
    (high, low), scale = scores(rng), round(float(rng.uniform(1.2, 3.0)), 2)  # not 1, which divides as it multiplies
    return number(
        "size",
        title="How large an attack is harmless?",
        asked=f"{code(PIXEL)}\n\nSet `size`, to at least four digits, to the largest $s$ below which this argument certifies the label, "
        f"for $b = {scale}$, $A = {high}$ and $B = {low}$.",
        right=f"{scale} / 2 * math.log({high} / {low})",
        mistakes={
            "A falls and B rises: the factor counts twice.": f"{scale} * math.log({high} / {low})",
            "scores change by a factor, not by an amount.": f"{scale} / 2 * ({high} - {low})",
            "a larger scale lets a larger change pass: multiply by b.": f"math.log({high} / {low}) / (2 * {scale})",
            "this takes 1 - A for B; B is given, and smaller.": f"{scale} / 2 * math.log({high} / (1 - {high}))",
        },
    )


def pixeldp_scale(rng: np.random.Generator) -> Graded:
    (high, low), size = scores(rng), round(float(rng.uniform(2.0, 4.0)), 2)  # 2 size > log(A / B): b above 1
    return number(
        "scale",
        title="How much noise does this attack need?",
        asked=f"{code(PIXEL)}\n\nAn attacker may change the image by {size} in the $\\ell_1$ norm. Suppose that $A = {high}$ and "
        f"$B = {low}$ whatever the scale is. Set `scale`, to at least four digits, to the $b$ above which this argument certifies the "
        "label.",
        right=f"2 * {size} / math.log({high} / {low})",
        mistakes={
            "A falls and B rises: the factor counts twice.": f"{size} / math.log({high} / {low})",
            "scores change by a factor, not by an amount.": f"2 * {size} / ({high} - {low})",
            "this is epsilon over the size: turn it over.": f"math.log({high} / {low}) / (2 * {size})",
            "this takes 1 - A for B; B is given, and smaller.": f"2 * {size} / math.log({high} / (1 - {high}))",
        },
    )


TWO = r"""
A network adds noise twice: to the image, and to what its first layer computes. The noise on the image alone would certify
changes of the image of size below $\kappa$, and that on the layer alone, with the same scores, changes of size below
$\varphi$: a change of size $s$ costs $\varepsilon s/\kappa$ at the image or $\varepsilon s/\varphi$ at the layer, and the scores
stand a cost of $\varepsilon$. An observer of both noisy values would pay for both.
"""


def both_sizes(rng: np.random.Generator) -> Graded:
    kappa, phi = (round(float(value), 3) for value in rng.uniform([0.1, 0.5], [2.0, 2.4]))
    return number(
        "both",
        title="Two noises, one size",
        asked=f"{code(TWO)}\n\nSet `both`, to at least four digits, to the size that composition certifies for both "
        f"together, for $\\kappa = {kappa}$ and $\\varphi = {phi}$.",
        right=f"{kappa} * {phi} / ({kappa} + {phi})",
        mistakes={
            "costs add up; sizes do not.": f"{kappa} + {phi}",
            "with one of the noises alone it would be this much; the other one is paid for as well.": f"min({kappa}, {phi})",
            "this is the mean of the two; costs are added, not sizes averaged.": f"({kappa} + {phi}) / 2",
            "twice that: a change pays at both places, and is the same change.": f"2 * {kappa} * {phi} / ({kappa} + {phi})",
        },
    )


def second_size(rng: np.random.Generator) -> Graded:
    kappa = round(float(rng.uniform(2.5, 5.0)), 3)  # so that phi is above 1
    size = round(kappa * float(rng.uniform(0.3, 0.8)), 3)
    return number(
        "phi",
        title="What must the second noise stand?",
        asked=f"{code(TWO)}\n\n$\\kappa = {kappa}$, and both together are to certify sizes below {size}. Set `phi`, to at least four "
        "digits, to the $\\varphi$ that is needed.",
        right=f"{kappa} * {size} / ({kappa} - {size})",
        mistakes={
            "half of the size: the two do not share it evenly. Costs add up.": f"{size} / 2",
            "the image alone would be enough, if the layer cost nothing; it does.": f"{size}",
            "this is what both certify if the second noise stands as much as asked.": f"{kappa} * {size} / ({kappa} + {size})",
            "upside down: what is left of the cost is 1/size - 1/kappa.": f"({kappa} - {size}) / ({kappa} * {size})",
        },
    )


def batches(rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Batches of small images, and their noisy versions, with one noise for a whole batch."""
    found = []
    for m, d in ((2, 3), (4, 2), (5, 6)):
        images = rng.uniform(0.0, 1.0, size=(m, d)).round(3)
        found.append((images, images + rng.normal(0.0, 9.0, size=d).round(3)))
    return found


SHARED = r"""
A server publishes a batch of private images, the rows of `noisy`: to each image a noise vector was added, very large, but *the
same* for all images of the batch.
"""
REVEALS = {"returns as many images": "np.shape(f({called})) == (2, 2)"}


def known_image(rng: np.random.Generator) -> Graded:
    inputs = []
    for images, noisy in batches(rng):
        place = int(rng.integers(1, len(images)))  # the first is a mistake of the list
        inputs.append({"noisy": noisy, "known": images[place], "place": place})
    called = "np.array([[5.0, 6.0], [5.5, 6.5]]), known=np.array([0.0, 1.0]), place=1"
    return function(
        "revealed",
        title="Somebody knows one image",
        asked=f"""
            {" ".join(SHARED.split())} An attacker knows one of the images exactly, `known`, and its row, `place` (from 0).

            Write `revealed(noisy, *, known, place)`: all images of the batch, an array of the shape of `noisy`.
        """,
        takes="noisy, *, known, place",
        right="noisy - (noisy[place] - known)",
        inputs=inputs,
        cases={text: holds.format(called=called) for text, holds in REVEALS.items()},
        mistakes={
            "these are differences to the known image's row; the image itself is to be added.": "noisy - noisy[place]",
            "the known image is not the noise: subtract the noise, which its row gives away.": "noisy - known",
            "the sign is wrong: noise is what the row has more than the image.": "noisy + (noisy[place] - known)",
            "it averages the noise over the batch as if every image were the known one.": "noisy - (noisy - known).mean(axis=0)",
            "it takes the first row for the known one.": "noisy - (noisy[0] - known)",
        },
        hint="Row and image of the known one give the noise, which is that of all.",
    )


def known_mean(rng: np.random.Generator) -> Graded:
    inputs = [{"noisy": noisy, "mean": images.mean(axis=0)} for images, noisy in batches(rng)]
    called = "np.array([[5.0, 6.0], [5.5, 6.5]]), mean=np.array([0.5, 0.5])"
    return function(
        "revealed",
        title="Somebody knows the mean image",
        asked=f"""
            {" ".join(SHARED.split())} An attacker knows the mean of the images of the batch, `mean`, which was published elsewhere without
            noise.

            Write `revealed(noisy, *, mean)`: all images of the batch, an array of the shape of `noisy`.
        """,
        takes="noisy, *, mean",
        right="noisy - (noisy.mean(axis=0) - mean)",
        inputs=inputs,
        cases={text: holds.format(called=called) for text, holds in REVEALS.items()},
        mistakes={
            "these are differences to the mean of the noisy rows; the mean image is to be added.": "noisy - noisy.mean(axis=0)",
            "the mean image is not the noise: subtract the noise.": "noisy - mean",
            "the sign is wrong: noise is what the noisy mean has more than the mean.": "noisy + (noisy.mean(axis=0) - mean)",
            "it takes a mean over pixels; each pixel has its own noise.": "noisy - (noisy - mean).mean(axis=1, keepdims=True)",
        },
        hint="The mean of the noisy rows has the same noise as each of them.",
    )


def claim(rng: np.random.Generator) -> Graded:
    sigma = round(float(rng.uniform(0.5, 2.0)), 2)
    most = round(sigma * float(rng.uniform(0.6, 1.0)), 2)
    within = f"below {most}"
    return counterexample(
        "share",
        "distance",
        title="A majority is a majority",
        asked=f"""
            Gaussian noise of standard deviation {sigma} is added to an image, and the label gets a share of *more than half* of all possible
            noisy copies. A colleague claims: "Then no image at a Euclidean distance {within} has another most probable label. The noise
            is larger than that." The network is any network with two labels.

            Refute it: set `share` (between 0.5 and 1) and `distance` (above 0 and {within}) such that some network gives the label this
            share at the image, and another label a share above one half at this distance.
        """,
        right=("0.51", f"{most} * 0.9"),
        formed=f"""
            share, distance = answer
            if not (0.5 < share < 1):
                return "the share must lie between 0.5 and 1."
            return None if 0 < distance < {most} else "the distance must be above 0 and {within}."
        """,
        refutes=f"""
            share, distance = answer
            if stats.norm.cdf(stats.norm.ppf(share) - distance / {sigma}) < 0.5:
                return None
            return (
                "with this share every network keeps its label at this distance: a half-space is the worst, and there the share is "
                "still above one half."
            )
        """,
        wrong={
            "a clear majority": ("0.9", f"{most} * 0.5"),
            "hardly any distance": ("0.6", f"{most} * 0.01"),
        },
    )


BANK = [
    ("A certified radius says nothing about the people in the training data.", True,
     "its neighbours are images at prediction, and its noise is drawn then."),
    ("Twice the noise always certifies twice the radius.", False,
     "the radius is noise times a quantile of the share, and more noise lowers the share."),
    ("More draws can make a certificate larger, with the same share of votes.", True,
     "the lower confidence limit comes closer to the share."),
    ("An abstention counts as a wrong answer in certified accuracy.", True,
     "certified accuracy is the share that is right and certified."),
    ("If 100 attacks fail to change a label within a distance, the label is certified there.", False,
     "another attack may succeed; a certificate is a proof about all images within the distance."),
    ("For 1,000 images certified at alpha = 0.001 each, all certificates hold together with probability 0.999.", False,
     "about one of them may be wrong; for all at once, divide alpha by the number of images."),
    ("Noise that is the same for all images of a batch hides each of them, if it is large enough.", False,
     "differences of two noisy images hold no noise at all."),
    ("The label is guessed on draws of its own, because the same draws would favour the label that they chose.", True,
     "a confidence limit holds for a label that is fixed before its draws."),
    ("Privacy for pixels, with Laplace noise, is a certificate in the l1 norm.", True,
     "a change of the image of l1 norm s costs s/b."),
]  # fmt: skip


def no_training_privacy() -> Argued:
    return Argued(
        name="certified-is-private",
        question=code(r"""
            Argue: certified, so private?

            A hospital trains a network on patients' images, without any noise. At prediction it adds Gaussian noise to the image that is
            asked about, and certifies its answers by the argument of PixelDP, "which is differential privacy". The hospital writes: "Our
            model is differentially private; publishing its weights harms no patient."

            Refute it: say which two datasets are neighbours in PixelDP and which in private training, where the noise is drawn in each,
            and show with an example how the published weights may give a patient away. At most ten sentences.
        """),
        rubric=code("""
            - (1 point) Neighbours of the certificate are two versions of one input image at prediction; those of private training are
              two training sets that differ in one patient.
            - (1 point) The noise of the certificate is drawn at prediction, after the weights are fixed; the weights contain none.
            - (2 points) An example: a model that stores training images, such as a nearest-neighbour rule, or weights of a linear model
              from which a patient's image is solved for, can be certified all the same. 1 point for "it may overfit" without more.
        """),
        points=4,
        answer=code("""
            The certificate is about two versions of the image that is asked about: whatever the model is, its noisy answer changes little
            between them. Private training is about two training sets that differ in one patient. The certificate's noise is drawn when a
            question comes, and the weights are fixed long before; without noise in training the weights are a function of the patients.
            Take a nearest-neighbour classifier: its "weights" are the training images. With noise at prediction it can be
            certified like any other, and who gets it has all patients' images. So the claim confuses two kinds of neighbours.
        """),
    )


def one_large_noise() -> Argued:
    return Argued(
        name="one-noise",
        question=code(r"""
            Argue: one noise for a batch

            A published method draws one noise vector $z$ for each batch of $m$ images and trains on $x_1 + z, \dots, x_m + z$. Its
            authors argue: "The noise has the scale that $\varepsilon$-differential privacy asks for, so each image is $\varepsilon$-private,
            and so is all that is computed from the noisy batch."

            Find the step that fails, give two neighbouring batches and an event that show it, and say what would repair it, and at which
            price. At most ten sentences.
        """),
        rubric=code("""
            - (1 point) One noisy image alone is private as claimed; the release is the whole batch, and the noise of its rows is not
              independent.
            - (2 points) Two neighbouring batches with m >= 2, for example differing in x_1, and the event "row 1 minus row 2 equals x_1 - x_2":
              probability 1 against 0. 1 point if the differences are named without neighbours or event.
            - (1 point) A repair: independent noise for each image (the sum or mean then has noise of sqrt(m) times, or 1/sqrt(m) times, the
              scale), or noise on what is computed from the batch, such as clipped gradients.
        """),
        points=4,
        answer=code("""
            For one image the argument is right: x_1 + z alone is private. But the release consists of all rows, and their noise is the same:
            the difference of two rows, x_1 - x_2, has no noise at all. Let two batches differ in their first image only. The event "row 1
            minus row 2 equals x_1 - x_2" has probability 1 for the first batch and 0 for the other, so no finite epsilon (with delta below
            1) holds. A repair is fresh noise for each image, so that a batch is a product of private releases about different people. The
            price: no difference of rows removes the noise, for the network neither; in a sum over the batch it has sqrt(m) times
            the scale of one. Or one clips the gradients and adds one noise to their sum.
        """),
    )
