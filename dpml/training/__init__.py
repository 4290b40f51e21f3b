"""Private training in PyTorch: one trainer, `train`, and what it trains with, as values.

| value | each step releases |
|---|---|
| `dp_sgd` | the sum of clipped gradients, with Gaussian noise |
| `dp_sgd_automatic` | the same with automatic clipping |
| `tsgd`, `tsgd_ptr` | a trimmed sum; with propose-test-release |
| `sgd` | the sum itself: no privacy |

PyTorch's threads wait for each other in a loop that occupies a core. On a busy machine, small networks then crawl: a
training that takes a second can take a minute. Importing this package, `dpml.byzantine` or `dpml.certified` sets
OMP_WAIT_POLICY=PASSIVE, unless you have set it: then they sleep. It holds if it comes before `import torch`.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # OpenMP reads it once, when torch is loaded

from dpml.training.dpsgd import dp_sgd, dp_sgd_automatic, sgd
from dpml.training.loop import train
from dpml.training.trimming import tsgd, tsgd_ptr

__all__ = ["dp_sgd", "dp_sgd_automatic", "sgd", "train", "tsgd", "tsgd_ptr"]
