"""A dry cycle: what would be decided now, also if some objects were there; nothing of it is left behind.

It runs on the state itself, with what is kept for speed, so it costs what a cycle costs. Everything that a cycle
changes is put back afterwards: tasks, phases, nominations, records of evictions, the memory of plugins. The next real
cycle decides as if there had been none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pumice.errors import InvalidInput
from pumice.framework.session.rounds import copied
from pumice.framework.session.runtime import Runtime
from pumice.framework.session.session import Session, Shard
from pumice.model.api import AnyObject, Pod
from pumice.model.events import Gone, Seen
from pumice.saved.cycle import pack_memory, unpack_memory
from pumice.scheduler.assembly import Assembly
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.report import CycleReport
from pumice.state.assumed import put_back, refused_of, sent_of, take_back
from pumice.state.cluster import ClusterState

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_CLASSES: Final = 100
"""Jobs, and kinds of pods, that are added to a dry cycle at most: each costs the scheduler a look at every node."""
SECONDS: Final = 0.5
"""How much longer than the last cycle a dry cycle with added objects may take."""


def dry_cycle(
    state: ClusterState,
    assembly: Assembly,
    runtime: Runtime,
    *,
    added: Sequence[AnyObject] = (),
    shard: Shard | None = None,
    environment: Mapping[str, Any] | None = None,
    details: bool = False,
    tells: bool = True,
    inspect: Callable[[Session], None] | None = None,
) -> CycleReport:
    """The decisions of a cycle on the state as it is, with *added* objects; for the other arguments see `run_cycle`.

    A session is opened in any case, and figures are published: the caller sees both, even without pending jobs. None of
    the added objects may be there already. Values that a plugin puts into ``ssn.memory`` are put back if they are plain
    values (see `pack_memory`). A plugin must itself keep other data straight, as in a cycle that fails.
    """
    _check_size(state, added)
    until = time.monotonic() + SECONDS + runtime.took if added else 0.0
    with _taken_back(state, runtime, added):
        for obj in added:
            state.apply(Seen(obj))
        return run_cycle(
            state,
            assembly,
            runtime,
            shard=shard,
            environment=environment,
            details=details,
            tells=tells,
            inspect=inspect,
            until=until,
        )


def _check_size(state: ClusterState, added: Sequence[AnyObject]) -> None:
    """Return if added objects are few enough jobs, and their pods few enough kinds.

    :raises InvalidInput: they are more.
    """
    classes: set[int] = set()
    for obj in added:
        if isinstance(obj, Pod) and len(classes) <= MOST_CLASSES:
            with suppress(InvalidInput):  # of which the session tells
                classes.add(state.classes.of(obj).id)
    for many, what in ((classes, "kinds of pods"), ([o for o in added if not isinstance(o, Pod)], "jobs")):
        if len(many) > MOST_CLASSES:
            raise InvalidInput(f"more than {MOST_CLASSES} {what}: at most so many can be tried at once")


@contextmanager
def _taken_back(state: ClusterState, runtime: Runtime, added: Sequence[AnyObject]) -> Iterator[None]:
    """Whatever the block does to the state and to what outlives a session is undone."""
    state.refresh()
    changed, sent = dict(state.changed_jobs), sent_of(state)
    phases = {uid: job.phase for uid, job in state.session_jobs.items()}
    nominated = {uid: task.nominated_node for uid in runtime.nominations if (task := state.tasks.get(uid)) is not None}
    refused = refused_of(state)
    kept = runtime.memory, runtime.health, runtime.nominations, runtime.turns, runtime.told, runtime.cycle
    losses, runtime.losses, took = runtime.losses, dict(runtime.losses), runtime.took
    last_cycle, runtime.last_cycle = runtime.last_cycle, None
    metered, runtime.metered = runtime.metered, True
    runtime.memory, _ = _copied(runtime.memory)
    runtime.health = {name: replace(health) for name, health in runtime.health.items()}
    runtime.nominations, runtime.turns = dict(runtime.nominations), copied(runtime.turns)
    runtime.told = set(runtime.told)
    try:
        yield
    finally:
        take_back(state, sent, state.assumed)
        for obj in reversed(added):
            state.apply(Gone(obj.kind_name, obj.key))
        runtime.memory, runtime.health, runtime.nominations, runtime.turns, runtime.told, runtime.cycle = kept
        runtime.last_cycle, runtime.metered, runtime.losses, runtime.took = last_cycle, metered, losses, took
        for uid, phase in phases.items():
            if state.session_jobs[uid].phase != phase:
                state.set_phase(state.session_jobs[uid], phase)
        for uid, node in nominated.items():
            if state.tasks[uid].nominated_node != node:
                state.nominate(state.tasks[uid], node)
        put_back(state, refused)
        state.changed_jobs.update(changed)


def _copied(memory: dict[str, dict[str, Any]]) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """The memory of plugins, as a copy; caches are left out and made anew."""
    packed, left_out = pack_memory(memory)
    return unpack_memory(packed), left_out
