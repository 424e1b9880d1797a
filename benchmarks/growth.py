"""How the time grows with the cluster: the same work on twice the nodes, the same cycle with twice the running pods.

    python benchmarks/growth.py [SHAPE ...]

Prints CPU seconds of both sizes, measured turn by turn in one run, and their ratio beside the most that is meant to be.
Prints, never fails: the machine may be noisy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import tools_path  # noqa: F401
from pumice_bench import shapes
from pumice_bench.run import measure
from pumice_bench.shape import Shape

GROWTH: dict[str, tuple[Callable[[], Shape], Callable[[], Shape], float]] = {
    "singles": (lambda: shapes.singles(5000, 4000), lambda: shapes.singles(10000, 4000), 1.3),
    "gangs": (lambda: shapes.gangs(5000), lambda: shapes.gangs(10000), 1.3),
    "big": (lambda: shapes.big(10000, 300), lambda: shapes.big(20000, 300), 1.3),
    "steady": (lambda: shapes.steady(5000, 10), lambda: shapes.steady(10000, 5), 1.3),
    "many-classes": (lambda: shapes.many_classes(5000, 30), lambda: shapes.many_classes(10000, 30), 2.0),
    "affinity": (lambda: shapes.affinity(5000), lambda: shapes.affinity(10000), 2.0),
    "running pods": (lambda: shapes.steady(10000, 5), lambda: shapes.steady(10000, 10), 1.05),
}
TURNS = 3


def seconds(make: Callable[[], Shape]) -> float:
    """CPU seconds of deciding."""
    return measure(make()).cpu


def main(names: list[str]) -> None:
    """Print the table."""
    print(f"{'shape':<14} {'once':>10} {'twice':>10} {'ratio':>7} {'meant':>7}")
    for name in names or list(GROWTH):
        once, twice, meant = GROWTH[name]
        pairs = [(seconds(once), seconds(twice)) for _ in range(TURNS)]
        small, large = min(p[0] for p in pairs), min(p[1] for p in pairs)
        print(
            f"{name:<14} {small * 1e3:>7.1f} ms {large * 1e3:>7.1f} ms {large / small:>7.2f} {meant:>7.2f}", flush=True
        )


if __name__ == "__main__":
    main(sys.argv[1:])
