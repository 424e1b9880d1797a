"""Policies, one module per plugin."""
