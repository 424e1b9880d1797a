"""What several actions ask: which jobs starve, what of them waits, and which nodes do not object to a task."""

from __future__ import annotations

from collections.abc import Callable

import volcano_amounts as amounts
from volcano_session import Heap, Session
from volcano_world import Job, Node, Task


def valid(ssn: Session, job: Job) -> bool:
    return ssn.all_say("job_valid", job)


def room_and_filters(ssn: Session, task: Task, node: Node) -> str:
    if not amounts.fits(task.request, ssn.world.future(node)):
        return "no"
    return ssn.predicate(task, node)


def not_never(ssn: Session, task: Task, node: Node) -> str:
    said = ssn.predicate(task, node)
    return said if said == "never" else ""


def passing(
    ssn: Session,
    task: Task,
    nodes: list[Node],
    refused: dict[str, dict[str, str]],
    remembers: bool,
    ask: Callable[[Session, Task, Node], str],
) -> list[Node]:
    """The nodes that do not object; what they say is remembered for the role."""
    known = refused.get(f"{task.job}/{task.role}", {}) if remembers and task.role else {}
    before, out = dict(known), []
    for node in ssn.world.shuffled(nodes):
        said = before.get(node.name) or ask(ssn, task, node)
        if said:
            refused.setdefault(f"{task.job}/{task.role}", {})[node.name] = said
            if said == "never":
                task.unresolvable.add(node.name)
        else:
            out.append(node)
    if out and ask is room_and_filters:
        task.unresolvable.clear()  # it is found no fault with a task that has a place
    return out


def starving_jobs(ssn: Session) -> dict[str, list[Job]]:
    world = ssn.world
    out: dict[str, list[Job]] = {}
    for job in world.shuffled(world.jobs.values()):
        if job.phase != "Pending" and valid(ssn, job):
            mine = out.setdefault(job.queue, [])
            if ssn.starving(job):
                mine.append(job)
    return out


def waiting(ssn: Session, job: Job) -> Heap[Task]:
    return Heap(ssn.task_less, ssn.world.shuffled(t for t in job.of("Pending") if not t.gates))
