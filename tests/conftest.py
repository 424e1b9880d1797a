"""What holds for every test: long runs only when asked for (``-m slow``), and actions ask only what they declare."""

from __future__ import annotations

import pytest

from pumice.framework.session import asking

asking.STRICT = True


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where specifications are that are not part of the project."""
    parser.addoption("--kai-units", metavar="DIR", help="specifications of KAI's fair shares, as data")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests marked ``slow`` out of a plain run."""
    if config.option.markexpr:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]
