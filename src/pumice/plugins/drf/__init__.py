"""drf: jobs that hold the smallest part of the cluster go first; with a hierarchy, queues share it level by level."""

from pumice.plugins.drf.drf import Drf

__all__ = ["Drf"]
