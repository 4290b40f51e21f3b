"""What the recorded runs of ``experiments/dpsgd_fashion.py`` gave, as far as the explorers of chapter 05 show it.

MLP on the 10,000 shipped training images, Poisson batches, momentum 0.9; accuracy on the 2,000 test images, mean and
standard deviation over the seeds. The learning rate was chosen on the private images, which no epsilon here covers. A
test compares these numbers with the recorded file.
"""

from __future__ import annotations

from typing import NamedTuple


class Clipped(NamedTuple):
    """Share of gradients clipped between the points of a run, and its accuracy at the end, with its spread."""

    clipped: tuple[float, ...]
    accuracy: float
    spread: float


EXAMPLES, SEEDS = 10_000, 5
SWEEP_STEPS = 200
SIGMAS = (0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0)
BATCHES = (50, 250, 1000)
SWEEP: dict[tuple[float, int], tuple[float, float]] = {
    (0.5, 50): (0.76530, 0.00573),
    (0.5, 250): (0.77620, 0.00293),
    (0.5, 1000): (0.77390, 0.00352),
    (0.7, 50): (0.74950, 0.01017),
    (0.7, 250): (0.77570, 0.00422),
    (0.7, 1000): (0.77420, 0.00297),
    (1.0, 50): (0.72040, 0.01557),
    (1.0, 250): (0.77440, 0.00436),
    (1.0, 1000): (0.77440, 0.00356),
    (1.5, 50): (0.65070, 0.02127),
    (1.5, 250): (0.77360, 0.00484),
    (1.5, 1000): (0.77470, 0.00491),
    (2.0, 50): (0.57890, 0.01842),
    (2.0, 250): (0.77140, 0.00594),
    (2.0, 1000): (0.77480, 0.00363),
    (3.0, 50): (0.49300, 0.02237),
    (3.0, 250): (0.76030, 0.00897),
    (3.0, 1000): (0.77460, 0.00528),
    (5.0, 50): (0.39120, 0.02112),
    (5.0, 250): (0.72620, 0.01426),
    (5.0, 1000): (0.77340, 0.00401),
}
"""(noise multiplier, batch size) -> (accuracy, its standard deviation), clip norm 1."""

CLIP_NORMS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
CLIP_RATE = 0.05
CLIP_AT_STEPS = (80, 160, 240, 320, 400, 480, 560, 640, 720, 800)
CLIP: dict[float, Clipped] = {
    0.03: Clipped((0.9404, 0.6889, 0.5869, 0.5332, 0.5034, 0.4848, 0.4704, 0.4595, 0.4498, 0.4383), 0.82560, 0.00393),
    0.1: Clipped((0.9213, 0.6560, 0.5594, 0.5125, 0.4858, 0.4696, 0.4556, 0.4433, 0.4338, 0.4215), 0.82700, 0.00355),
    0.3: Clipped((0.8972, 0.6201, 0.5302, 0.4910, 0.4663, 0.4524, 0.4374, 0.4241, 0.4147, 0.4033), 0.82830, 0.00313),
    1.0: Clipped((0.8576, 0.5703, 0.4945, 0.4620, 0.4397, 0.4258, 0.4096, 0.3957, 0.3886, 0.3786), 0.82920, 0.00293),
    3.0: Clipped((0.7956, 0.5078, 0.4509, 0.4246, 0.4010, 0.3855, 0.3719, 0.3598, 0.3559, 0.3457), 0.83030, 0.00418),
    10.0: Clipped((0.5045, 0.3812, 0.3514, 0.3337, 0.3170, 0.3077, 0.3004, 0.2923, 0.2908, 0.2844), 0.83010, 0.00376),
    30.0: Clipped((0.0003, 0.0186, 0.0441, 0.0624, 0.0759, 0.0865, 0.0957, 0.1009, 0.1095, 0.1125), 0.81750, 0.00492),
}
"""Clip norm -> a run at epsilon 3, delta 1e-5, with learning rate times clip norm = `CLIP_RATE`."""
