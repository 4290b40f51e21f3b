r"""What a trained network and a gradient betray: canaries in one run and many, membership, an image from an update.

| attack | what it needs | function |
|---|---|---|
| canaries | one training run, with canaries in the data | `dirac_audit` |
| a canary | many training runs, half of them with the canary | `many_runs_audit` |
| membership, by loss | the trained network | `true_class_margins`, then a threshold |
| membership, by likelihood ratio | and networks of the attacker's own | `shadow_runs`, `likelihood_ratios` |
| gradient leakage | the update of one example | `input_from_gradient` |

**Canaries.** A Dirac canary is a record whose gradient is the clip norm at one coordinate and 0 at all others. Its
place should be one that no other record moves: then its effect on the updates is exactly that of the worst case for
which an accountant computes. Each of m canaries is in the data by a fair coin, the model is trained once, and the
score of a canary is how far its coordinate went down. Steinke, Nasr and Jagielski turn the guesses into a bound
(`dpml.audit.one_run`), which is for add/remove neighbours. Its chance of a false alarm is 1 - confidence, whatever the
places, scores and number of guesses are, provided that they were fixed before the coins fell.

The canaries change the number of records. So the divisor of the training must not be computed from it, and a sampler
without an `expected_batch` is refused: it would be another mechanism for each outcome of the coins.

**Many runs.** Train K networks with a canary among the records and K without it, all from the same start, each with
its own coins and noise. How far a network went along the canary's gradient at the start, and the loss that it has on
the canary, are two scores with one value for each run, and `dpml.audit.samples` makes a bound of either. Both are
looked at, so each gets half of the false alarms that are allowed.

**Membership.** The margin of an example is $z_y - \log\sum_{j \ne y} e^{z_j}$ for outputs z, the logarithm of the odds
of its true class: large where the network is sure and right. An attacker who trains K shadow models on random halves
sees how it is distributed with the example (mean $\mu_1$) and without ($\mu_0$), takes both for normal with one
variance, and scores the example by $\log N(t; \mu_1, v) - \log N(t; \mu_0, v)$ at the margin t under attack.

**An image from a gradient.** For one example the weights of a linear layer have the gradient $g a^\top$ and its bias
g, with a the input of the layer. So each row of the one over its entry of the other is the input, exactly. A weight of
the clipping multiplies both and drops out: clipping hides nothing, only the noise does.

Sources: T. Steinke, M. Nasr and M. Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023; S. Yeom,
I. Giacomelli, M. Fredrikson and S. Jha, "Privacy risk in machine learning", CSF 2018; N. Carlini et al., "Membership
inference attacks from first principles", IEEE S&P 2022; L. Phong et al., "Privacy-preserving deep learning via
additively homomorphic encryption", IEEE TIFS 13 (2018).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from dpml import arguments
from dpml.accounting.guarantee import Guarantee
from dpml.audit.one_run import OneRunEvidence, one_run_lower_bound, right_guesses
from dpml.audit.samples import Evidence, epsilon_lower_bound_from_scores
from dpml.training import _checks, stacked
from dpml.training._checks import LossFunction
from dpml.training._numbers import labels, record_numbers
from dpml.training.corruption import SentGradients
from dpml.training.loop import train
from dpml.training.mechanism import Mechanism
from dpml.training.per_example import PerExample, begin
from dpml.training.sampling import FixedSize, Sampler, cpu_generator
from dpml.training.stacked_networks import Stack, StackedPerExample, flat_examples, stack
from dpml.training.trace import Run

__all__ = ["CanaryAudit", "RunsAudit", "ShadowRuns", "dirac_audit", "dirac_canaries"]
__all__ += ["input_from_gradient", "likelihood_ratios", "many_runs_audit", "shadow_runs", "true_class_margins"]


class CanaryAudit(NamedTuple):
    """An audited run, what it proves, and for each canary its coin (`included`) and its score, [m] each.

    Source: Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023.
    """

    run: Run
    evidence: OneRunEvidence
    included: Tensor
    scores: Tensor


class ShadowRuns(NamedTuple):
    """K networks, and which of the n records each was trained on: `included` [K, n], booleans.

    Source: Carlini et al., "Membership inference attacks from first principles", IEEE S&P 2022.
    """

    stack: Stack
    included: Tensor


class RunsAudit(NamedTuple):
    """What 2K runs prove, whose claim they test, and the scores of both kinds, [2, K] with the canary and without.

    The first kind is the way along the canary's gradient, the second minus the loss on it. `evidence` is the better of
    the two, and holds with its `confidence` although both were looked at.

    Source: Jagielski, Ullman and Oprea, "Auditing differentially private machine learning", NeurIPS 2020.
    """

    guarantee: Guarantee
    evidence: Evidence
    scores: Tensor
    scores_without: Tensor


def dirac_canaries(
    ids: Tensor, *, n: int, places: Tensor, clip_norm: float
) -> Callable[[PerExample, Tensor], SentGradients]:
    """Return the `corrupt` of the trainer under which example ``ids[i]`` of n sends `clip_norm` at ``places[i]`` alone.

    Places count the trained parameters, one after another. What is sent is weighed by the mechanism like any gradient.

    Raises:
        ValueError: if ids is not an int64 tensor of different numbers in [0, n), places not as many numbers >= 0, or
            clip_norm not in [1e-16, 1e16].

    Source: Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023, section 6.
    """
    n = arguments.integer("n", n, 1)
    ids, places = record_numbers("ids", ids, n), record_numbers("places", places, 2**62)
    if len(ids) != len(places):
        raise ValueError(f"places must be as many as the {len(ids)} ids, got {len(places)}")
    clip_norm = arguments.real("clip_norm", clip_norm, 1e-16, 1e16)
    place_of = torch.full((n,), -1, dtype=torch.int64)
    place_of[ids] = places

    def corrupt(chunk: PerExample, some: Tensor) -> SentGradients:
        here = place_of[some.cpu()].to(chunk.norms.device)
        rows = (here >= 0).nonzero().squeeze(1)

        def total(weights: Tensor) -> dict[str, Tensor]:
            sums = chunk.sum(weights.index_fill(0, rows, 0.0))
            flat = torch.cat([part.reshape(-1) for part in sums.values()])
            flat.index_add_(0, here[rows], weights[rows].to(flat) * clip_norm)
            pieces = torch.split(flat, [part.numel() for part in sums.values()])
            return {name: piece.view_as(sums[name]) for name, piece in zip(sums, pieces, strict=True)}

        return SentGradients(chunk.losses, chunk.norms.index_fill(0, rows, clip_norm), total)

    return corrupt


def dirac_audit(
    model: nn.Module,
    loss_fn: LossFunction,
    x: Tensor,
    y: Tensor,
    *,
    mechanism: Mechanism,
    sampling: Sampler,
    steps: int,
    learning_rate: float,
    delta: float,
    places: Tensor,
    clip_norm: float,
    guesses: int,
    confidence: float,
    generator: torch.Generator,
) -> CanaryAudit:
    """Train a copy of `model` on x and y with canaries by fair coins among them, and say what epsilon is at least.

    One canary for each entry of `places` (see `dirac_canaries`); `guesses` of them are guessed, half "in" and half
    "out". The score is the sum of all updates at the place, with plain SGD of this learning rate: what one sees of the
    whole run. The bound is wrong with probability at most 1 - confidence. Neighbours: add/remove.

    Raises:
        ValueError: if sampling is `FixedSize` or has no `expected_batch`, places are not different numbers of trained
            parameters, guesses not an integer in [0, canaries], confidence not in (0, 1), learning_rate not in
            [1e-16, 1e16]; otherwise as `dpml.training.loop.train`.

    Source: Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023, Algorithm 1.
    """
    _fixed_divisor(sampling)
    audited = copy.deepcopy(model)
    numbers = sum(p.numel() for p in _checks.trained_parameters(audited).values())
    places = record_numbers("places", places, numbers)
    guesses = arguments.integer("guesses", guesses, 0, len(places))
    confidence = arguments.real("confidence", confidence, 0.0, 1.0, low_open=True, high_open=True)
    learning_rate = arguments.real("learning_rate", learning_rate, 1e-16, 1e16)
    _checks.examples(x, y)
    included = torch.rand(len(places), generator=cpu_generator(generator)) < 0.5
    put, n = int(included.sum()), len(x)
    ids = torch.arange(n, n + put)
    parameters = [p for p in audited.parameters() if p.requires_grad]
    before = parameters_to_vector(parameters).detach().clone()
    run = train(
        audited,
        loss_fn,
        torch.cat([x, x[:1].expand(put, *x.shape[1:])]),
        torch.cat([y, y[:1].expand(put, *y.shape[1:])]),
        mechanism=mechanism,
        sampling=sampling,
        steps=steps,
        optimizer=torch.optim.SGD(parameters, lr=learning_rate),
        delta=delta,
        generator=generator,
        corrupt=dirac_canaries(ids, n=n + put, places=places[included], clip_norm=clip_norm),
    )
    scores = (before - parameters_to_vector(parameters).detach())[places.to(before.device)].cpu()
    coins = included.numpy().astype(int)
    evidence = one_run_lower_bound(
        correct=right_guesses(scores.double().numpy(), included=coins, guesses=guesses),
        guesses=guesses,
        canaries=len(places),
        delta=delta,
        confidence=confidence,
    )
    return CanaryAudit(run, evidence, included, scores)


def many_runs_audit(
    model: nn.Sequential,
    loss_fn: LossFunction,
    x: Tensor,
    y: Tensor,
    *,
    sampling: Sampler,
    generators: Sequence[torch.Generator],
    confidence: float,
    rng: np.random.Generator,
    **how: Any,
) -> RunsAudit:
    """Train copies of `model` on x and y, half of them without the last record, and say what epsilon is at least.

    The last record is the canary: the sharper its gradient at the start differs from those of the others, and the
    nearer its length comes to the clip norm, the more is seen. `generators` are 2K, one for each run, which train at
    once; `how` are the other arguments of `dpml.training.stacked.train`: mechanism, steps, optimizer, delta. The bound
    is wrong with probability at most 1 - confidence: each of the two scores is judged at (1 + confidence)/2, its
    threshold chosen on runs of its own, which `rng` splits off. Neighbours: add/remove.

    Raises:
        ValueError: if sampling is `FixedSize` or has no `expected_batch`, x has less than two records, generators are
            not an even number of at least four, confidence not in (0, 1), or the gradient of the canary is 0 or not
            finite; otherwise as `dpml.training.stacked.train`.

    Source: M. Jagielski, J. Ullman and A. Oprea, "Auditing differentially private machine learning", NeurIPS 2020;
    M. Nasr et al., "Tight auditing of differentially private machine learning", USENIX Security 2023.
    """
    _fixed_divisor(sampling)
    _checks.examples(x, y)
    if len(x) < 2:
        raise ValueError(f"x must be two records at least, the last one the canary, got {len(x)}")
    if not isinstance(generators, list | tuple) or len(generators) < 4 or len(generators) % 2:
        arguments.refuse("generators", "an even number of them, at least 4, half for the canary", generators)
    confidence = arguments.real("confidence", confidence, 0.0, 1.0, low_open=True, high_open=True)
    rng = arguments.generator("rng", rng)
    start = stack([model])
    begin(model, loss_fn, x, y, ids=torch.arange(2), device=start.parameters.device)
    first = StackedPerExample(start, loss_fn, flat_examples(x[-1:], start)[None], y[-1:][None])
    gradient = first.sum(torch.ones_like(first.losses))[0]
    if not bool(gradient.isfinite().all() and gradient.any()):
        raise ValueError("x must end with a canary whose gradient is finite and not 0, got another")
    runs, everyone = len(generators) // 2, torch.arange(len(x))
    run = stacked.train(
        stack([model] * (2 * runs)),
        loss_fn,
        x,
        y,
        sampling=sampling,
        generators=generators,
        shards=[everyone] * runs + [everyone[:-1]] * runs,
        **how,
    )
    if bool((run.diverged > 0).any()):
        raise ValueError(f"optimizer must not let a run diverge, got {int((run.diverged > 0).sum())} that did")
    after = run.stack.parameters
    last = StackedPerExample(run.stack, loss_fn, flat_examples(x[-1:], start), y[-1:].expand(2 * runs, 1))
    scores = torch.stack([(start.parameters - after) @ (gradient / gradient.norm()), -last.losses[:, 0]]).double().cpu()
    with_it, without = scores[:, :runs], scores[:, runs:]
    delta = run.guarantees[0].delta
    found = [
        epsilon_lower_bound_from_scores(
            one.numpy(), scores_neighbour=other.numpy(), delta=delta, confidence=(1.0 + confidence) / 2.0, rng=rng
        )
        for one, other in zip(with_it, without, strict=True)
    ]
    best = max(found, key=lambda one: one.epsilon_at_least)
    return RunsAudit(run.guarantees[0], best._replace(confidence=confidence), with_it, without)


def shadow_runs(
    networks: Stack, loss_fn: LossFunction, x: Tensor, y: Tensor, *, generators: Sequence[torch.Generator], **how: Any
) -> ShadowRuns:
    """Train K networks at once, each on the records that its own fair coins chose, and say which these were.

    `generators` are K, for coins, batches and noise; `how` are the other arguments of `dpml.training.stacked.train`:
    mechanism, sampling, steps, optimizer, delta.

    Raises:
        ValueError: as `dpml.training.stacked.train`, and if generators is no list, or some network got no record.

    Source: Carlini et al., "Membership inference attacks from first principles", IEEE S&P 2022, Algorithm 1.
    """
    _checks.examples(x, y)
    if not isinstance(generators, list | tuple) or not generators:
        arguments.refuse("generators", "a list of torch.Generator, one for each network", generators)
    included = torch.stack([torch.rand(len(x), generator=cpu_generator(one)) < 0.5 for one in generators])
    if not bool(included.any(1).all()):
        raise ValueError(f"x must have records for every one of the {len(included)} networks, got {len(x)} in all")
    shards = [row.nonzero().squeeze(1) for row in included]
    run = stacked.train(networks, loss_fn, x, y, generators=generators, shards=shards, **how)
    return ShadowRuns(run.stack, included)


@torch.no_grad()
def true_class_margins(outputs: Tensor, y: Tensor) -> Tensor:
    """Return the logarithm of the odds of the true class, for outputs (..., N, classes) and labels (N,): (..., N).

    Large for examples that the network is sure of. With two classes it is the difference of the outputs; the
    cross-entropy loss is log(1 + e^-margin), so a threshold on the one is a threshold on the other.

    Raises:
        ValueError: if outputs is not a finite floating tensor of two classes at least, y not as many labels, or a
            margin is beyond the floats of that type.

    Source: Carlini et al., "Membership inference attacks from first principles", IEEE S&P 2022, section 5.
    """
    if not isinstance(outputs, Tensor) or not outputs.is_floating_point() or outputs.dim() < 2 or outputs.size(-1) < 2:
        arguments.refuse("outputs", "a floating tensor (..., N, classes >= 2)", outputs)
    if not bool(outputs.isfinite().all()):
        raise ValueError("outputs must be finite, got an element that is not")
    labels("y", y, outputs.size(-2), classes=outputs.size(-1))
    at = y.expand(outputs.shape[:-1])[..., None]
    margins = (outputs.gather(-1, at) - outputs.scatter(-1, at, -math.inf).logsumexp(-1, keepdim=True)).squeeze(-1)
    if not bool(margins.isfinite().all()):
        raise ValueError(f"outputs must differ by at most the largest {outputs.dtype}, got more")
    return margins


def likelihood_ratios(margins: Tensor, *, included: Tensor, target: int) -> Tensor:
    """Return a score for each of n examples: how much likelier the target's margin is with the example than without.

    `margins` and `included` are [K, n], of K networks (`true_class_margins`, `shadow_runs`); network `target` is under
    attack, and the other K - 1 are the attacker's. One variance for all examples and both cases: few networks cannot
    tell more. Where an example is in all or in none of the other networks the score is 0.

    Raises:
        ValueError: if margins is not a finite floating tensor of at least four networks, included not booleans of its
            shape, target not an integer in [0, K), all margins of an example the same, or some beyond +-1e150.

    Source: Carlini et al., "Membership inference attacks from first principles", IEEE S&P 2022, Algorithm 1, with one
    variance.
    """
    if not isinstance(margins, Tensor) or not margins.is_floating_point() or margins.dim() != 2 or len(margins) < 4:
        arguments.refuse("margins", "a floating tensor [K >= 4, n]", margins)
    if not bool((margins.abs() <= 1e150).all()):
        raise ValueError("margins must be in [-1e150, 1e150], got an element that is not")
    if not isinstance(included, Tensor) or included.dtype != torch.bool or included.shape != margins.shape:
        arguments.refuse("included", f"booleans of shape {tuple(margins.shape)}", included)
    target = arguments.integer("target", target, 0, len(margins) - 1)
    others = torch.arange(len(margins)) != target
    seen, here = margins[others].double(), included[others]
    counts = torch.stack([here.sum(0), (~here).sum(0)])
    means = torch.stack([(seen * here).sum(0), (seen * ~here).sum(0)]) / counts.clamp(min=1)
    rest = (seen - torch.where(here, means[0], means[1])).square()
    freedom = int((counts - 1).clamp(min=0).sum())
    variance = float(rest.sum()) / max(freedom, 1)
    if not variance > 0.0:
        raise ValueError("margins must differ between the networks that an example is in, got no difference")
    middle, apart = means.mean(0), means[0] - means[1]
    scores: Tensor = apart * (margins[target].double() - middle) / variance
    return torch.where((counts > 0).all(0), scores, 0.0)


def input_from_gradient(weight: Tensor, *, bias: Tensor) -> Tensor:
    r"""Return the input of a linear layer from the gradients of its weights [out, in] and bias [out], of one example.

    .. math:: a = \frac{\sum_j b_j W_j}{\sum_j b_j^2}

    over the rows, which is exact if nothing was added, and the least-squares estimate under noise. Of a sum over a
    batch it gives a mixture of the inputs.

    Raises:
        ValueError: if weight is not a finite floating tensor [out, in], bias not one [out] of the same type, bias is 0,
            or the input is beyond the floats of that type.

    Source: Phong et al., "Privacy-preserving deep learning via additively homomorphic encryption", IEEE TIFS 13 (2018),
    section 3.
    """
    for name, value, dims in (("weight", weight, 2), ("bias", bias, 1)):
        good = isinstance(value, Tensor) and value.is_floating_point() and value.dim() == dims
        if not good or not bool(value.isfinite().all()):
            arguments.refuse(name, f"a finite floating tensor of {dims} dimensions", value)
    if bias.dtype != weight.dtype or len(bias) != len(weight) or not bool((bias != 0).any()):
        arguments.refuse("bias", f"{len(weight)} numbers of {weight.dtype}, one of them not 0", bias)
    largest = bias.abs().max()  # gradients may be too small to be squared
    unit = bias / largest
    found: Tensor = (unit / unit.square().sum()) @ (weight / largest)
    if not bool(found.isfinite().all()):
        arguments.refuse("weight", f"at most the largest {weight.dtype} times bias", weight)
    return found


def _fixed_divisor(sampling: Any) -> None:
    if isinstance(sampling, FixedSize) or getattr(sampling, "expected_batch", None) is None:
        arguments.refuse("sampling", "Poisson or FullBatch with an expected_batch", sampling)
