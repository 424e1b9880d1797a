"""The pytest plugin that a project gets by installing pumice: the fixture ``scenario``.

Everything else is imported when a test asks for it, so that other projects' test runs pay nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pumice.testing.scenario import Scenario


@pytest.fixture
def scenario() -> Iterator[Scenario]:
    """An empty cluster to build on and run cycles on.

    When the test ends, no plugin may have failed unnoticed (`Cycle.errors`), and the invariants must hold.
    """
    from pumice.testing.scenario import Scenario

    made = Scenario()
    yield made
    made.assert_no_errors()
    made.assert_invariants()
