"""Explorers of chapter 04, The moments accountant."""

from dpml.explorers.moments_comparison import honest_figure
from dpml.explorers.moments_loss import loss_distribution
from dpml.explorers.moments_orders import e2_integrand, which_lambda

__all__ = ["e2_integrand", "honest_figure", "loss_distribution", "which_lambda"]
