r"""The command line, for those who only want the number::

    python -m dpml epsilon --sampling-rate 0.01 --noise-multiplier 4
                           --steps 10000 --delta 1e-5
    python -m dpml noise   --sampling-rate 0.01 --epsilon 1
                           --steps 10000 --delta 1e-5

(each on one line). ``epsilon`` says what a DP-SGD run costs, ``noise`` which noise a target asks for. Every number
comes with what it is, which datasets are neighbours and how records must be drawn; only the upper end of a bracket
is a promise.

| option | meaning |
|---|---|
| ``--sampling-rate`` | probability that a record is in a batch |
| ``--batch-size``, ``--dataset-size`` | in its place: their quotient is the sampling rate |
| ``--noise-multiplier`` | standard deviation of the noise over the clipping norm |
| ``--steps`` | number of noisy updates (of logical batches, where gradients are accumulated) |
| ``--sampling`` | ``poisson`` (neighbours: add/remove) or ``fixed-size`` (replace-one) |
| ``--dataset-size`` | if known, delta is compared with 1/n |
| ``--json`` | the same for a program to read; an infinite number is the text "infinity" |

The exit status is 0, or 2 with one sentence on the standard error stream.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    from dpml.accounting import Bounds

__all__ = ["main"]


class _Scheme(NamedTuple):
    """What a way to draw batches means for the number, and the functions that account for it."""

    neighbours: str
    records: str
    not_covered: str


_SCHEMES = {
    "poisson": _Scheme(
        "add/remove: datasets that differ by one record added or removed",
        "Poisson: each record joins each batch independently with probability {q:g}",
        "A loader that shuffles and cuts batches of fixed size is not covered.",
    ),
    "fixed-size": _Scheme(
        "replace-one: datasets of the same size that differ in one record, which moves the sum by two clipping norms",
        "fixed size: each batch is a new uniformly random set of {q:g} of the records, without replacement",
        "A loader that cuts one shuffle of an epoch into batches is not covered.",
    ),
}
_OPTIONS = {
    "q": "--sampling-rate",
    "sigma": "--noise-multiplier",
    "steps": "--steps",
    "epsilon": "--epsilon",
    "delta": "--delta",
}


class _Parser(argparse.ArgumentParser):
    """Raises in place of printing a usage text and leaving."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line with these words (by default those of the process) and return its exit status.

    Prints the answer; an error becomes one sentence on the standard error stream and status 2.
    """
    try:
        options = _parser().parse_args(words)
        answer = _COMMANDS[options.command](options)
    except ValueError as error:
        print(f"dpml: {_in_options(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("dpml: interrupted before there was a result", file=sys.stderr)
        return 130
    if options.json:
        print(json.dumps(_finite(answer), indent=2, ensure_ascii=False))
    else:
        print("\n".join(_text(answer)))
        for warning in answer["warnings"]:
            print(f"Warning: {warning}", file=sys.stderr)
    return 0


def _parser() -> _Parser:
    parser = _Parser(
        prog="python -m dpml",
        description="Privacy of DP-SGD: Gaussian noise on sums of clipped gradients of random batches.",
        epilog="Example: python -m dpml epsilon --sampling-rate 0.01 --noise-multiplier 4 --steps 10000 --delta 1e-5",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="epsilon|noise")
    epsilon = commands.add_parser("epsilon", help="what a run costs: epsilon at this delta", allow_abbrev=False)
    noise = commands.add_parser("noise", help="the least noise that keeps to a target", allow_abbrev=False)
    epsilon.add_argument(
        "--noise-multiplier", type=_number, required=True, metavar="SIGMA", help="noise deviation over clipping norm"
    )
    noise.add_argument("--epsilon", type=_number, required=True, metavar="EPSILON", help="the target, above 0")
    for command in (epsilon, noise):
        command.add_argument("--steps", type=_count, required=True, metavar="T", help="number of noisy updates")
        command.add_argument("--delta", type=_number, required=True, metavar="DELTA", help="well below 1 / records")
        command.add_argument("--sampling-rate", type=_number, metavar="Q", help="probability of a record per batch")
        command.add_argument("--batch-size", type=_count, metavar="B", help="with --dataset-size: Q = B / N")
        command.add_argument("--dataset-size", type=_count, metavar="N", help="number of records, to judge delta by")
        command.add_argument("--sampling", choices=sorted(_SCHEMES), default="poisson", help="how batches are drawn")
        command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}") from None


def _count(text: str) -> int:
    """A whole number, which may be written 1e4."""
    try:
        return int(text)
    except ValueError:
        value = _number(text)
    if not value.is_integer():
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text!r}")
    return int(value)


def _epsilon(options: argparse.Namespace) -> dict[str, Any]:
    from dpml import arguments

    q, steps, delta = _common(options)
    sigma = arguments.real("--noise-multiplier", options.noise_multiplier, 0.0)
    return _answer(options, q, sigma, steps, delta)


def _noise(options: argparse.Namespace) -> dict[str, Any]:
    from dpml import arguments

    q, steps, delta = _common(options)
    target = arguments.real("--epsilon", options.epsilon, 0.0, low_open=True)
    from dpml.accounting import pld
    from dpml.accounting.pld import fixed_size

    least = pld.noise_multiplier if options.sampling == "poisson" else fixed_size.noise_multiplier
    # Printed with six digits, which are rounded up: the noise that a reader copies is enough.
    sigma = float(_up(least(q=q, steps=steps, epsilon=target, delta=delta)))
    return {**_answer(options, q, sigma, steps, delta), "target_epsilon": target}


_COMMANDS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {"epsilon": _epsilon, "noise": _noise}


def _common(options: argparse.Namespace) -> tuple[float, int, float]:
    """The sampling rate, the steps and delta, each checked under the name that the user typed."""
    from dpml import arguments

    if options.dataset_size is not None:
        arguments.integer("--dataset-size", options.dataset_size, 1)
    if options.batch_size is not None and options.sampling_rate is not None:
        raise ValueError("give --sampling-rate or --batch-size, not both")
    if options.batch_size is not None:
        if options.dataset_size is None:
            raise ValueError("--batch-size needs --dataset-size: the sampling rate is their quotient")
        if options.batch_size > options.dataset_size:
            raise ValueError(
                f"--batch-size must be at most --dataset-size, got {options.batch_size} and {options.dataset_size}: "
                "the sampling rate is their quotient and cannot exceed 1"
            )
        q = arguments.integer("--batch-size", options.batch_size, 0) / options.dataset_size
    elif options.sampling_rate is not None:
        q = arguments.probability("--sampling-rate", options.sampling_rate)
    else:
        raise ValueError("--sampling-rate is missing (or --batch-size with --dataset-size)")
    return q, arguments.integer("--steps", options.steps, 0), arguments.probability("--delta", options.delta)


def _answer(options: argparse.Namespace, q: float, sigma: float, steps: int, delta: float) -> dict[str, Any]:
    """Everything that is said about a run, under the keys of the JSON form."""
    import dpml

    bounds, renyi = _account(options.sampling, q, sigma, steps, delta)
    warnings, remarks = _judge(delta, options.dataset_size)
    return {
        "command": options.command,
        "epsilon": {"lower": bounds.lower, "upper": bounds.upper, "quote": "upper"},
        "delta": delta,
        "kind": bounds.guarantee().kind,
        "adjacency": bounds.adjacency,
        "sampling": bounds.sampling,
        "sampling_rate": q,
        "noise_multiplier": sigma,
        "steps": steps,
        "dataset_size": options.dataset_size,
        "renyi": renyi,
        "assumes": _SCHEMES[options.sampling].not_covered,
        "warnings": warnings,
        "remarks": remarks,
        "dpml": dpml.__version__,
    }


def _account(
    sampling: str, q: float, sigma: float, steps: int, delta: float
) -> tuple[Bounds, dict[str, str | float | None] | None]:
    """The bracket, and for Poisson sampling what the Rényi accountant says."""
    from dpml.accounting import pld, rdp
    from dpml.accounting.pld import fixed_size

    if sampling == "fixed-size":
        return fixed_size.epsilon_bounds(q=q, sigma=sigma, steps=steps, delta=delta), None
    bounds = pld.epsilon_bounds(q=q, sigma=sigma, steps=steps, delta=delta)
    # Two upper bounds, the second by the measure that noise_multiplier uses: the smaller holds.
    upper = min(bounds.upper, pld.epsilon(q=q, sigma=sigma, steps=steps, delta=delta).epsilon)
    bounds = dataclasses.replace(bounds, lower=min(bounds.lower, upper), upper=upper)
    other = rdp.epsilon(q=q, sigma=sigma, steps=steps, delta=delta)
    return bounds, {"epsilon": other.epsilon, "order": other.order, "kind": other.kind}


def _judge(delta: float, n: int | None) -> tuple[list[str], list[str]]:
    """What to say of delta where the number of records is known."""
    if n is None or n * delta <= 0.1:
        return [], []
    told = f"publishing one whole record of a random person with probability n delta = {n * delta:.3g} would satisfy"
    if n * delta >= 1.0:
        told = "publishing one record in full, of a person drawn at random, would satisfy"
        return [f"delta = {delta:g} is not below 1/n = {1 / n:.3g}: {told} (0, delta)-differential privacy."], []
    return [], [f"delta = {delta:g} is close to 1/n = {1 / n:.3g}: {told} (0, delta)-differential privacy."]


def _text(answer: dict[str, Any]) -> list[str]:
    """The answer in plain words; upper ends are rounded up and lower ends down."""
    scheme = next(s for s in _SCHEMES.values() if s.neighbours.startswith(answer["adjacency"]))
    lower, upper = answer["epsilon"]["lower"], answer["epsilon"]["upper"]
    holds = f"epsilon is at most {_up(upper)} at delta = {answer['delta']:.12g}"
    if math.isinf(upper):
        holds = f"no epsilon is known to hold at delta = {answer['delta']:.12g}"
    if answer["command"] == "noise":
        lines = [f"noise multiplier {answer['noise_multiplier']:.6g}; with it {holds}"]
    else:
        lines = [holds[:1].upper() + holds[1:] if math.isinf(upper) else holds]
    lines += [
        f"kind:       {answer['kind']}; the true epsilon lies in [{_down(lower)}, {_up(upper)}], quote the upper end",
        f"neighbours: {scheme.neighbours}",
        f"sampling:   {scheme.records.format(q=answer['sampling_rate'])}",
        f"            {scheme.not_covered}",
        f"mechanism:  {answer['steps']} steps of Gaussian noise with multiplier {answer['noise_multiplier']:g}",
    ]
    if answer["renyi"]:
        order = answer["renyi"]["order"]
        found = "" if order is None else f", at order {order:.4g}"
        lines.append(
            f"compare:    Rényi accountant: {_up(answer['renyi']['epsilon'])} ({answer['renyi']['kind']}{found})"
        )
    return lines + [f"remark:     {remark}" for remark in answer["remarks"]]


def _up(value: float) -> str:
    return _rounded(value, ROUND_CEILING)


def _down(value: float) -> str:
    return _rounded(value, ROUND_FLOOR)


def _rounded(value: float, direction: str) -> str:
    if math.isinf(value):
        return "infinity"
    return f"{float(Context(prec=6, rounding=direction).plus(Decimal(repr(value)))):.6g}"


def _finite(value: Any) -> Any:
    """JSON has no infinity."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return "infinity" if isinstance(value, float) and math.isinf(value) else value


def _in_options(message: str) -> str:
    """A sentence that names options, not the arguments of the functions that refused."""
    message = re.sub(r"^argument (--[a-z-]+): ", r"\1 ", message)
    return re.sub(r"^(\w+)(?= must )", lambda match: _OPTIONS.get(match[1], match[1]), message)
