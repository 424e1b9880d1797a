"""Evicting: who starves, who may go for whom, and plans of evictions."""
