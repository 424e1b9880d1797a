"""Names of resources come and go with nodes and pods, and their columns with them: random stories under every policy.

Between any two cycles every name that nobody uses is given back, so that its column serves another name at once. A
scheduler that knows nothing but the objects must decide the same.
"""

from __future__ import annotations

import gc
import random
from dataclasses import replace

import pytest
from law_confs import POLICIES, Policy, assembly_of
from law_story import DECISIONS, traces

from pumice.framework.session.runtime import Runtime
from pumice.model import resources as dimensions
from pumice.model.api import NodeObject, Pod, PodGroup
from pumice.model.events import Seen
from pumice.scheduler.cycle import run_cycle
from pumice.state.cluster import ClusterState
from pumice.state.invariants import violations
from pumice.testing import builders as b
from pumice.testing.world import World

STORIES = 2
CYCLES = 8
AT_A_TIME = 24
"""Names that nodes and jobs mention at a time, at most; a story makes up some ten times as many."""


class NamesStory:
    """Nodes that offer what no other does, jobs that ask for it, or for what nobody offers."""

    def __init__(self, policy: Policy, seed: int) -> None:
        self.chance, self.assembly = random.Random(seed), assembly_of(policy, None)
        self.world, self.state, self.runtime = World(recreate=False), ClusterState(), Runtime()
        self.made = 0
        self.tell(b.queue("q0", capability={"cpu": 24, "example.com/limited": 3}))
        self.tell(b.queue("q1", weight=3))
        for n in range(4):
            self.node(n)

    def tell(self, obj: object) -> None:
        self.state.apply_all(self.world.put(obj))  # type: ignore[arg-type]

    def name(self) -> str:
        self.made += 1
        return f"made-up.example.com/{self.made}-{self.chance.random()}"

    def node(self, n: int) -> None:
        """A node comes, or offers something else from now on."""
        names = [self.name() for _ in range(self.chance.randint(1, 3))]
        if self.chance.random() < 0.5:
            names.append("example.com/limited")
        resources = {name: self.chance.randint(1, 4) for name in names}
        self.tell(b.node(f"n{n}", cpu=self.chance.choice((4, 8)), resources=resources))

    def job(self) -> None:
        offered = sorted(
            {r for o in self.world.objects if isinstance(o, NodeObject) for r in o.status.allocatable or () if "/" in r}
        )
        name = f"j{self.made}-{self.chance.randint(0, 10**9)}"
        asked = {self.chance.choice(offered) if offered and self.chance.random() < 0.5 else self.name(): 1}
        resources = asked if self.chance.random() < 0.8 else {}
        tasks = self.chance.randint(1, 3)
        priority = self.chance.choice((1, 1, 10))
        queue = self.chance.choice(("q0", "q1"))
        for obj in b.job(name, tasks=tasks, cpu=1, queue=queue, priority=priority, resources=resources):
            self.tell(obj)

    def happens(self) -> None:
        groups = sorted(o.key for o in self.world.objects if isinstance(o, PodGroup))
        if len(groups) > 6 or (groups and self.chance.random() < 0.4):
            key = self.chance.choice(groups)
            pods = [o.key for o in self.world.objects if isinstance(o, Pod) and o.key.startswith(f"{key}-")]
            for pod in pods:
                self.state.apply_all(self.world.remove(Pod, pod))
            self.state.apply_all(self.world.remove(PodGroup, key))
        elif self.chance.random() < 0.4:
            self.node(self.chance.randint(0, 3))
        else:
            self.job()

    def cycle(self) -> None:
        self.state.now += 100.0
        self.state.give_names_back()
        self.state.apply_all(self.world.settle())
        again = self.decided_afresh()
        report = run_cycle(self.state, self.assembly, self.runtime, details=True)
        assert report.errors == []
        assert violations(self.state) == []
        assert [i for i in report.intents if isinstance(i, DECISIONS)] == again
        self.nothing_without_a_name()
        self.state.apply_all(self.world.carry_out(report.intents))

    def decided_afresh(self) -> list[object]:
        state, runtime = ClusterState(), Runtime()
        state.now = self.state.now
        for obj in self.world.objects:
            state.apply(Seen(obj))
        assert traces(self.state) == traces(state)
        runtime.nominations = {k: replace(n) for k, n in self.runtime.nominations.items()}
        return [i for i in run_cycle(state, self.assembly, runtime).intents if isinstance(i, DECISIONS)]

    def nothing_without_a_name(self) -> None:
        """A column whose name was given back holds nothing, for whoever has it next."""
        table = self.state.table
        for number in range(min(dimensions.dim_count(), table.width)):
            if not dimensions.dim_name(number):
                for ledger in ("allocatable", "capacity", "idle", "used", "releasing", "pipelined", "evicted"):
                    assert not getattr(table, ledger)[number].any(), f"{ledger} of a name that was given back"


def play(policy: Policy, seed: int) -> None:
    known = dimensions.dim_count()  # of others in this process too
    story = NamesStory(policy, seed)
    for _ in range(CYCLES):
        for _ in range(7):
            story.happens()
        story.cycle()
    assert story.made > AT_A_TIME
    assert not story.state.problems
    assert story.state.table.width < known + AT_A_TIME + 64


def still_known() -> list[str]:
    """Names of the stories that have a column."""
    dimensions.give_back()
    names = (dimensions.dim_name(number) for number in range(dimensions.dim_count()))
    return [name for name in names if name.startswith("made-up.")]


@pytest.mark.parametrize(
    "policy", [pytest.param(p, id=p.name, marks=[pytest.mark.slow] if n else []) for n, p in enumerate(POLICIES)]
)
def test_a_column_that_served_another_name_decides_nothing(policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dimensions, "worth_a_look", lambda: True)
    for seed in range(STORIES):
        play(policy, seed)
    gc.collect()
    assert still_known() == []
