"""Placing: whose turn it is, what of a job is to be placed, and where."""
