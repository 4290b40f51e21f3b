"""Predictions that provably cannot change under a small perturbation of the input, and StoBatch.

| module | holds |
|---|---|
| `pixeldp` | from differential privacy in the pixels to a certificate |
| `smoothing` | the largest certificate that noise on the input gives |
| `attacks` | perturbed images that a network takes for something else |
| `stobatch` | the system of Phan et al. (ICML 2020), attacks on it as printed, and two sound versions |

Two guarantees live here, and they are about different things. One is about the *training data*: neighbours are two
datasets, as everywhere else. The other is about an *input* at the time of prediction: neighbours are two images that
differ by a perturbation, and the mechanism is the noisy prediction itself.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch, see dpml.training
