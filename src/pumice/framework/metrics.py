"""Numbers that plugins publish."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Metrics:
    """Numbers that plugins publish; read after the cycle."""

    gauges: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)
    counters: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self.gauges[name, tuple(sorted(labels.items()))] = value

    def counter(self, name: str, by: float = 1, **labels: str) -> None:
        """Count something."""
        key = (name, tuple(sorted(labels.items())))
        self.counters[key] = self.counters.get(key, 0) + by
