"""What holds for every test: long ones run when asked for (``-m slow``), and actions ask only what they declare."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from zlib import crc32

import pytest

if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):  # before anything is imported
    # Hundreds of tests start a process, and each would compile all that it imports. So bytecode is kept, apart from
    # the source.
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(Path(__file__).parents[1] / ".cache" / "bytecode")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background of a shell. What the tests start and interrupt would inherit that, and go on for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)

from hypothesis import HealthCheck, is_hypothesis_test, settings

from effort import examples
from pumice.framework.session import questions as asking
from pumice.scheduler import attribution

asking.STRICT = True
attribution.MOST = 0  # a cycle that fails fails its test; tests of setting aside allow it
settings.register_profile(
    "any machine", max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where specifications are that are not part of the project."""
    parser.addoption("--kai-units", metavar="DIR", help="specifications of KAI's fair shares, as data")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whatever is tried on drawn examples is a law.

    Of the parameters of a test marked ``part`` the first and one in so many others are tried in a plain run; tests
    marked ``slow`` or ``oracle`` are left out of it.
    """
    begun = set()
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        if is_hypothesis_test(item.obj):
            item.add_marker("law")
        part = item.get_closest_marker("part")
        if part and item.function in begun and crc32(item.nodeid.encode()) % part.args[0]:
            item.add_marker("slow")
        begun.add(item.function)
    if config.option.markexpr:
        return
    long = [item for item in items if item.get_closest_marker("slow") or item.get_closest_marker("oracle")]
    config.hook.pytest_deselected(items=long)
    left_out = set(long)
    items[:] = [item for item in items if item not in left_out]
