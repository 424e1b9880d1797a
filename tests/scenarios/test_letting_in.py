"""enqueue asks of jobs that get equal votes only the first, and lets in whom asking everybody would."""

from __future__ import annotations

import random
from typing import ClassVar

import pytest

from pumice import Arguments, Job, Plugin, Session
from pumice.testing import Scenario


class Budget(Plugin):
    """Lets jobs in while the CPUs of those let in stay within a budget per queue."""

    name = "budget"
    asked: ClassVar[int] = 0
    keyed: ClassVar[bool] = True

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)

    def on_session_open(self, ssn: Session) -> None:
        self._left = ssn.memory.setdefault("left", {"a": 9000, "b": 7000})
        key = (lambda job: (job.queue, job.min_resources)) if Budget.keyed else None
        ssn.add_job_enqueueable_fn(self.name, self._vote, key=key)
        ssn.add_job_enqueued_fn(self.name, self._enqueued)

    def _vote(self, job: Job) -> int:
        Budget.asked += 1
        return 1 if job.min_resources is not None and job.min_resources.milli_cpu <= self._left[job.queue] else -1

    def _enqueued(self, job: Job) -> None:
        self._left[job.queue] -= int(job.min_resources.milli_cpu) if job.min_resources is not None else 0


def phases(*, keyed: bool, seed: int) -> tuple[dict[str, str], dict[str, str], int]:
    """Phases and reasons after some cycles in which jobs come and go, and how often the plugin was asked."""
    Budget.asked, Budget.keyed = 0, keyed
    rng = random.Random(seed)
    scenario = Scenario()
    scenario.node("n1", cpu=64).queue("a").queue("b")
    number = 0
    for _ in range(4):
        for _ in range(12):
            cpu = rng.choice((1, 2, 3))
            scenario.job(
                f"j{number:03d}",
                queue=rng.choice("ab"),
                cpu=cpu,
                priority=rng.choice((0, 0, 5)),
                min_resources={"cpu": str(cpu)},
                phase="Pending",
            )
            number += 1
        if number == 12:
            scenario.run(plugins=["priority", "gang", Budget], actions=["enqueue", "allocate"])
        else:
            scenario.run()
    jobs = scenario.state.jobs
    why = {uid: r.text for uid, r in scenario.last.report.refusals.items()}
    return {uid: str(job.phase) for uid, job in jobs.items()}, why, Budget.asked


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.part(4)
def test_grouped_votes_let_in_whom_votes_one_by_one_do(seed: int) -> None:
    one_by_one, why, asked = phases(keyed=False, seed=seed)
    assert len(why) > 10
    grouped, said, fewer = phases(keyed=True, seed=seed)
    assert grouped == one_by_one
    assert said == why
    assert fewer < asked
