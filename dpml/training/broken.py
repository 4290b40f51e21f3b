r"""The update as the lecture's slide prints it, taken apart: three mistakes, each of which an audit catches.

The slide "DP-SGD" prints

.. math::

    g_t \leftarrow \nabla L(\theta_t; D_t), \qquad \tilde g_t \leftarrow \min\{C,\ g_t/\|g_t\|_2\}, \qquad
    \theta_{t+1} \leftarrow \theta_t - \eta\,\tilde g_t + N(0, \sigma^2 I_p).

Read as printed, (1) the minimum is taken coordinate by coordinate, of a gradient that was scaled to norm 1; (2) what is
clipped is the gradient of the whole batch; (3) the noise is added after the learning rate. A slide is a sketch, and the
lecture's text says what is meant: "sensitivity of the gradient is deliberately bounded by clipping".

**None of these functions is private as its arguments promise.** They are here to be audited. Each changes one point of
`dpml.training.dpsgd.update` and leaves the others right, and takes the same arguments.
"""

from __future__ import annotations

import torch

from dpml.training.dpsgd import check_update

__all__ = ["update_clipping_each_coordinate", "update_clipping_the_mean", "update_noise_outside_learning_rate"]


def update_clipping_each_coordinate(
    parameters: torch.Tensor,
    *,
    gradients: torch.Tensor,
    sigma: float,
    clip_norm: float,
    learning_rate: float,
    expected_batch: float,
    generator: torch.Generator,
) -> torch.Tensor:
    r"""Return the parameters after a step that "clips" by $\min\{C, g/\|g\|\}$, coordinate by coordinate. Not private.

    Shapes as in `dpml.training.dpsgd.update`. A zero gradient stays zero here; as printed it is 0/0.

    Raises:
        ValueError: if the shapes do not fit, or a number is outside its range.

    Source: the lecture, slide "DP-SGD", second line of the algorithm.

    Printed: $\tilde g \leftarrow \min\{C, g/\|g\|_2\}$. The minimum does not act on negative coordinates: $g = (-5, 0)$
    at $C = 0.1$ gives $(-1, 0)$, of norm 10 C, so that noise of standard deviation $\sigma C$ is ten times too small.
    For $C \ge 1$ it never acts at all, and $g = (0.003, 0.004)$ is blown up to norm 1.

    Implemented: $g \min\{1, C/\|g\|_2\}$ in `dpml.training.dpsgd.update`, of norm at most C, in the direction of g:
    $(-0.1, 0)$ in the first case, and g itself in the second. This function keeps the printed rule, for the audit.

    Counterexample: the gradient (-5, 0) at C = 0.1, without noise: where a step from (0, 0) ends.

    >>> import torch
    >>> from dpml.training import broken, dpsgd
    >>> rows = {
    ...     "gradients": torch.tensor([[-5.0, 0.0]]),
    ...     "generator": torch.Generator(),
    ... }
    >>> rates = {
    ...     "sigma": 0.0,
    ...     "clip_norm": 0.1,
    ...     "learning_rate": 1.0,
    ...     "expected_batch": 1.0,
    ... }
    >>> for step in (broken.update_clipping_each_coordinate, dpsgd.update):
    ...     print(
    ...         [
    ...             round(x, 6)
    ...             for x in step(torch.zeros(2), **rows, **rates).tolist()
    ...         ]
    ...     )
    [1.0, 0.0]
    [0.1, 0.0]
    """
    check_update(parameters, gradients, sigma, clip_norm, learning_rate, expected_batch)
    norms = gradients.norm(dim=-1, keepdim=True)
    unit = torch.where(norms > 0.0, gradients / norms, 0.0)
    total = unit.clamp(max=clip_norm).sum(-2)
    noise = sigma * clip_norm * _normal(total, generator)
    after: torch.Tensor = parameters - learning_rate * (total + noise) / expected_batch
    return after


def update_clipping_the_mean(
    parameters: torch.Tensor,
    *,
    gradients: torch.Tensor,
    sigma: float,
    clip_norm: float,
    learning_rate: float,
    expected_batch: float,
    generator: torch.Generator,
) -> torch.Tensor:
    r"""Return the parameters after a step that clips the mean gradient of the batch, once. Not private as promised.

    Shapes as in `dpml.training.dpsgd.update`. The noise is that of the right update, $\sigma C/B$ on the mean.

    Raises:
        ValueError: if the shapes do not fit, or a number is outside its range.

    Source: the lecture, slide "DP-SGD", first two lines of the algorithm.

    Printed: $g_t \leftarrow \nabla L(\theta_t; D_t)$ is the gradient of the batch, and it is $g_t$ that is clipped.
    With 99 zero gradients and one of $\pm 1000\,e_1$, the clipped means are $\pm C e_1$: one record moves the result by
    up to 2 C, and by C when it is removed, however large the batch.

    Implemented: each example's gradient is clipped, then the mean is taken: the same two datasets are 2 C/100 apart
    (C/100 when the record is removed), which noise of $\sigma C/100$ hides. See `dpml.training.dpsgd.update`; this
    function keeps the printed order, for the audit.

    Counterexample: 99 zero gradients and one of 1000 or -1000: how far apart the two results are.

    >>> import torch
    >>> from dpml.training import broken, dpsgd
    >>> rates = {
    ...     "sigma": 0.0,
    ...     "clip_norm": 1.0,
    ...     "learning_rate": 1.0,
    ...     "expected_batch": 100.0,
    ... }
    >>> rows = torch.zeros(2, 100, 1)
    >>> rows[:, 0, 0] = torch.tensor([1000.0, -1000.0])
    >>> for step in (broken.update_clipping_the_mean, dpsgd.update):
    ...     ends = step(
    ...         torch.zeros(2, 1),
    ...         gradients=rows,
    ...         generator=torch.Generator(),
    ...         **rates,
    ...     )
    ...     print(round(float(ends[1, 0] - ends[0, 0]), 6))
    2.0
    0.02
    """
    check_update(parameters, gradients, sigma, clip_norm, learning_rate, expected_batch)
    mean = gradients.sum(-2) / expected_batch
    clipped = mean * (clip_norm / mean.norm(dim=-1, keepdim=True).clamp(min=clip_norm))
    noise = sigma * clip_norm / expected_batch * _normal(mean, generator)
    after: torch.Tensor = parameters - learning_rate * (clipped + noise)
    return after


def update_noise_outside_learning_rate(
    parameters: torch.Tensor,
    *,
    gradients: torch.Tensor,
    sigma: float,
    clip_norm: float,
    learning_rate: float,
    expected_batch: float,
    generator: torch.Generator,
) -> torch.Tensor:
    r"""Return the parameters after a step whose noise is added after the learning rate. Private as promised only at 1.

    Shapes as in `dpml.training.dpsgd.update`. The noise has standard deviation $\sigma C/B$ in the parameters.

    Raises:
        ValueError: if the shapes do not fit, or a number is outside its range.

    Source: the lecture, slide "DP-SGD", third line of the algorithm.

    Printed: $\theta_{t+1} \leftarrow \theta_t - \eta\,\tilde g_t + N(0, \sigma^2 I_p)$. One record moves $\theta$ by
    $\eta C/B$ and the noise does not grow with $\eta$, so the noise multiplier is $\sigma/\eta$: for $\sigma = 4$,
    $C = 1$ and one step on all records at $\eta = 10$ it is 0.4, and epsilon at $\delta = 10^{-5}$ is 13.2067, where
    $\sigma = 4$ promises 0.926342.

    Implemented: the noise is added to the sum of clipped gradients and goes through the learning rate with it, in
    `dpml.training.dpsgd.update`; epsilon then does not depend on $\eta$. This function keeps the printed place, for the
    audit.

    Counterexample: with one and the same noise of deviation 4 a record moves the step by eta = 10; the epsilon of that.

    >>> import torch
    >>> from dpml import mechanisms
    >>> from dpml.training import broken
    >>> rates = {
    ...     "sigma": 4.0,
    ...     "clip_norm": 1.0,
    ...     "learning_rate": 10.0,
    ...     "expected_batch": 1.0,
    ... }
    >>> ends = []
    >>> for g in (0.0, -1.0):
    ...     rows = {
    ...         "gradients": torch.tensor([[g]]),
    ...         "generator": torch.Generator().manual_seed(0),
    ...     }
    ...     ends.append(
    ...         float(
    ...             broken.update_noise_outside_learning_rate(
    ...                 torch.zeros(1), **rows, **rates
    ...             )[0]
    ...         )
    ...     )
    >>> round(ends[1] - ends[0], 4)
    10.0
    >>> [
    ...     round(mechanisms.gaussian_epsilon(sigma=4.0 / move, delta=1e-5), 4)
    ...     for move in (10.0, 1.0)
    ... ]
    [13.2067, 0.9263]
    """
    check_update(parameters, gradients, sigma, clip_norm, learning_rate, expected_batch)
    norms = gradients.norm(dim=-1, keepdim=True)
    total = (gradients * (clip_norm / norms.clamp(min=clip_norm))).sum(-2)
    noise = sigma * clip_norm / expected_batch * _normal(total, generator)
    after: torch.Tensor = parameters - learning_rate * total / expected_batch + noise
    return after


def _normal(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(like.shape, generator=generator, dtype=like.dtype, device=like.device)
