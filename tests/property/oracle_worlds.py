"""Random clusters, workloads and what happens to them between cycles, drawn as data."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from pumice.model.api import AnyObject
from pumice.testing import builders


@dataclass(frozen=True)
class NodeDraw:
    """A node: how much cpu, how many pods, which zone."""

    cpu: int
    pods: int
    zone: int


@dataclass(frozen=True)
class JobDraw:
    """A job: tasks of one or two sizes, how many it needs, where it is queued."""

    tasks: int
    needs: int
    milli: int
    other: int
    queue: int
    priority: int
    on: int
    """Its first task runs on this node already (modulo their number); -1: all wait."""


@dataclass(frozen=True)
class Happening:
    """Something that happens between cycles: what, and to which of the things it can happen to."""

    what: str
    which: int
    amount: int


nodes = st.builds(
    NodeDraw, cpu=st.sampled_from([4, 2, 1, 3, 6, 0]), pods=st.sampled_from([110, 4, 1]), zone=st.integers(0, 3)
)
jobs = st.builds(
    JobDraw,
    tasks=st.sampled_from([3, 4, 5, 6, 2, 1]),
    needs=st.sampled_from([2, 1, 3, 4, 9, 0]),
    milli=st.sampled_from([250, 500, 1000, 2000]),
    other=st.sampled_from([0, 0, 500]),
    queue=st.integers(0, 1),
    priority=st.integers(0, 2),
    on=st.integers(-2, 3),
)
happenings = st.builds(
    Happening,
    what=st.sampled_from(
        ["delete", "add job", "finish", "delete", "relabel", "resize", "remove node", "add node", "remove job"]
    ),
    which=st.integers(0, 9),
    amount=st.integers(0, 4),
)


def node_objects(name: str, draw: NodeDraw) -> AnyObject:
    return builders.node(name, cpu=draw.cpu, memory=0, pods=draw.pods, labels={"zone": str(draw.zone)})


def job_objects(name: str, draw: JobDraw, node_names: list[str]) -> list[AnyObject]:
    """The objects of a job; tasks with an odd number may ask for another amount."""
    on = [node_names[draw.on % len(node_names)]] if draw.on >= 0 and node_names else []
    made = builders.job(
        name,
        tasks=draw.tasks,
        min_available=min(draw.needs, draw.tasks),
        queue=f"q{draw.queue}",
        priority=draw.priority,
        cpu=f"{draw.milli}m",
        on=on,
    )
    if draw.other:
        for n in range(1, draw.tasks, 2):
            made[2 + n] = builders.pod(f"{name}-{n}", group=name, cpu=f"{draw.other}m", priority=draw.priority)
    return made
