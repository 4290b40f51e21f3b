r"""Privacy-loss distributions: the tight epsilon, from both sides, with every numerical error counted.

The privacy loss of a composition is a sum of independent losses; its law gives epsilon at any delta. Three steps, each
with a bound on what it changes, lead from the laws to two numbers between which the truth lies:

1. Losses move to a lattice in two ways, one that can only lose privacy (connect the dots) and one that can only gain
   it (tangents of the same convex function). Both errors are of second order in the step.
2. The lattice laws are tilted by $e^{\lambda \ell}$, with $\lambda$ near the minimum of the Chernoff bound, and
   convolved by FFT. After the tilt the part that decides delta is of order one, at delta = 1e-5 and at delta = 1e-100
   alike, so the rounding of the FFT does not matter; its bound, that of the wrap-around and that of the truncated
   tails are added to the upper end and subtracted from the lower.
3. Epsilon is found by a search that returns only values at which delta was evaluated.

For Poisson-sampled Gaussian steps a contour integral (`_contour`) is tried first. It gives the same delta from both
sides, to a relative 1e-7 and in a few milliseconds, wherever its proved bounds are small enough; that is not the case
for few steps or rare records with little noise, where the lattice answers.

What is assumed: u = 2^-53 arithmetic; logarithms, exponentials and normal distribution functions of NumPy and SciPy as
accurate as the tests find them (1e-12 relative for the masses, where at most 4e-13 is measured).

| function | answers |
|---|---|
| `epsilon_bounds`, `epsilon`, `delta_bounds`, `epsilon_curve` | DP-SGD with Poisson sampling, add/remove |
| `noise_multiplier` | the noise for a target |
| `fixed_size_epsilon_bounds`, `fixed_size_noise_multiplier` | samples of fixed size, replace-one |
| `compose` with `dpml.accounting.pld.losses` | any mixture of Gaussian, Laplace, randomized response, sampled or not |
"""

from dpml.accounting.pld.calibrate import fixed_size_noise_multiplier, noise_multiplier
from dpml.accounting.pld.compose import compose
from dpml.accounting.pld.fixed_size import fixed_size_epsilon_bounds
from dpml.accounting.pld.sampled_gaussian import DeltaBounds, delta_bounds, epsilon, epsilon_bounds, epsilon_curve

__all__ = [
    "DeltaBounds",
    "compose",
    "delta_bounds",
    "epsilon",
    "epsilon_bounds",
    "epsilon_curve",
    "fixed_size_epsilon_bounds",
    "fixed_size_noise_multiplier",
    "noise_multiplier",
]
