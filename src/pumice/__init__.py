"""Pumice: a batch scheduler for Kubernetes whose policies are small Python classes."""
