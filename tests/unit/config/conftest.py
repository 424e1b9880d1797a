"""What tests of this folder are given; `config_catalogue` defines it."""

from __future__ import annotations

from config_catalogue import catalogue

__all__ = ["catalogue"]
