"""How good answers to "when will it start?" are, on the Philly jobs: predictions against what came to pass.

The truth: 30,000 jobs on 560 interchangeable GPUs, first come first served, whoever fits goes (scan). Asked once for
each job that waits, at its submission, with what is known then: run times of jobs that ended, predictions whose outcome
is known. Jobs that waited more than a minute count.
"""

from __future__ import annotations

import argparse
import heapq
import math
import time
from pathlib import Path
from statistics import median

from pumice.answers.when.calibration import HIGH, LOW
from pumice.answers.when.forward import Holder, Scene, Waiter, forecast
from pumice.answers.when.past import DRAWS, Learned, PastJob, StartOutcome, size_of
from pumice.answers.when.run_times import Kind, RunTimes
from pumice.sim.draws import uniform_of
from pumice.sim.traces import read

WINDOW = (2_294_959.0, 7_565_359.0)
GPUS = 560


def truth(path: Path, limit: int) -> list[PastJob]:
    """The jobs with their starts and ends, first come first served with scan."""
    trace = read(path / "philly_jobs.csv.gz", window=WINDOW, limit=limit)
    jobs = []
    for job in trace:
        asks = (0, 0, int(job.gpus) * 1000)
        jobs.append(PastJob(job.name, Kind(job.queue, size_of(asks)), asks, job.submit_s, declared=math.inf))
    lengths = [job.duration_s for job in trace]
    free = GPUS * 1000
    waiting: list[int] = []
    ends: list[tuple[float, int]] = []
    starts = [math.inf] * len(jobs)
    at = 0
    while at < len(jobs) or waiting:
        now = min(jobs[at].submitted if at < len(jobs) else math.inf, ends[0][0] if ends else math.inf)
        while ends and ends[0][0] <= now:
            free += heapq.heappop(ends)[1]
        while at < len(jobs) and jobs[at].submitted <= now:
            waiting.append(at)
            at += 1
        left = []
        for n in waiting:
            asked = jobs[n].asks[2]
            if asked <= free:
                free -= asked
                starts[n] = now
                heapq.heappush(ends, (now + lengths[n], asked))
            else:
                left.append(n)
        waiting = left
    return [
        job._replace(started=start, ended=start + length)
        for job, start, length in zip(jobs, starts, lengths, strict=True)
    ]


def close(said: float, waited: float) -> bool:
    """Within a factor of two, or within five minutes."""
    return abs(said - waited) <= 300 or waited / 2 <= said <= 2 * waited


def pinball(part: float, said: float, waited: float) -> float:
    return part * (waited - said) if waited >= said else (1 - part) * (said - waited)


def speed() -> None:
    """How long 1,000 waiting jobs take, beside 500 that run."""
    times = RunTimes()
    kinds = [Kind("q", size) for size in (1, 2, 4, 8)]
    for n in range(4000):
        times.learn(kinds[n % 4], 60 + 20_000 * uniform_of(1, "speed", str(n)) ** 3)
    holders = [Holder(kinds[n % 4], (0, 0, 1000 * kinds[n % 4].size), -100.0 * n) for n in range(500)]
    waiters = [Waiter(str(n), kinds[n % 4], (0, 0, 1000 * kinds[n % 4].size)) for n in range(1000)]
    begun = time.process_time()
    found = forecast(Scene(0.0, (0, 0, 0), holders, waiters), times, draws=DRAWS)
    took = time.process_time() - begun
    print(f"1,000 waiting jobs beside 500 that run: all predicted in {took:.2f} s of CPU ({len(found):,} answers)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of philly_jobs.csv.gz")
    parser.add_argument("--jobs", type=int, default=30_000)
    parser.add_argument("--part", type=float, default=0.16, help="the part of the jobs that is asked about")
    given = parser.parse_args()
    speed()
    past = truth(given.data, given.jobs)
    learned, begun = Learned(), time.process_time()
    walked = learned.walk(past, (0, 0, GPUS * 1000), lambda job: uniform_of(7, "ask", job.job) < given.part)
    told = [(o, o.range) for o in walked if o.waited > 60]
    took = time.process_time() - begun
    counted = [(o, found) for o, found in told if found is not None]
    mean = sum(o.waited for o, _ in counted) / len(counted)
    print(f"{len(told):,} predictions of jobs that waited more than a minute, {len(counted):,} with a range")
    print(f"{took:.0f} s of CPU")
    for name, good in (
        ("the forecast", [close(o.predicted, o.waited) for o, _ in told]),
        ("the middle of the range", [close(found.likely, o.waited) for o, found in counted]),
        ("position/rate", [close(rate(o), o.waited) for o, _ in told]),
    ):
        print(f"within a factor of two, or 5 min, {name}: {sum(good) / len(good):.3f}")
    errors = [abs(o.predicted - o.waited) for o, _ in told]
    print(f"within 10 min: {sum(e <= 600 for e in errors) / len(errors):.3f}; median error {median(errors):,.0f} s")
    ours = theirs = 0.0
    for part, said in (
        (LOW, [found.low for _, found in counted]),
        (0.5, [found.likely for _, found in counted]),
        (HIGH, [found.high for _, found in counted]),
    ):
        waits = [o.waited for o, _ in counted]
        holds = sum(w <= at for w, at in zip(waits, said, strict=True)) / len(said)
        loss = sum(pinball(part, at, w) for w, at in zip(waits, said, strict=True)) / len(said) / mean
        base = sum(pinball(part, rate(o), o.waited) for o, _ in counted) / len(said) / mean
        ours, theirs = ours + loss, theirs + base
        print(f"P{100 * part:.0f} holds in {holds:.3f}; pinball loss / mean wait {loss:.3f}, position/rate {base:.3f}")
    print(f"pinball loss, the three together: {100 * (1 - ours / theirs):.0f} % better than position/rate")


def rate(outcome: StartOutcome) -> float:
    """Place in the queue by starts of the last hour."""
    return outcome.place / max(outcome.recent, 1) * 3600


if __name__ == "__main__":
    main()
