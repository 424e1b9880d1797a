"""What a shape is, and the parts that shapes are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pumice.framework.plugin import Plugin
from pumice.model import api
from pumice_bench.objects import group, node, pod, queue, total

Objects = list[api.AnyObject]
PLUGINS_1 = "priority gang conformance"
PLUGINS_2 = "overcommit drf predicates proportion nodeorder binpack"


@dataclass(slots=True)
class Shape:
    """A cluster and the cycles that are measured on it."""

    name: str
    objects: Objects
    cycles: list[tuple[Objects, list[tuple[str, str]]]]
    """Per measured cycle: what is seen and what goes (kind, key) before it."""
    tasks: int
    """Tasks that the measured cycles are about."""
    actions: str = "enqueue, allocate, backfill"
    tiers: tuple[str, str] = (PLUGINS_1, PLUGINS_2)
    flags: dict[str, dict[str, bool]] = field(default_factory=dict)
    binds: int | None = None
    evictions: int | None = None
    pipelined: int | None = None
    per_cycle: bool = False
    """Is the time of one cycle what counts (else tasks per second)?"""
    warm: int = 0
    """Cycles at the beginning that are not measured."""
    policy: type[Plugin] | None = None
    """A user's plugin, the last one of the tiers."""
    dialect: str = ""
    """Whose conf it is; Volcano's, where nothing is said."""
    events_only: bool = False
    """Are the events what is measured, and no cycle?"""


def gang(job: str, n: int, wants: api.ResourceList, order: int, **kw: object) -> Iterator[api.AnyObject]:
    """A PodGroup whose minimum is all of its pods, which wait."""
    queue_name = str(kw.pop("queue", "default"))
    phase = str(kw.pop("phase", "Pending"))
    yield group(job, n, order=order, minimum=total(wants, n), queue=queue_name, phase=phase)
    for i in range(n):
        yield pod(job, i, wants, order=order, **kw)  # type: ignore[arg-type]


def base(nodes: int, **labels: Callable[[int], str]) -> Objects:
    """Empty nodes and one queue."""
    return [
        queue("default"),
        *(node(i, labels={k: f(i) for k, f in labels.items()}) for i in range(nodes)),
    ]


def running(nodes: int, each: int, wants: api.ResourceList, queue: str = "default") -> Iterator[api.AnyObject]:
    """Jobs of one pod that run, *each* of them on every node."""
    for j in range(nodes * each):
        yield group(f"r{j}", 1, order=j, minimum=total(wants, 1), queue=queue, phase="Running")
        yield pod(f"r{j}", 0, wants, order=j, node=f"node-{j // each:05d}")
