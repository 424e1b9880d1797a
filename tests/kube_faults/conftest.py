"""Faults on a real API server, made only when asked for (``make test-kube-faults``): they take minutes.

Moments are drawn from a seed, which is printed; ``PUMICE_FAULTS_SEED`` sets another.
"""

from __future__ import annotations

import os

from faults_fixtures import proxy, witness, world
from faults_moments import SEED
from kube_fixtures import bed, kubelets

__all__ = ["bed", "kubelets", "proxy", "witness", "world"]

if "PUMICE_TEST_KUBE" not in os.environ:
    collect_ignore_glob = ["test_*.py"]


def pytest_report_header() -> str:
    """Which moments are tried."""
    return f"faults: PUMICE_FAULTS_SEED={SEED}"
