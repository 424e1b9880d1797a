"""Extension points: what plugins are asked, how answers combine, and the one way into a plugin."""

from __future__ import annotations

from pumice.framework.points.point import Form, Point
from pumice.framework.points.rules import OnFailure, Rule
from pumice.framework.points.table import FLAGS, POINTS

__all__ = ["FLAGS", "POINTS", "Form", "OnFailure", "Point", "Rule"]
