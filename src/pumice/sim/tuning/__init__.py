"""``tune``: search the arguments of a conf by simulation, and believe only what holds on days that had no part in it.

The parts: ``knobs`` (what is varied), ``occasions`` (seeds, or weeks of a trace, split in three), ``objectives`` (what
is wanted), ``evaluations`` (playing, once each), ``racing`` (the search). The result is judged on occasions that
neither searching nor choosing has seen; with nothing to be told there, nothing is recommended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pumice.errors import ConfigError, InvalidInput, MissingExtra
from pumice.sim.results.intervals import ALPHA, Effect
from pumice.sim.results.seeds import SeedComparison, compare_seeds
from pumice.sim.results.summary import Summary
from pumice.sim.tuning.evaluations import (
    Evaluate,
    Objectives,
    Occasion,
    OccasionSplit,
    QueueLoss,
    Score,
    queue_losses,
    score,
)
from pumice.sim.tuning.knobs import Candidate, Knob, Point

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


FINALISTS = 4
BASE, TUNED = "as it is", "tuned"


@dataclass(frozen=True, slots=True)
class Finalist:
    """A candidate that came through the search, and what it did on the occasions to choose on."""

    tried: TriedConf
    chosen_on: Score


@dataclass(frozen=True, slots=True)
class Tuning:
    """The result of a tuning."""

    race: Race
    finalists: tuple[Finalist, ...]
    """The best first."""
    winner: Candidate | None
    """The candidate that was played on the occasions held out; None before that."""
    comparison: SeedComparison | None
    """The winner against the conf as it is, on the occasions held out."""
    losses: dict[str, QueueLoss]
    """There, what became of each queue's mean wait."""
    why_not: str
    """Why nothing is recommended; empty if the winner is."""
    looks: int = 1
    """How many tunings the occasions held out have judged, as far as is known."""

    @property
    def recommended(self) -> bool:
        """Whether the winner is better beyond chance, and within what was allowed."""
        return self.winner is not None and not self.why_not


def tune(
    knobs: Sequence[Knob],
    make: Callable[[Point], Candidate],
    base: Candidate,
    split: OccasionSplit,
    wanted: Objectives,
    evaluate: Evaluate,
    *,
    runs: int = 200,
    seed: int = 0,
    look: Callable[[], int] = lambda: 1,
) -> Tuning:
    """Search, choose, and judge what was chosen once; the same arguments give the same result.

    *look* returns how many tunings the days held out have judged, this one included: its interval is the wider for it.

    :raises MissingExtra: Optuna is not there.
    :raises InvalidInput: no run has the wanted figures.
    """
    searched = race(knobs, make, base, split.search, wanted, evaluate, runs=runs, seed=seed)
    best = searched.best(FINALISTS, len(split.search))
    if not best:
        why = f"of {len(searched.tried)} configurations none was better on all of the occasions searched on"
        return Tuning(searched, (), None, None, {}, why)
    finalists = _chosen(best, base, split.choose, wanted, evaluate)
    winner = finalists[0]
    if winner.chosen_on.steps[0] >= 0 or not winner.chosen_on.feasible:
        why = "what looked best in the search was not better on the occasions to choose on"
        return Tuning(searched, finalists, None, None, {}, why)
    candidate = _plainer(winner.tried.candidate, make, (*split.search, *split.choose), evaluate)
    results = evaluate([(one, occasion) for one in (base, candidate) for occasion in split.held_out])
    before, after = _runs(base, split.held_out, results), _runs(candidate, split.held_out, results)
    looks = look()
    comparison = compare_seeds({BASE: before, TUNED: after}, primary=wanted.figures[0].key, alpha=ALPHA / looks)
    losses = queue_losses(list(before.values()), list(after.values()))
    return Tuning(searched, finalists, candidate, comparison, losses, _objection(comparison, losses, wanted), looks)


def _plainer(
    one: Candidate, make: Callable[[Point], Candidate], on: Sequence[Occasion], evaluate: Evaluate
) -> Candidate:
    """The same without values that change no run: a conf should say only what matters."""
    for name in dict(one.point):
        other = make({key: value for key, value in one.point if key != name})
        if all(_same(one, other, occasion, evaluate) for occasion in on):  # the first that differs ends it
            one = other
    return one


def _same(one: Candidate, other: Candidate, on: Occasion, evaluate: Evaluate) -> bool:
    found = evaluate([(one, on), (other, on)])
    first, second = found[one.key, on], found[other.key, on]
    return (first.total, first.by_queue, first.makespan_s) == (second.total, second.by_queue, second.makespan_s)


def _runs(one: Candidate, on: Sequence[Occasion], results: dict[tuple[str, int], Summary]) -> dict[int, Summary]:
    return {occasion: results[one.key, occasion] for occasion in on}


def _chosen(
    best: Sequence[TriedConf], base: Candidate, on: Sequence[Occasion], wanted: Objectives, evaluate: Evaluate
) -> tuple[Finalist, ...]:
    """The finalists and what they did on fresh occasions, the best first: of several figures, the knee of the front."""
    results = evaluate([(one, occasion) for one in [base, *(t.candidate for t in best)] for occasion in on])
    reference = list(_runs(base, on, results).values())
    found = [Finalist(t, score(reference, list(_runs(t.candidate, on, results).values()), wanted)) for t in best]
    spans = [max(abs(one.chosen_on.steps[figure]) for one in found) or 1.0 for figure in range(len(wanted.figures))]

    def rank(one: Finalist) -> tuple[bool, bool, float, str]:
        steps = one.chosen_on.steps
        gain = sum(step / span for step, span in zip(steps, spans, strict=True))
        return not one.chosen_on.feasible, steps[0] >= 0, gain, one.tried.candidate.key

    return tuple(sorted(found, key=rank))


def _objection(comparison: SeedComparison, losses: dict[str, QueueLoss], wanted: Objectives) -> str:
    """Why the winner is not recommended after all; nothing if it is."""
    verdicts: dict[str, Effect | None] = {
        figure.key: comparison.row(figure.key).effects[1] for figure in wanted.figures
    }
    first = wanted.figures[0].key
    effect = verdicts.pop(first)
    if effect is None or effect.verdict != "better":
        said = "has no value" if effect is None else {"worse": "is worse"}.get(effect.verdict, f"{effect.verdict}")
        return f"on the occasions held out, {first}: {said}"
    worse = [key for key, found in verdicts.items() if found is not None and found.verdict == "worse"]
    if worse:
        return f"on the occasions held out, worse: {', '.join(worse)}"
    if wanted.most_loss is not None:
        over = {name: loss.grew for name, loss in losses.items() if loss.above(wanted.most_loss)}
        if over:
            said = ", ".join(f"{name} by {100 * grew.estimate:.0f} %" for name, grew in over.items())
            return f"on the occasions held out, queues would wait longer: {said}"
    return ""


__all__ = ["BASE", "TUNED", "Finalist", "Tuning", "tune"]
