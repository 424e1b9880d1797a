"""Kubernetes as a backend: list and watch, bind, evict, status, leases."""
