"""Both forms at once: every object has the documented fields first and Volcano's after them.

A service written for either understands it. Go matches names without regard to case, so a later field overwrites an
earlier one of the same name; that is why Volcano's come last, and no documented field has the name of one of
Volcano's with another type. One service does not understand it: one written in Go that reads a node's documented
``allocatable``, ``idle`` or ``used`` into a map of numbers. Ask that one in the documented dialect.

See ``dialects.Dialect`` for what the four functions promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET

from pumice.extender.wire import documented, documented_objects, volcano, volcano_jobs, volcano_objects, volcano_tasks
from pumice.extender.wire.documented_objects import DocQueue
from pumice.extender.wire.forms import Form, Forms, ObjectDialect
from pumice.extender.wire.gostructs import GoJob, GoNode, GoQueue, GoSnapshot, GoTask
from pumice.extender.wire.messages import PredicateResponse
from pumice.extender.wire.objects import Json, WireGpu, WireJob, WireNode, WireQueue, WireSnapshot, WireTask
from pumice.extender.wire.replies import replies
from pumice.extender.wire.verbs import OUR_VERBS, VOLCANO_VERBS


class BothTask(GoTask, kw_only=True):
    """What is read of a task: Volcano's fields, and the queue, which only the documentation has."""

    queue: str = ""


class BothQueue(GoQueue, kw_only=True):
    """What is read of a queue: Volcano's fields, and the documented amounts, which are those of this moment."""

    capability: dict[str, int | float] | None = None
    deserved: dict[str, int | float] | None = None
    guarantee: dict[str, int | float] | None = None
    allocated: dict[str, int | float] | None = None


class _Queues(msgspec.Struct):
    queues: list[DocQueue] | None = None


class BothSnapshot(GoSnapshot, kw_only=True):
    """What is read of a cluster: Volcano's fields, and the documented queues."""

    snapshot: _Queues = msgspec.field(default_factory=_Queues)


def _read_task(task: BothTask) -> WireTask:
    return msgspec.structs.replace(volcano_tasks.read_task(task), queue=task.queue)


def _read_queue(queue: BothQueue) -> WireQueue:
    told = DocQueue(queue.Name, 0, queue.capability, queue.deserved, queue.guarantee, queue.allocated)
    return _with_amounts(volcano_objects.read_queue(queue), told)


def _read_snapshot(snapshot: BothSnapshot) -> WireSnapshot:
    cluster = volcano_objects.read_snapshot(snapshot)
    told = {queue.name: queue for queue in snapshot.snapshot.queues or ()}
    queues = [_with_amounts(queue, told[queue.name]) if queue.name in told else queue for queue in cluster.queues]
    return msgspec.structs.replace(cluster, queues=queues)


def _with_amounts(queue: WireQueue, told: DocQueue) -> WireQueue:
    documented_queue = documented_objects.read_queue(told)
    return msgspec.structs.replace(
        queue,
        capability=documented_queue.capability,
        deserved=documented_queue.deserved,
        guarantee=documented_queue.guarantee,
        allocated=documented_queue.allocated,
    )


def _write(value: object) -> Json:
    """Both forms of *value* in one object."""
    kind = type(value)
    return _fields(documented_objects.FORMS[kind].write(value)) | _fields(volcano_objects.FORMS[kind].write(value))


def _write_snapshot(snapshot: WireSnapshot) -> Json:
    return {
        "snapshot": documented_objects.write_snapshot(snapshot),
        **_fields(volcano_objects.write_snapshot(snapshot)),
    }


def _fields(form: object) -> Json:
    fields: Mapping[str, Any] = msgspec.structs.asdict(cast("msgspec.Struct", form))
    return {name: value for name, value in fields.items() if value is not UNSET}


def _predicate_reply(response: PredicateResponse) -> Json:
    return documented.predicate_reply(response) | volcano.predicate_reply(response)


FORMS: Final[Forms] = {
    WireTask: Form(BothTask, _read_task, _write),
    WireNode: Form(GoNode, volcano_tasks.read_node, _write),
    WireJob: Form(GoJob, volcano_jobs.read_job, _write),
    WireQueue: Form(BothQueue, _read_queue, _write),
    WireSnapshot: Form(BothSnapshot, _read_snapshot, _write_snapshot, inline=True),
    WireGpu: documented_objects.FORMS[WireGpu],
}
"""Every kind of object in both forms; devices, which Volcano does not send, are as documented."""

_DIALECT: Final = ObjectDialect(
    "both", VOLCANO_VERBS | OUR_VERBS, FORMS, replies(_predicate_reply, _write), no_items=[]
)

name: Final = _DIALECT.name
verbs: Final = _DIALECT.verbs
encode_request: Final = _DIALECT.encode_request
encode_object: Final = _DIALECT.encode_object
encode_parts: Final = _DIALECT.encode_parts
decode_request: Final = _DIALECT.decode_request
decode_object: Final = _DIALECT.decode_object
kinds: Final = _DIALECT.kinds
encode_response: Final = _DIALECT.encode_response
decode_response: Final = _DIALECT.decode_response
