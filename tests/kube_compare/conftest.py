"""The comparison with kube-scheduler, made only when asked for (``make test-kube-compare``)."""

from __future__ import annotations

import os

from kube_fixtures import bed

__all__ = ["bed"]

if "PUMICE_TEST_KUBE" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
