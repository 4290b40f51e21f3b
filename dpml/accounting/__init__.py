"""Accounting: how much privacy several releases cost together, and what sampling saves.

| module | question |
|---|---|
| `dpml.accounting.guarantee` | what does a privacy number mean? |
| `dpml.accounting.composition` | what do k mechanisms cost together? |
| `dpml.accounting.amplification` | what does a random sample save? |
| `dpml.accounting.tradeoff` | what can the best attack still do? |
"""

from dpml.accounting.guarantee import Bounds, Guarantee

__all__ = ["Bounds", "Guarantee"]
