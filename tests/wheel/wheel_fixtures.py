"""The wheel, built once."""

from __future__ import annotations

from pathlib import Path

import pytest
from wheel_env import built


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))
