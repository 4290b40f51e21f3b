r"""What StoBatch minimises: the auto-encoder's objective in $\theta_1$, the adversarial objective in $\theta_2$.

Auto-encoder. With noisy examples $\bar x_i$, their noisy hidden layers $\bar h_i$ and $\tilde x_i = \theta_1 \bar h_i$,

.. math::

    \bar R(\theta_1) = \sum_i \Bigl[\sum_{j=1}^d \tfrac12\, \theta_{1j} \bar h_i - \bar x_i \tilde x_i\Bigr], \qquad
    \frac{\partial \bar R}{\partial \theta_{1j}} = \sum_i \bar h_i \bigl(\tfrac12 - \bar x_{ij}\bigr),

where $\theta_{1j}$ is row j. It is the first-order part of the cross-entropy between $\bar x$ and the logistic function
of $\tilde x$, as in the functional mechanism: the hidden layers count as coefficients, and are not differentiated.
As a function of $\theta_1$ it is linear, so it has no minimiser: it falls without bound along its gradient. That is why
`dpml.certified.stobatch.model.keep_in_ball` bounds $\theta_1$ (the authors take the absolute value of the sum and small
steps).

Classifier. With the scores $z_k$ of class k and $y_k \in \{0, 1\}$, the cross-entropy of K logistic units, to second
order in z:

.. math::

    \log(1 + e^{z}) - z y \approx \log 2 + \tfrac12 z + \tfrac18 z^2 - z y .

The labels enter through $\sum_i h_{\pi i} y_{ik}$ alone, to which the noise $\chi_3$ is added. Benign examples and
adversarial ones, of weight $\xi$, make

.. math::

    L(\theta_2) = \frac{1}{m(1 + \xi)} \Bigl[\sum_{i \in B} \mathcal L_i + \xi \sum_{j \in B^{adv}} \Upsilon_j\Bigr]
    - \Bigl\langle \frac{\chi_3}{m}, W_\pi \Bigr\rangle .
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from dpml import arguments

__all__ = ["adversarial_objective", "autoencoder_gradient", "autoencoder_objective", "taylor_loss"]


def autoencoder_objective(theta: Tensor, *, x: Tensor, h: Tensor) -> Tensor:
    """Return the objective of noisy examples x [B, d] and their noisy hidden layers h [B, beta]; theta is [d, beta].

    Source: StoBatch (Phan et al., ICML 2020), equation (6).
    """
    decoded = h @ theta.T
    return (0.5 * decoded - x * decoded).sum()


def autoencoder_gradient(x: Tensor, *, h: Tensor) -> Tensor:
    """Return the gradient of `autoencoder_objective` in theta, [d, beta], the hidden layers taken as they are.

    Source: StoBatch (Phan et al., ICML 2020), section 3.1, the gradient before Theorem 1.
    """
    return (0.5 - x).T @ h


def taylor_loss(scores: Tensor, y: Tensor) -> Tensor:
    r"""Return the loss of each example, [B], from scores [B, K] and labels [B].

    The sum over classes of $\log 2 + z/2 + z^2/8 - z y$. It differs from $\log(1 + e^z) - z y$ by at most
    $z^4/192$.

    Source: StoBatch (Phan et al., ICML 2020), section 3.2, "approximated as"; the remainder is Taylor's theorem for
    $\log(2\cosh(z/2))$.

    Printed: $z - z y - |z|/2 + z^2/8$. At $z = -1$, $y = 0$ that is $-1.375$, and the loss would be negative.

    Implemented: $\max(z, 0) - |z|/2 = z/2$ in place of $z - |z|/2$ (the two differ by $\min(z, 0)$), and the constant
    $\log 2$. At $z = -1$, $y = 0$ that is 0.318, where $\log(1 + e^{-1})$ is 0.313.

    Counterexample: both forms at z = -1, y = 0, and the logistic loss.

    >>> import math
    >>> import torch
    >>> from dpml.certified.stobatch import objective
    >>> z, y = -1.0, 0.0
    >>> z - z * y - abs(z) / 2 + z * z / 8
    -1.375
    >>> two = objective.taylor_loss(torch.tensor([[z, 0.0]]), torch.tensor([1]))
    >>> round(float(two) - math.log(2), 3), round(math.log1p(math.exp(z)), 3)
    (0.318, 0.313)
    """
    classes = scores.shape[1]
    per_class = 0.5 * scores + scores.square() / 8.0
    of_label: Tensor = (scores * functional.one_hot(y, classes)).sum(1)
    return per_class.sum(1) - of_label + classes * math.log(2.0)


def adversarial_objective(
    benign: Tensor, *, adversarial: Tensor, xi: float, coefficients: Tensor, weights: Tensor
) -> Tensor:
    r"""Return the objective from the losses of m benign and as many adversarial examples.

    `coefficients` is $\chi_3/m$ and `weights` $W_\pi$, both [hidden, classes].

    Raises:
        ValueError: if xi is not in [0, inf).

    Source: StoBatch (Phan et al., ICML 2020), equation (9), with the noise after Lemma 4 in both losses.
    """
    xi = arguments.real("xi", xi, 0.0)
    mean: Tensor = (benign.sum() + xi * adversarial.sum()) / (len(benign) * (1.0 + xi))
    return mean - torch.sum(coefficients * weights)
