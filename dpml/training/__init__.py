"""Private training in PyTorch: one trainer, `train`, and what it trains with, as values.

| value | each step releases |
|---|---|
| `dp_sgd` | the sum of clipped gradients, with Gaussian noise |
| `dp_sgd_automatic` | the same with automatic clipping |
| `tsgd`, `tsgd_ptr` | a trimmed sum; with propose-test-release |
| `sgd` | the sum itself: no privacy |
"""

from dpml.training.dpsgd import dp_sgd, dp_sgd_automatic, sgd
from dpml.training.loop import train
from dpml.training.trimming import tsgd, tsgd_ptr

__all__ = ["dp_sgd", "dp_sgd_automatic", "sgd", "train", "tsgd", "tsgd_ptr"]
