"""Which interval should a verdict over seeds rest on? Ours beside the bootstrap ones, on the comparisons of null_study.

    python benchmarks/null_intervals.py [--runs 2400] [--comparisons 400] [--pairs 30] [--jobs 2]

*Nothing differs*: how often each leaves zero out although only chance differs; 5 % is right. *Planted*: how often it
finds 10 % less with forty pairs (log ratio -0.105, spread 0.2), and 30 % less with seven (log ratio -0.35, spread 0.3).
docs/decisions/0008 has what it printed.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from null_study import PLANTED, SPREAD, played

from pumice.sim.results.pairs import SHORTEST_S, interval

Floats = npt.NDArray[np.float64]
Interval = tuple[float, float]
DRAWN = 1999
TAIL = int(0.025 * (DRAWN + 1))
NORMAL = NormalDist()


def typical_values(steps: Floats, rng: np.random.Generator) -> Interval:
    """Ours (Hartigan 1969)."""
    found = interval(steps.tolist())
    assert found.low is not None and found.high is not None
    return found.low, found.high


def percentile(steps: Floats, rng: np.random.Generator) -> Interval:
    """The middle 95 % of the means of samples drawn with replacement."""
    means = np.sort(_samples(steps, rng).mean(axis=1))
    return float(means[TAIL - 1]), float(means[-TAIL])


def bca(steps: Floats, rng: np.random.Generator) -> Interval:
    """The same, corrected for bias and acceleration (Efron 1987)."""
    means = np.sort(_samples(steps, rng).mean(axis=1))
    below = (means < steps.mean()).sum() + 0.5 * (means == steps.mean()).sum()
    bias = NORMAL.inv_cdf(min(max(below / DRAWN, 1 / DRAWN), 1 - 1 / DRAWN))
    left_out = (steps.sum() - steps) / (steps.size - 1)
    away = left_out.mean() - left_out
    acceleration = (away**3).sum() / (6 * (away**2).sum() ** 1.5)

    def corrected(part: float) -> float:
        at = bias + NORMAL.inv_cdf(part)
        return NORMAL.cdf(bias + at / (1 - acceleration * at))

    return float(np.quantile(means, corrected(0.025))), float(np.quantile(means, corrected(0.975)))


def studentised(steps: Floats, rng: np.random.Generator) -> Interval:
    """Percentile-t: each tail of the drawn t statistics by itself."""
    drawn, error = np.sort(_statistics(steps, rng)), _error(steps)
    return float(steps.mean() - drawn[-TAIL] * error), float(steps.mean() - drawn[TAIL - 1] * error)


def symmetric(steps: Floats, rng: np.random.Generator) -> Interval:
    """Percentile-t with one width for both sides (Hall 1988)."""
    width = np.sort(np.abs(_statistics(steps, rng)))[-2 * TAIL] * _error(steps)
    return float(steps.mean() - width), float(steps.mean() + width)


METHODS: Sequence[Callable[[Floats, np.random.Generator], Interval]] = (
    typical_values, percentile, bca, studentised, symmetric,
)  # fmt: skip


def _samples(steps: Floats, rng: np.random.Generator) -> Floats:
    return steps[rng.integers(0, steps.size, (DRAWN, steps.size))]


def _error(steps: Floats) -> float:
    return float(steps.std(ddof=1)) / math.sqrt(steps.size)


def _statistics(steps: Floats, rng: np.random.Generator) -> Floats:
    samples = _samples(steps, rng)
    errors = samples.std(axis=1, ddof=1) / math.sqrt(steps.size)
    found: Floats = (samples.mean(axis=1) - steps.mean()) / np.maximum(errors, 1e-300)
    return found


def main() -> None:
    """Print a line for each kind of comparison, a column for each interval."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in (("runs", 2400), ("comparisons", 400), ("pairs", 30), ("jobs", 2)):
        parser.add_argument(f"--{name}", type=int, default=number)
    options = parser.parse_args()
    table = played(options.runs, options.jobs).runs
    print(f"{'':34}" + "".join(f"{method.__name__:>16}" for method in METHODS))
    for scale in ("ratio", "difference"):
        for figure in ("wait.mean", "wait.p95"):
            steps = _null(table[figure], scale, options.comparisons, options.pairs)
            _line(f"nothing differs, {figure}, {scale}", steps, lambda low, high: not low <= 0 <= high)
    rng = np.random.default_rng(1)
    for change, spread, pairs, trials in ((PLANTED, SPREAD, 40, 100), (-0.35, 0.3, 7, 300)):
        steps = [rng.normal(change, spread, pairs) for _ in range(trials)]
        _line(f"planted {change}, {pairs} pairs", steps, lambda low, high: high < 0)


def _null(values: Floats, scale: str, comparisons: int, pairs: int) -> list[Floats]:
    """The steps of comparisons in which only chance differs; no run twice before all were used."""
    rng, made = np.random.default_rng(0), []
    while True:
        order = rng.permutation(values.size)
        for at in range(0, values.size - 2 * pairs + 1, 2 * pairs):
            first, second = np.split(values[order[at : at + 2 * pairs]], 2)
            ratio = np.log(np.maximum(second, SHORTEST_S) / np.maximum(first, SHORTEST_S))
            made.append(ratio if scale == "ratio" else second - first)
            if len(made) == comparisons:
                return made


def _line(title: str, all_steps: Sequence[Floats], counts: Callable[[float, float], bool]) -> None:
    shares = [
        sum(counts(*method(steps, np.random.default_rng(at))) for at, steps in enumerate(all_steps)) / len(all_steps)
        for method in METHODS
    ]
    print(f"{title:34}" + "".join(f"{100 * share:14.1f} %" for share in shares), flush=True)


if __name__ == "__main__":
    main()
