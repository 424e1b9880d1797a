"""Pods that want to be near or far from others: their terms, and what stands in each topology domain."""
