"""Tests against a real API server run only when asked for (``make test-kube``): they need binaries and a minute."""

from __future__ import annotations

import os

from kube_fixtures import bed, kubelets, world

__all__ = ["bed", "kubelets", "world"]

if "PUMICE_TEST_KUBE" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
