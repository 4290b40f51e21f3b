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
import io
import json
import math
import re
import sys
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any, NamedTuple, NoReturn

__all__ = ["any_console", "main"]


class _Scheme(NamedTuple):
    """What a way to draw batches means for the number."""

    neighbours: str
    records: str
    not_covered: str


_SCHEMES = {
    "poisson": _Scheme(
        "add/remove: datasets that differ by one record added or removed",
        "Poisson: each record joins each batch independently with probability {q:g}",
        "A loader that shuffles and cuts batches of fixed size is not covered. A rate or a divisor that is computed "
        "from the number of records takes that number as public.",
    ),
    "fixed-size": _Scheme(
        "replace-one: datasets of the same size that differ in one record, which moves the sum by two clipping norms",
        "fixed size: each batch is a new uniformly random set of {q:g} of the records, without replacement",
        "A loader that cuts one shuffle of an epoch into batches is not covered.",
    ),
}
_OPTIONS = {"q": "--sampling-rate", "sigma": "--noise-multiplier"}  # others have the name of the argument


class _Parser(argparse.ArgumentParser):
    """Raises in place of printing a usage text and leaving."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def any_console() -> None:
    """Let this process print on a console of any encoding: letters that it lacks become question marks.

    The scripts of the course call it first.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line with these words (by default those of the process) and return its exit status.

    Prints the answer; an error becomes one sentence on the standard error stream and status 2.
    """
    any_console()
    try:
        options = _options(sys.argv[1:] if words is None else words)
        answer = _answer(options)
    except ValueError as error:
        print(f"dpml: {_in_options(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("dpml: interrupted before there was a result", file=sys.stderr)
        return 130
    print(json.dumps(_finite(answer), indent=2) if options.json else "\n".join(_text(answer)))
    for warning in () if options.json else answer["warnings"]:
        print(f"Warning: {warning}", file=sys.stderr)
    return 0


def _options(words: Sequence[str]) -> argparse.Namespace:
    """The words read. An unknown option is named before one that is missing, which it may have been meant for."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1].startswith("--") and re.match(r"-(\d|\.|inf|nan)", word):
            joined[-1] += f"={word}"  # argparse would take -1e-5 for an option
        else:
            joined.append(word)
    options, unknown = _parser().parse_known_args(joined)
    if unknown:
        raise ValueError(f"unrecognized arguments: {' '.join(unknown)}")
    needed = ["--noise-multiplier" if options.command == "epsilon" else "--epsilon", "--steps", "--delta"]
    if missing := [name for name in needed if getattr(options, name[2:].replace("-", "_")) is None]:
        raise ValueError(f"the following arguments are required: {', '.join(missing)}")
    return options


def _parser() -> _Parser:
    parser = _Parser(
        prog="python -m dpml",
        description="Privacy of DP-SGD: Gaussian noise on sums of clipped gradients of random batches.",
        epilog="Example: python -m dpml epsilon --sampling-rate 0.01 --noise-multiplier 4 --steps 10000 --delta 1e-5",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="epsilon|noise")
    for name, told, option, letter, meaning in (
        ("epsilon", "what a run costs: epsilon at this delta", "--noise-multiplier", "SIGMA", "deviation / clip norm"),
        ("noise", "the least noise that keeps to a target", "--epsilon", "EPSILON", "the target, above 0"),
    ):
        needed = f"{option} {letter} --steps T --delta DELTA (--sampling-rate Q | --batch-size B --dataset-size N)"
        usage = f"%(prog)s {needed}\n  [--sampling {{fixed-size,poisson}}] [--json]"
        command = commands.add_parser(name, help=told, usage=usage, allow_abbrev=False)
        command.add_argument(option, type=_number, metavar=letter, help=meaning)
        command.add_argument("--steps", type=_count, metavar="T", help="number of noisy updates")
        command.add_argument("--delta", type=_number, metavar="DELTA", help="well below 1 / records")
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


def _rate(options: argparse.Namespace) -> float:
    """The sampling rate, checked under the names that the user typed."""
    from dpml import arguments

    batch, n = options.batch_size, options.dataset_size
    if n is not None:
        arguments.integer("--dataset-size", n, 1)
    if batch is not None and options.sampling_rate is not None:
        raise ValueError("give --sampling-rate or --batch-size, not both")
    if batch is None and options.sampling_rate is None:
        raise ValueError("--sampling-rate is missing (or --batch-size with --dataset-size)")
    if batch is None:
        return arguments.probability("--sampling-rate", options.sampling_rate)
    if n is None:
        raise ValueError("--batch-size needs --dataset-size: the sampling rate is their quotient")
    if batch > n:
        quotient = "the sampling rate is their quotient and cannot exceed 1"
        raise ValueError(f"--batch-size must be at most --dataset-size, got {batch} and {n}: {quotient}")
    return float(arguments.integer("--batch-size", batch, 0) / n)


def _answer(options: argparse.Namespace) -> dict[str, Any]:
    """Everything that is said about a run, under the keys of the JSON form."""
    import dpml
    from dpml import arguments
    from dpml.accounting import pld, rdp
    from dpml.accounting.pld import fixed_size

    accountant: Any = {"poisson": pld, "fixed-size": fixed_size}[options.sampling]
    run: dict[str, Any] = {"q": _rate(options), "steps": arguments.integer("--steps", options.steps, 0)}
    run["delta"] = arguments.probability("--delta", options.delta)
    target = None
    if options.command == "noise":
        target = arguments.real("--epsilon", options.epsilon, 0.0, low_open=True)
        # Printed with six digits, which are rounded up: the noise that a reader copies is enough.
        run["sigma"] = float(_up(accountant.noise_multiplier(**run, epsilon=target)))
    else:
        run["sigma"] = arguments.real("--noise-multiplier", options.noise_multiplier, 0.0)
    bounds, renyi = accountant.epsilon_bounds(**run), None
    if accountant is pld:
        # Two upper bounds, the second by the measure that noise_multiplier uses: the smaller holds.
        upper = min(bounds.upper, pld.epsilon(**run).epsilon)
        bounds = dataclasses.replace(bounds, lower=min(bounds.lower, upper), upper=upper)
        other = rdp.epsilon(**run)
        renyi = {"epsilon": other.epsilon, "order": other.order, "kind": other.kind}
    warnings, remarks = _judge(run["delta"], options.dataset_size)
    return {
        "command": options.command,
        "target_epsilon": target,
        "epsilon": {"lower": bounds.lower, "upper": bounds.upper, "quote": "upper"},
        "delta": run["delta"],
        "kind": bounds.guarantee().kind,
        "adjacency": bounds.adjacency,
        "sampling": bounds.sampling,
        "sampling_rate": run["q"],
        "noise_multiplier": run["sigma"],
        "steps": run["steps"],
        "dataset_size": options.dataset_size,
        "renyi": renyi,
        "assumes": _SCHEMES[options.sampling].not_covered,
        "warnings": warnings,
        "remarks": remarks,
        "dpml": dpml.__version__,
    }


def _judge(delta: float, n: int | None) -> tuple[list[str], list[str]]:
    """What to say of delta where the number of records is known."""
    if n is None or n * delta <= 0.1:
        return [], []
    surely = n * delta >= 1.0
    near, how = ("not below", "") if surely else ("close to", f" with probability n delta = {n * delta:.3g}")
    told = f"publishing one whole record of a random person{how} would satisfy (0, delta)-differential privacy."
    told = f"delta = {delta:g} is {near} 1/n = {1 / n:.3g}: {told}"
    return ([told], []) if surely else ([], [told])


def _text(answer: dict[str, Any]) -> list[str]:
    """The answer in plain words; upper ends are rounded up and lower ends down."""
    scheme = next(s for s in _SCHEMES.values() if s.neighbours.startswith(answer["adjacency"]))
    lower, upper = _rounded(answer["epsilon"]["lower"], ROUND_FLOOR), _up(answer["epsilon"]["upper"])
    holds = "no epsilon is known to hold" if upper == "infinity" else f"epsilon is at most {upper}"
    holds += f" at delta = {answer['delta']:.12g}"
    if answer["command"] == "noise":
        holds = f"noise multiplier {answer['noise_multiplier']:.6g}; with it {holds}"
    lines = [
        re.sub(r"^no ", "No ", holds),
        f"kind:       {answer['kind']}; the true epsilon lies in [{lower}, {upper}], quote the upper end",
        f"neighbours: {scheme.neighbours}",
        f"sampling:   {scheme.records.format(q=answer['sampling_rate'])}",
        f"            {scheme.not_covered}",
        f"mechanism:  {answer['steps']} steps of Gaussian noise with multiplier {answer['noise_multiplier']:g}",
    ]
    if renyi := answer["renyi"]:
        found = "" if renyi["order"] is None else f", at order {renyi['order']:.4g}"
        lines.append(f"compare:    Rényi accountant: {_up(renyi['epsilon'])} ({renyi['kind']}{found})")
    return lines + [f"remark:     {remark}" for remark in answer["remarks"]]


def _up(value: float) -> str:
    return _rounded(value, ROUND_CEILING)


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
    return re.sub(r"^(\w+)(?= must )", lambda match: _OPTIONS.get(match[1], f"--{match[1]}"), message)
