"""Byzantine workers: rules for vectors of which some lie, attacks on these, and what noise for privacy does to them."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch, see dpml.training
