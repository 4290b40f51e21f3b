r"""Privacy by stability: release an exact answer where no one person could have changed it.

Noise can go into the answer, or into the decision whether to answer. The second is for answers that are the same on
all datasets nearby: `m_stab` measures how far the data are from another answer, adds noise to that distance, and
releases the answer itself if the noisy distance is large. `m_samp` makes any function stable, at a price, by asking it
about many random parts of the data. Both are $(\varepsilon, \delta/2)$-differentially private, under replace-one, for
each answer and each "fail".

The three names of the lecture are here; definitions, theorems, proofs and what belongs to them are in

| module | what |
|---|---|
| `dpml.pate.instability` | how many records can change without changing the answer |
| `dpml.pate.m_stab` | release or fail; the exact probability of either; what it costs |
| `dpml.pate.m_samp` | how many models are asked, and their votes; release or fail; what it costs |
"""

from dpml.pate.instability import distance_to_instability
from dpml.pate.m_samp import m_samp
from dpml.pate.m_stab import m_stab

__all__ = ["distance_to_instability", "m_samp", "m_stab"]
