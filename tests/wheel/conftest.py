"""What tests of this folder are given; `wheel_fixtures` defines it."""

from __future__ import annotations

from wheel_fixtures import wheel

__all__ = ["wheel"]
