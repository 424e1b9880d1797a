"""Do the intervals of a study hold what they promise? Synthetic values, and real seeds drawn again and again.

    python benchmarks/coverage.py [--trials 600] [--jobs 2] [--cache DIR] [synthetic|real|null|found|all ...]

*Synthetic*: values from known distributions. *Real*: the scenarios small, calm and three teams are played once on many
seeds; each trial draws n of them with replacement, and the truth is the value over all of them. *Null*: the arms of
each pair are swapped at random, so that nothing differs. *Found*: how often a difference that is there is told.
A miss is an interval that leaves the truth out, on either side; 5 % is right. docs/decisions/0009 has what it printed.
"""

from __future__ import annotations

import argparse
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

import pumice
from pumice.sim.results.intervals import (
    ALPHA,
    FEWEST,
    SURE,
    Effect,
    Interval,
    adjusted,
    effect,
    mean_interval,
    ratio_interval,
)
from pumice.sim.results.metrics import METRICS
from pumice.sim.results.seeds import PRIMARY

Floats = npt.NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Floats]
Values = dict[str, dict[str, Floats]]
"""Figure by figure of each configuration, a value for each seed."""

HERE: Final = Path(__file__).parent
SCENARIOS: Final = {
    "small": (HERE / "scenarios" / "small.yaml", 400, (("random", "pack"), ("pack", "sjf"))),
    "calm": (HERE / "scenarios" / "calm.yaml", 300, (("random", "pack"), ("pack", "sjf"))),
    "three teams": (HERE.parent / "examples" / "scenarios" / "three-teams.yaml", 300, (("default", "tidy"),)),
}
FIGURES: Final = (
    *("wait.mean", "wait.p95", "jct.mean", "slowdown.mean", "makespan", "utilisation.gpu", "fragmentation"),
)
SIZES: Final = (10, 20)
DISTRIBUTIONS: Final[dict[str, tuple[Draw, float]]] = {
    "normal": (lambda rng, n: rng.normal(0.5, 1, n), 0.5),
    "Student t, 3 degrees": (lambda rng, n: rng.standard_t(3, n), 0.0),
    "lognormal(1)": (lambda rng, n: rng.lognormal(0, 1, n), math.exp(0.5)),
    "lognormal(1.5)": (lambda rng, n: rng.lognormal(0, 1.5, n), math.exp(1.125)),
    "Pareto(2.2)": (lambda rng, n: rng.pareto(2.2, n) + 1, 2.2 / 1.2),
    "effect on 1 in 5": (lambda rng, n: _rare(rng, n, 0.2), 0.2),
    "effect on 1 in 10": (lambda rng, n: _rare(rng, n, 0.1), 0.1),
}


def _rare(rng: np.random.Generator, n: int, share: float) -> Floats:
    """An effect of 1 on a *share* of the seeds, and little noise on the others."""
    return np.where(rng.random(n) < share, rng.normal(1, 0.3, n), rng.normal(0, 0.05, n))


# -- what is played ---------------------------------------------------------------------------------------------------
def played(name: str, cache: Path, jobs: int) -> Values:
    """Return the figures of a scenario by configuration; played once, and kept in *cache*."""
    path, seeds, _ = SCENARIOS[name]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    file = cache / f"{name.replace(' ', '-')}-{seeds}-{digest}.npz"
    if not file.exists():
        cache.mkdir(parents=True, exist_ok=True)
        table = pumice.simulate(path, seeds=range(1, seeds + 1), processes=jobs, keep_records=False).runs
        np.savez_compressed(file, **table)  # type: ignore[arg-type]
    with np.load(file) as kept:
        of = kept["configuration"]
        order = np.argsort(kept["seed"], kind="stable")
        return {
            str(one): {key: kept[key][order][of[order] == one].astype(np.float64) for key in METRICS}
            for one in dict.fromkeys(of.tolist())
        }


def comparisons(cache: Path, jobs: int) -> Iterator[tuple[str, Values, str, str]]:
    """Return every comparison: the scenario, its values, the first and the second configuration."""
    for name, (_, _, pairs) in SCENARIOS.items():
        values = played(name, cache, jobs)
        yield from ((name, values, first, second) for first, second in pairs)


def judged(key: str, before: Floats, after: Floats) -> Effect:
    """Return the effect of one figure, judged as a study judges it."""
    metric = METRICS[key]
    return effect(
        before.tolist(),
        after.tolist(),
        scale="ratio" if metric.as_ratio else "difference",
        lower_is_better=metric.better == "lower",
    )


# -- the tables -------------------------------------------------------------------------------------------------------
def synthetic(trials: int) -> None:
    """Print the misses of the mean of known distributions, and of a ratio."""
    print(f"\nsynthetic values: missed, % of {trials} trials ({'n = ' + ', '.join(map(str, (*SIZES, 50)))})")
    for name, (draw, truth) in DISTRIBUTIONS.items():

        def study(rng: np.random.Generator, n: int, draw: Draw = draw) -> Interval:
            return mean_interval(draw(rng, n).tolist())

        _line(name, [_missed(trials, n, study, truth) for n in (*SIZES, 50)])

    def ratio(rng: np.random.Generator, n: int) -> Interval:
        before = rng.lognormal(0, 1, n)
        found = ratio_interval(before.tolist(), (before * np.exp(rng.normal(-0.1, 0.3, n))).tolist())
        assert found is not None
        return found

    _line("ratio, days lognormal(1)", [_missed(trials, n, ratio, math.exp(-0.1 + 0.045)) for n in (*SIZES, 50)])


def _missed(trials: int, n: int, study: Callable[[np.random.Generator, int], Interval], truth: float) -> float:
    rng = np.random.default_rng(n)
    return 100 * sum(study(rng, n).excludes(truth) for _ in range(trials)) / trials


def real(trials: int, cache: Path, jobs: int) -> None:
    """Print the misses of changes and of values on the seeds that were played."""
    print(f"\nreal seeds: the change was missed, % of the studies that show an interval, {trials} trials; n = {SIZES}")
    every: dict[int, list[float]] = {n: [] for n in SIZES}
    for name, values, first, second in comparisons(cache, jobs):
        for key in FIGURES:
            a, b = values[first][key], values[second][key]
            differ = 100 * float((a != b).mean())
            if not differ:
                continue
            found = [_change_missed(trials, n, key, a, b) for n in SIZES]
            for n, (miss, _) in zip(SIZES, found, strict=True):
                every[n].append(miss)
            few = ", ".join(f"{100 * part:.0f}" for _, part in found)
            _line(
                f"{name}: {first} to {second}, {key}",
                [miss for miss, _ in found],
                f"{differ:3.0f} % of seeds differ; too few: {few} %",
            )
    _line("mean over the figures", [sum(every[n]) / len(every[n]) for n in SIZES], f"{len(every[SIZES[0]])} figures")
    print("\nreal seeds: the value of a configuration was missed, %")
    told: dict[int, list[float]] = {n: [] for n in SIZES}
    for name in SCENARIOS:
        for configuration, figures in played(name, cache, jobs).items():
            misses = {
                key: [_missed(trials, n, _drawn(figures[key]), float(figures[key].mean())) for n in SIZES]
                for key in FIGURES
            }
            for at, n in enumerate(SIZES):
                told[n] += [found[at] for found in misses.values()]
            _line(f"{name}: {configuration}, wait.mean", misses["wait.mean"])
    _line("mean over all values", [sum(told[n]) / len(told[n]) for n in SIZES])


def _drawn(values: Floats) -> Callable[[np.random.Generator, int], Interval]:
    return lambda rng, n: mean_interval(rng.choice(values, n).tolist())


def _change_missed(trials: int, n: int, key: str, a: Floats, b: Floats) -> tuple[float, float]:
    """The misses in percent of the studies that show an interval, and the part that show none."""
    rng, missed, shown = np.random.default_rng(n), 0, 0
    for _ in range(trials):
        at = rng.integers(0, a.size, n)
        found = judged(key, a[at], b[at])
        if found.differ < FEWEST:
            continue
        truth = b.mean() / a.mean() - 1 if found.scale == "ratio" else b.mean() - a.mean()
        shown += 1
        missed += found.change.excludes(float(truth))
    return 100 * missed / max(shown, 1), 1 - shown / trials


def null(trials: int, cache: Path, jobs: int) -> None:
    """Print how often a difference is told where the arms of each pair are swapped at random."""
    print(f"\nnothing differs: told better or worse, % of {trials} studies; n = {SIZES}")
    for name, values, first, second in comparisons(cache, jobs):
        keys = [key for key in METRICS if bool((values[first][key] != values[second][key]).any())]
        keys = [key for key in keys if not np.isnan(values[first][key]).any()]
        told: dict[str, list[float]] = {key: [] for key in keys}
        together: dict[str, list[float]] = {
            word: []
            for word in ("primary", "some row by itself", "some exploratory row as marked", "some row as marked")
        }
        for n in SIZES:
            rng, alone = np.random.default_rng(n), Counter[str]()
            for _ in range(trials):
                at, swap = rng.integers(0, values[first][keys[0]].size, n), rng.random(n) < 0.5
                found = {}
                for key in keys:
                    a, b = values[first][key][at], values[second][key][at]
                    found[key] = judged(key, np.where(swap, b, a), np.where(swap, a, b))
                sure = {key for key, one in found.items() if one.verdict in SURE}
                others = [key for key in keys if key != PRIMARY and found[key].differ]
                p_values = adjusted([found[key].p_value for key in others])
                marked = {key for key, p in zip(others, p_values, strict=True) if key in sure and p <= ALPHA}
                alone.update(sure)
                alone["primary"] += PRIMARY in sure
                alone["some row by itself"] += bool(sure)
                alone["some exploratory row as marked"] += bool(marked)
                alone["some row as marked"] += bool(marked | (sure & {PRIMARY}))
            for where in (told, together):
                for key, column in where.items():
                    column.append(100 * alone[key] / trials)
        for key in keys:
            _line(f"{name}: {first}, {second}, {key}", told[key])
        for word, column in together.items():
            _line(f"{name}: {first}, {second}: {word}", column, f"{len(keys)} rows")


def found(trials: int, cache: Path, jobs: int) -> None:
    """Print how often the difference in mean wait is told, and how often with the wrong sign."""
    print(f"\nverdicts on wait.mean, % of {trials} studies; n = {SIZES}: better, mostly better, wrong side")
    for name, values, first, second in comparisons(cache, jobs):
        a, b = values[first]["wait.mean"], values[second]["wait.mean"]
        side = "better" if b.mean() < a.mean() else "worse"
        for n in SIZES:
            rng, verdicts = np.random.default_rng(n), Counter[str]()
            for _ in range(trials):
                at = rng.integers(0, a.size, n)
                verdicts[judged("wait.mean", a[at], b[at]).verdict] += 1
            wrong = {"better": "worse", "worse": "better"}[side]
            parts = [100 * verdicts[word] / trials for word in (side, f"mostly {side}", wrong)]
            _line(f"{name}: {first} to {second} ({side}), n = {n}", parts)


def _line(title: str, cells: list[float], note: str = "") -> None:
    print(f"  {title:58}" + "".join(f"{cell:7.1f}" for cell in cells) + (f"   {note}" if note else ""), flush=True)


def main() -> None:
    """Print the tables that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=["all"], choices=("all", "synthetic", "real", "null", "found"))
    parser.add_argument("--trials", type=int, default=600)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "pumice-benchmarks")
    options = parser.parse_args()
    wanted = set(options.tables)
    if wanted & {"all", "synthetic"}:
        synthetic(options.trials)
    for name, table in (("real", real), ("null", null), ("found", found)):
        if wanted & {"all", name}:
            table(options.trials, options.cache, options.jobs)


if __name__ == "__main__":
    main()
