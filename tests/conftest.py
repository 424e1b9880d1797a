"""What holds for every test: long ones run when asked for (``-m slow``), and actions ask only what they declare."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):  # before anything is imported
    # Hundreds of tests start a process, and each would compile all that it imports. So bytecode is kept, apart from
    # the source.
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parents[1] / ".cache" / "bytecode")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a shell. What the tests start and interrupt would inherit that, and go on for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)

from hypothesis import HealthCheck, settings

from pumice.framework.session import asking

asking.STRICT = True
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where specifications are that are not part of the project."""
    parser.addoption("--kai-units", metavar="DIR", help="specifications of KAI's fair shares, as data")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests marked ``slow`` or ``oracle`` out of a plain run."""
    if config.option.markexpr:
        return
    long = [item for item in items if item.get_closest_marker("slow") or item.get_closest_marker("oracle")]
    config.hook.pytest_deselected(items=long)
    left_out = set(long)
    items[:] = [item for item in items if item not in left_out]
