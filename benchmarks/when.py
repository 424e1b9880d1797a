"""Measure answers to "when will it start?": predictions against what came to pass, on the Philly jobs or a log in SWF.

The truth: jobs on interchangeable GPUs (560) or processors, first come first served, whatever fits goes (scan). A job
is asked about once, when it is submitted and has to wait, with what is known then: the runs that ended, the ages of
those that go on, and how the predictions came out whose jobs have started. The first half of the jobs is there to learn
from. Only jobs of the second half that waited more than a minute are judged. Which jobs are asked about is drawn by
their names. *Shown* are those whose queue's calibration held at that moment; the others are told "unknown".
"""

from __future__ import annotations

import argparse
import heapq
import math
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

from pumice.answers.when.calibration import HIGH, LOW, Calibration, StartRange
from pumice.answers.when.forecast import when_all
from pumice.answers.when.forward import Holder, PodShape, Scene, Waiter
from pumice.answers.when.learned import Learned, Past, PastJob, StartForecast, size_of
from pumice.answers.when.run_times import Kind, Outlook, RunTimes
from pumice.sim.draws import uniform_of
from pumice.sim.traces import read
from pumice.sim.traces.model import TraceJob

WINDOW = (2_294_959.0, 7_565_359.0)
GPUS = 560
ALL = "all of them"


class Job(NamedTuple):
    """A job of the trace, as it was played."""

    name: str
    queue: str
    gpus: int
    submitted: float
    started: float
    ended: float


class Outcome(NamedTuple):
    """A prediction, what position by rate said, and how it came out."""

    said: float
    range: StartRange
    rate: float
    rate_range: StartRange
    waited: float
    shown: bool
    """The calibration of its queue held."""


def truth(trace: Sequence[TraceJob], size: int) -> list[Job]:
    """The jobs with their starts and ends, first come first served with scan."""
    free, at = size, 0
    lines: dict[int, deque[int]] = {}
    ends: list[tuple[float, int]] = []
    starts = [math.inf] * len(trace)
    while at < len(trace) or lines:
        now = min(trace[at].submit_s if at < len(trace) else math.inf, ends[0][0] if ends else math.inf)
        while ends and ends[0][0] <= now:
            free += heapq.heappop(ends)[1]
        while at < len(trace) and trace[at].submit_s <= now:
            lines.setdefault(_size(trace[at]), deque()).append(at)
            at += 1
        while fit := [(line[0], size) for size, line in lines.items() if size <= free]:
            n, size = min(fit)
            lines[size].popleft()
            if not lines[size]:
                del lines[size]
            free -= size
            starts[n] = now
            heapq.heappush(ends, (now + trace[n].duration_s, size))
    return [
        Job(job.name, job.queue, _size(job), job.submit_s, start, start + job.duration_s)
        for job, start in zip(trace, starts, strict=True)
    ]


def _size(job: TraceJob) -> int:
    return int(job.gpus) or sum(pods.count for pods in job.pods)


def kind(job: Job) -> Kind:
    return Kind(job.queue, size_of((0, 0, job.gpus * 1000)))


def walked(jobs: Sequence[Job], past: Past, until: float = math.inf) -> None:
    """Tell the past what happened. At one instant room is freed, then jobs come, then they start."""
    events = [(j.ended, 0, n) for n, j in enumerate(jobs)]
    events += [(j.submitted, 1, n) for n, j in enumerate(jobs)] + [(j.started, 2, n) for n, j in enumerate(jobs)]
    for at, what, n in sorted(events):
        if at > until:
            return
        job = jobs[n]
        past.advance(at)
        if what == 0:
            past.ended(job.name)
        elif what == 1:
            past.came(PastJob(job.name, kind(job), ((1, PodShape((job.gpus,))),), at))
        else:
            past.began(job.name, [(ALL, (job.gpus,))])


class Known(RunTimes):
    """Run times as if everybody knew them: what all could be had from better ones."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        super().__init__()
        self._true = {(kind(job), job.submitted): job.ended - job.started for job in jobs}

    def outlook(self) -> Outlook:
        return _True(self._true)


class _True(Outlook):
    def __init__(self, true: dict[tuple[Kind, float], float]) -> None:
        super().__init__({}, 0.0)
        self._true = true

    def draw(self, kind: Kind, submitted: float, age: float, part: float, declared: float = math.inf) -> float:
        return self._true[kind, submitted]


def predicted(jobs: Sequence[Job], wants: Callable[[str], bool], first: float, size: int) -> list[Outcome]:
    """Ask, and see how it came out, for jobs that were submitted from *first* on and waited more than a minute."""
    of, starts = {job.name: job for job in jobs}, sorted(job.started for job in jobs)
    rates, told = Calibration(), list[Outcome]()
    due: list[tuple[float, str]] = []

    def tell(said: StartForecast) -> None:
        job = of[said.job]
        while due and due[0][0] <= said.now:
            at, name = heapq.heappop(due)
            rates.started(name, at)
        recent = bisect_right(starts, said.now) - bisect_right(starts, said.now - 3600.0)
        rate = said.place / max(recent, 1) * 3600.0
        corrected = rates.predicted(job.name, job.queue, said.now, rate)
        heapq.heappush(due, (job.started, job.name))
        waited = job.started - said.now
        if job.submitted >= first and waited > 60 and said.range is not None and corrected is not None:
            doubt = past.calibration.by_queue([job.queue], said.now)[job.queue].doubt
            told.append(Outcome(said.said, said.range, rate, corrected, waited, not doubt))

    past = Past(lambda job: wants(job.job), tell, room={ALL: (size,)})
    walked(jobs, past)
    return told


def ceiling(jobs: Sequence[Job], wants: Callable[[str], bool], first: float, size: int) -> list[tuple[float, float]]:
    """What is said, and what came out, if run times are known."""
    of, told = {job.name: job for job in jobs}, []

    def tell(said: StartForecast) -> None:
        job = of[said.job]
        if job.submitted >= first and job.started - said.now > 60:
            told.append((said.said, job.started - said.now))

    walked(jobs, Past(lambda job: wants(job.job), tell, room={ALL: (size,)}, times=Known(jobs)))
    return told


def close(said: float, waited: float) -> bool:
    """Within a factor of two, or within five minutes."""
    return abs(said - waited) <= 300 or waited / 2 <= said <= 2 * waited


def part_of(good: Sequence[bool]) -> float:
    return sum(good) / len(good)


def pinball(part: float, said: float, waited: float) -> float:
    return part * (waited - said) if waited >= said else (1 - part) * (said - waited)


def _loss(part: float, said: Sequence[float], told: Sequence[Outcome]) -> float:
    return sum(pinball(part, at, o.waited) for at, o in zip(said, told, strict=True)) / len(told)


def report(told: Sequence[Outcome]) -> None:
    mean = sum(o.waited for o in told) / len(told)
    shown = [o for o in told if o.shown]
    print(f"shown: {len(shown):,} of {len(told):,}", end="")
    for name in ("low", "likely", "high") if shown else ():
        held = part_of([o.waited <= getattr(o.range, name) for o in shown])
        print(f"; {held:.3f} started before {name}", end="")
    print(f"\n{len(told):,} predictions of jobs that waited more than a minute; they waited {mean:,.0f} s on average")
    for name, good in (
        ("the middle of the range", [close(o.range.likely, o.waited) for o in told]),
        ("the forecast itself", [close(o.said, o.waited) for o in told]),
        ("position/rate", [close(o.rate, o.waited) for o in told]),
        ("position/rate, corrected as ours", [close(o.rate_range.likely, o.waited) for o in told]),
    ):
        print(f"within a factor of two, or 5 min: {part_of(good):.3f} {name}")
    errors = [abs(o.range.likely - o.waited) for o in told]
    print(f"within 10 min: {part_of([e <= 600 for e in errors]):.3f}; median error {median(errors):,.0f} s")
    width = median([(o.range.high - o.range.low) / o.waited for o in told])
    held = part_of([o.range.low <= o.waited <= o.range.high for o in told])
    print(f"the range holds in {held:.3f}; its median width is {width:.2f} times the wait")
    sums = [0.0, 0.0, 0.0]
    for part, end in ((LOW, "low"), (0.5, "likely"), (HIGH, "high")):
        holds = part_of([o.waited <= getattr(o.range, end) for o in told])
        said = [getattr(o.range, end) for o in told], [o.rate for o in told], [getattr(o.rate_range, end) for o in told]
        losses = [_loss(part, at, told) / mean for at in said]
        sums = [a + b for a, b in zip(sums, losses, strict=True)]
        ours, rate, corrected = losses
        print(
            f"P{100 * part:.0f} holds in {holds:.3f}; pinball loss / mean wait: {ours:.3f} ours, {rate:.3f} "
            f"position/rate, {corrected:.3f} corrected"
        )
    print(
        f"pinball loss, the three together: {100 * (1 - sums[0] / sums[1]):.0f} % better than position/rate, "
        f"{100 * (1 - sums[0] / sums[2]):.0f} % better than position/rate corrected as ours"
    )


def speed() -> None:
    """How long 1,000 waiting jobs take, beside 500 that run: with four sizes, and when all ask for something else."""
    kinds = [Kind("q", size) for size in (1, 2, 4, 8)]
    learned = Learned()
    for n in range(4000):
        run = learned.past.times.began(kinds[n % 4], float(n), 0.0)
        learned.past.times.ended(run, 60 + 20_000 * uniform_of(1, "speed", str(n)) ** 3)
    nodes = {str(n): (10**6, 10**6, 0) for n in range(250)}
    holders = [
        Holder(kinds[n % 4], [(str(n // 2), (0, 0, 1000 * kinds[n % 4].size))], -100.0 * n, submitted=n)
        for n in range(500)
    ]
    for name, odd in (("of four sizes", 0), ("each of another size", 1)):
        waiters = [
            Waiter(str(n), kinds[n % 4], ((1, PodShape((1000, 1 + odd * n, 1000 * kinds[n % 4].size))),), submitted=n)
            for n in range(1000)
        ]
        begun = time.process_time()
        found = when_all(Scene(0.0, nodes, holders, waiters), learned)
        took = time.process_time() - begun
        print(f"1,000 waiting jobs {name} beside 500 that run: {len(found):,} answers in {took:.2f} s of CPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of philly_jobs.csv.gz, or a log in SWF")
    parser.add_argument("--size", type=int, default=GPUS, help="the GPUs or processors of the machine")
    parser.add_argument(
        "--gaps", type=float, default=1.0, help="times the gaps between submissions; below 1: more load"
    )
    parser.add_argument("--jobs", type=int, default=30_000)
    parser.add_argument("--judged", choices=("second", "first"), default="second", help="which half is judged")
    parser.add_argument("--part", type=float, default=0.4, help="the part of the jobs that is asked about")
    given = parser.parse_args()
    speed()
    if given.data.is_dir():
        trace = list(read(given.data / "philly_jobs.csv.gz", window=WINDOW, limit=given.jobs))
    else:
        trace = list(read(given.data, limit=given.jobs))
    trace = [replace(job, submit_s=job.submit_s * given.gaps) for job in trace if _size(job) <= given.size]
    jobs = truth(trace, given.size)
    first = jobs[len(jobs) // 2].submitted
    if given.judged == "first":
        jobs, first = jobs[: len(jobs) // 2], 0.0
    begun = time.process_time()
    report(predicted(jobs, lambda name: uniform_of(7, "ask", name) < given.part, first, given.size))
    print(f"{time.process_time() - begun:.0f} s of CPU")
    known = ceiling(jobs, lambda name: uniform_of(7, "ask", name) < given.part / 8, first, given.size)
    print(f"if run times were known: {part_of([close(s, w) for s, w in known]):.3f} within a factor of two, or 5 min")


if __name__ == "__main__":
    main()
