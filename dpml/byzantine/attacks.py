r"""What Byzantine workers send: one vector, the same from each of them, made of what the honest workers send.

Let $g_1, \dots, g_h$ be the vectors that the honest workers *submit* in this step (after clipping, noise and momentum),
$\bar g$ their average and $\hat\sigma$ their standard deviation in each coordinate (with h - 1 below). The paper does
not say what its attackers average; this is what the public code of its authors does, and it is the strongest reading:
the attackers see everything.

| attack | sent |
|---|---|
| `little`, a little is enough | $\bar g + z\,\hat\sigma$ |
| `empire`, fall of empires | $(1 - \zeta)\,\bar g$ |
| `sign_flip` | $-\bar g$ |

Workers that lie about their *data* instead are in `dpml.training.corruption`: flipped labels, noisy features.

Vectors are rows [h, d], NumPy arrays or torch tensors on any device; what comes back is of the same kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpml import arguments
from dpml.byzantine._rows import average_of, finite_rows, like

__all__ = ["empire", "little", "sign_flip"]


@np.errstate(under="ignore")
def little(honest: Any, *, z: float = 1.0) -> Any:
    r"""Return average + z times the standard deviation [d] of the honest rows [h, d]: "a little is enough".

    Small enough to hide in the spread of the honest rows. Both signs matter, as noise for privacy makes the deviation
    the same in all coordinates: z < 0 subtracts. (The paper sends $\bar g + \zeta a$ with a = -sigma, "sigma the
    opposite vector of the standard deviation": word for word it adds the deviation, as does the public code.)

    Raises:
        ValueError: if honest is no array or tensor of finite floating numbers of shape [h, d] with h >= 2, or z is
            not in [-1e6, 1e6].

    Source: the Byzantine paper (Guerraoui et al.), appendix D.3; Baruch, Baruch and Goldberg, "A little is enough",
    NeurIPS 2019.
    """
    rows = finite_rows("honest", honest)
    if len(rows) < 2:
        raise ValueError(f"honest must be at least 2 rows, got {len(rows)}")
    z = arguments.real("z", z, -1e6, 1e6)
    average = average_of(rows, range(len(rows)))
    spread = (((rows - average) ** 2).sum(0) / (len(rows) - 1)) ** 0.5  # `std` of torch takes ten times as long
    return like(honest, average + z * spread)


def empire(honest: Any, *, zeta: float = 1.1) -> Any:
    """Return (1 - zeta) times the average [d] of the honest rows [h, d]: "fall of empires".

    At zeta > 1 the sign is turned; at 1.1, the paper's, it is a tenth as long as the average.

    Raises:
        ValueError: if honest is no array or tensor of finite floating numbers of shape [h, d], or zeta is not in
            [0, 1e6].

    Source: the Byzantine paper (Guerraoui et al.), appendix D.3; Xie, Koyejo and Gupta, "Fall of empires", UAI 2019.
    """
    rows = finite_rows("honest", honest)
    zeta = arguments.real("zeta", zeta, 0.0, 1e6)
    return like(honest, (1.0 - zeta) * average_of(rows, range(len(rows))))


def sign_flip(honest: Any) -> Any:
    """Return the average [d] of the honest rows [h, d] with the opposite sign: `empire` at zeta = 2.

    Raises:
        ValueError: if honest is no array or tensor of finite floating numbers of shape [h, d].

    Source: Xie, Koyejo and Gupta, "Fall of empires", UAI 2019, with epsilon = 1.
    """
    rows = finite_rows("honest", honest)
    return like(honest, -average_of(rows, range(len(rows))))
