"""Explorers of chapter 10, Propose-test-release."""

from dpml.explorers.ptr_loss import two_cases
from dpml.explorers.ptr_orders import orders
from dpml.explorers.ptr_steps import accountants
from dpml.explorers.ptr_trimming import trimming

__all__ = ["accountants", "orders", "trimming", "two_cases"]
