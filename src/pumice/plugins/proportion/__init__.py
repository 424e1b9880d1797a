"""proportion: the cluster is shared between queues by weight, and nobody gets more than is asked for."""

from pumice.plugins.proportion.proportion import Proportion

__all__ = ["Proportion"]
