"""The search: candidates that Optuna proposes race against the conf as it is, on more and more occasions.

A batch of candidates is played on the first two occasions. The better half goes on to twice as many, and so on, until
the rest has seen all of them. Every score is a difference in pairs, so that scores of few and of many occasions can be
compared. The same seed gives the same search, however many cores play it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pumice.errors import ConfigError, InvalidInput, MissingExtra
from pumice.sim.results.summary import Summary
from pumice.sim.tuning.evaluations import Evaluate
from pumice.sim.tuning.knobs import Candidate, Knob, Point
from pumice.sim.tuning.objectives import Objectives, Score, score
from pumice.sim.tuning.occasions import Occasion

BATCH: Final = 8
"""Candidates that race together; a constant, or the number of cores would change the search."""
FIRST: Final = 2
"""Occasions of the first round."""
HOPELESS: Final = 4
"""A candidate that is worse than the base on each of this many occasions is out."""
_STALE: Final = 5
"""Batches without a single new candidate, after which the space is taken for exhausted."""


@dataclass(frozen=True, slots=True)
class TriedConf:
    """A candidate and what it did in the search."""

    candidate: Candidate
    score: Score
    occasions: int


@dataclass(slots=True)
class Race:
    """The result of a search."""

    tried: dict[str, TriedConf] = field(default_factory=dict)
    """By the candidate's key, in the order in which they were proposed."""
    runs: int = 0
    """Runs of candidates, without those of the base."""

    def best(self, most: int, occasions: int) -> list[TriedConf]:
        """Return those that saw all occasions, gained, and let no queue lose; the best first.

        Keep one of several candidates with equal results: values without an effect must not crowd out others.
        """
        whole = [one for one in self.tried.values() if one.occasions == occasions]
        good = [one for one in whole if one.score.feasible and one.score.steps[0] < 0]
        distinct = {one.score.by_occasion: one for one in reversed(ranked(good))}
        return ranked(list(distinct.values()))[:most]


def ranked(tried: Sequence[TriedConf]) -> list[TriedConf]:
    """Return candidates in order: who lets a queue lose comes last, then by the sum of ranks in all figures."""
    ranks = [0.0] * len(tried)
    for figure in range(len(tried[0].score.steps)) if tried else ():
        order = sorted(tried[at].score.steps[figure] for at in range(len(tried)))
        for at, one in enumerate(tried):
            ranks[at] += order.index(one.score.steps[figure])
    keyed = sorted(
        range(len(tried)),
        key=lambda at: (max(tried[at].score.excess, 0.0), ranks[at], tried[at].score.steps, tried[at].candidate.key),
    )
    return [tried[at] for at in keyed]


def race(
    knobs: Sequence[Knob],
    make: Callable[[Point], Candidate],
    base: Candidate,
    occasions: Sequence[Occasion],
    wanted: Objectives,
    evaluate: Evaluate,
    *,
    runs: int,
    seed: int = 0,
) -> Race:
    """Search the space with about so many runs of candidates, and return what was tried.

    :raises MissingExtra: Optuna is not there.
    :raises InvalidInput: no run has the wanted figures.
    """
    try:
        import optuna
    except ImportError as exc:
        raise MissingExtra("pumice tune", "optuna", "tune") from exc
    logging.getLogger("optuna").setLevel(logging.WARNING)
    found = Race()
    study = _study(optuna, len(wanted.figures), seed)
    stale = 0
    while found.runs < runs and stale < _STALE:
        trials = [study.ask() for _ in range(BATCH)]
        candidates = [_made(make, _suggested(trial, knobs)) for trial in trials]
        fresh = {one.key: one for one in candidates if one is not None and one.key != base.key}
        fresh = {key: one for key, one in fresh.items() if key not in found.tried}
        stale = 0 if fresh else stale + 1
        _heat(list(fresh.values()), base, occasions, wanted, evaluate, found, runs)
        for trial, one in zip(trials, candidates, strict=True):
            _tell(optuna, study, trial, one, base, found, wanted)
    return found


def _heat(
    racing: list[Candidate],
    base: Candidate,
    occasions: Sequence[Occasion],
    wanted: Objectives,
    evaluate: Evaluate,
    found: Race,
    runs: int,
) -> None:
    """Let one batch race; what each did is noted."""
    count, before = min(FIRST, len(occasions)), 0
    while racing and (found.runs < runs or before):
        on = occasions[:count]
        results = evaluate([(one, occasion) for one in [base, *racing] for occasion in on])
        found.runs += len(racing) * (count - before)
        reference = _of(base, on, results)
        tried = [TriedConf(one, score(reference, _of(one, on, results), wanted), count) for one in racing]
        found.tried.update((one.candidate.key, one) for one in tried)
        if count == len(occasions):
            return
        going = ranked(tried)[: (len(tried) + 1) // 2]
        racing = [one.candidate for one in going if not _hopeless(one)]
        before, count = count, min(2 * count, len(occasions))


def _of(one: Candidate, on: Sequence[Occasion], results: dict[tuple[str, int], Summary]) -> list[Summary]:
    return [results[one.key, occasion] for occasion in on]


def _hopeless(one: TriedConf) -> bool:
    """Whether it was worse in the first figure, every time."""
    return one.occasions >= HOPELESS and all(steps[0] > 0 for steps in one.score.by_occasion)


def _made(make: Callable[[Point], Candidate], point: Point) -> Candidate | None:
    """The candidate of a point; None where the conf refuses the values."""
    try:
        return make(point)
    except (InvalidInput, ConfigError):
        return None


# -- Optuna ---------------------------------------------------------------------------------------------------------
_EXCESS: Final = "excess"


def _study(optuna: Any, figures: int, seed: int) -> Any:
    def constraints(trial: Any) -> tuple[float]:
        return (trial.user_attrs.get(_EXCESS, -1.0),)

    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is experimental there
        sampler = optuna.samplers.TPESampler(
            seed=seed, n_startup_trials=2 * BATCH, multivariate=True, constant_liar=True, constraints_func=constraints
        )
    return optuna.create_study(directions=["minimize"] * figures, sampler=sampler)


def _suggested(trial: Any, knobs: Sequence[Knob]) -> dict[str, Any]:
    point: dict[str, Any] = {}
    for knob in knobs:
        if knob.choices:
            at = trial.suggest_categorical(knob.name, tuple(range(len(knob.choices))))
            point[knob.name] = knob.choices[at]
        elif knob.whole:
            point[knob.name] = trial.suggest_int(knob.name, int(knob.low), int(knob.high), log=knob.log)
        else:
            drawn = trial.suggest_float(knob.name, knob.low, knob.high, log=knob.log)
            point[knob.name] = min(max(float(f"{drawn:.3g}"), knob.low), knob.high)
    return point


def _tell(
    optuna: Any, study: Any, trial: Any, one: Candidate | None, base: Candidate, found: Race, wanted: Objectives
) -> None:
    done = found.tried.get(one.key) if one is not None else None
    if done is not None:
        trial.set_user_attr(_EXCESS, done.score.excess)
        study.tell(trial, list(done.score.steps))
    elif one is not None and one.key == base.key:
        study.tell(trial, [0.0] * len(wanted.figures))
    else:
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
