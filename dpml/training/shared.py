r"""Several processes that train one model together: each takes its share of every batch.

Every process, started by ``torchrun --nproc-per-node 2 script.py``, makes the same call with the same arguments, a
generator of the same seed among them, and with a process group (gloo on CPUs, nccl on GPUs)::

    torch.distributed.init_process_group("gloo")
    train(model, loss_fn, x, y, ..., group=torch.distributed.group.WORLD)

In each step

- all draw the same sample, as their generators agree, and process r of R takes the examples at the places r, r + R, ...
  of it: one Poisson sample, and no example twice;
- the weighted sums of the shares are added up over the processes, and so are the norms where a mechanism decides from
  all of them;
- the noise is drawn once for the sum. Each process draws the same numbers from its generator and adds them to the same
  sum, so that no one has to send it.

So the run is that of one process up to the order in which numbers are added up, and so is its guarantee. It is a
guarantee against who sees the model: the processes see the sums without noise, and trust each other.

A process that is gone, or silent for longer than the time limit of the group, ends the run on all others: they say what
was spent and write their checkpoint, from which any number of processes can go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed

from dpml import arguments

__all__ = ["ALONE", "Share", "share_of"]


@dataclass(frozen=True)
class Share:
    """The share of process `rank` of `size` in a group; of one process alone, without a group, it is all.

    Source: definition.
    """

    group: distributed.ProcessGroup | None
    rank: int
    size: int

    @property
    def mine(self) -> slice:
        """The places of this process's examples in a batch.

        Source: definition.
        """
        return slice(self.rank, None, self.size)

    def total(self, values: Tensor) -> Tensor:
        """Return the sum over all processes, in place.

        Raises:
            ConnectionError: if a process is gone, or silent for longer than the time limit of the group.

        Source: definition.
        """
        if self.group is None:
            return values
        try:
            distributed.all_reduce(values, group=self.group)
        except RuntimeError as error:
            raise ConnectionError(
                f"a process of the group of {self.size} is gone, or did not answer within the group's time limit"
            ) from error
        return values

    def gathered(self, own: Tensor, count: int) -> Tensor:
        """Return one number for each of `count` examples, of which this process has its own.

        Source: definition.
        """
        if self.group is None:
            return own
        every = own.new_zeros(count)
        every[self.mine] = own
        return self.total(every) if count else every

    def any(self, flag: bool, device: torch.device) -> bool:
        """Return whether the flag is up in any process.

        Source: definition.
        """
        return bool(self.total(torch.tensor(float(flag), device=device)) > 0.0)

    def agree(self, facts: Mapping[str, Any]) -> None:
        """Refuse a run of which the processes do not have the same idea.

        Raises:
            ValueError: naming the first fact that differs.

        Source: definition.
        """
        found: list[Any] = [None] * self.size
        distributed.all_gather_object(found, dict(facts), group=self.group)
        for name in facts:
            for rank, other in enumerate(found):
                if other.get(name) != found[0].get(name):
                    raise ValueError(f"{name} must be the same in all processes, got another one in process {rank}")


ALONE = Share(None, 0, 1)
"""The share of a process that trains without others."""


def share_of(group: Any) -> Share:
    """Return this process's share in a group; `ALONE` where there is no group.

    Raises:
        ValueError: if group is neither None nor a process group that this process belongs to.

    Source: definition.
    """
    if group is None:
        return ALONE
    if not isinstance(group, distributed.ProcessGroup):
        arguments.refuse("group", "None or a process group such as torch.distributed.group.WORLD", group)
    return Share(group, distributed.get_rank(group), distributed.get_world_size(group))
