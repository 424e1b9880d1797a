"""numa-aware: tasks that need their CPUs close together go where the kubelet can give them so."""

from pumice.plugins.numa_aware.numa_aware import NumaAware

__all__ = ["NumaAware"]
