"""What the recorded runs of ``experiments/ptr_tables.py`` gave, as far as the explorers of chapter 11 show it.

A small network on the 10,000 shipped training images; accuracy in % on the 2,000 clean test images, mean and standard
deviation over the seeds. The step size was chosen on these images, which no epsilon here covers. A test compares these
numbers with the recorded file.
"""

EPSILON, SEEDS = 3.0, 5
RATIOS = (0.0, 0.1, 0.2)
METHODS = ("DP-SGD, matched", "TSGD+PTR", "TSGD+Gaussian, matched", "TSGD+Gaussian, paper")
ACCURACY: dict[str, dict[str, tuple[tuple[float, float], ...]]] = {
    "DP-SGD, matched": {
        "labels": ((80.92, 0.51), (80.28, 0.85), (79.57, 0.54)),
        "features": ((80.92, 0.51), (80.34, 0.48), (79.44, 0.33)),
        "gradients": ((80.92, 0.51), (80.44, 0.53), (79.92, 0.40)),
    },
    "TSGD+PTR": {
        "labels": ((77.72, 0.73), (76.56, 1.21), (76.32, 1.34)),
        "features": ((77.72, 0.73), (76.46, 1.57), (76.08, 1.47)),
        "gradients": ((77.72, 0.73), (77.01, 1.85), (76.77, 0.89)),
    },
    "TSGD+Gaussian, matched": {
        "labels": ((73.83, 1.66), (76.43, 0.71), (77.17, 0.58)),
        "features": ((73.83, 1.66), (76.75, 0.78), (78.38, 0.86)),
        "gradients": ((73.83, 1.66), (77.23, 0.64), (79.10, 0.61)),
    },
    "TSGD+Gaussian, paper": {
        "labels": ((62.45, 3.13), (62.90, 2.05), (64.69, 1.75)),
        "features": ((62.45, 3.13), (65.04, 1.85), (68.56, 1.45)),
        "gradients": ((62.45, 3.13), (65.56, 1.56), (69.94, 1.57)),
    },
}
"""Method -> corruption -> (accuracy, its standard deviation) at each of the `RATIOS` of corrupted examples."""
