"""KAI's fair share of queues: its division, the order that follows from it, and what may be reclaimed."""

from pumice.kai.plugins.proportion.plugin import KaiProportion

__all__ = ["KaiProportion"]
