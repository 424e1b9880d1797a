"""``tune``: search the arguments of a conf by simulation, and believe only what holds on days that had no part in it.

The parts: ``knobs`` (what is varied), ``occasions`` (seeds, or weeks of a trace, split in three), ``objectives`` (what
is wanted), ``evaluations`` (playing, once each), ``racing`` (the search). The result is judged on occasions that
neither searching nor choosing has seen; with nothing to be told there, nothing is recommended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pumice.sim.results.intervals import ALPHA
from pumice.sim.results.pairs import Effect
from pumice.sim.results.seeds import SeedComparison, compare_seeds
from pumice.sim.results.summary import Summary
from pumice.sim.tuning.evaluations import Evaluate
from pumice.sim.tuning.knobs import Candidate, Knob, Point
from pumice.sim.tuning.objectives import Objectives, QueueLoss, Score, queue_losses, score
from pumice.sim.tuning.occasions import Occasion, OccasionSplit
from pumice.sim.tuning.racing import Race, TriedConf, race

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
