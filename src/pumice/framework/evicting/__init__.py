"""Evicting: starving jobs, possible victims, and plans of evictions."""
