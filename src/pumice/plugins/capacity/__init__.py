"""capacity: every queue has a deserved and a largest amount of each resource, alone or in a tree of queues."""

from pumice.plugins.capacity.capacity import Capacity

__all__ = ["Capacity"]
