"""The OpenAPI document of a server: its verbs in the documented dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pumice.extender.wire import messages as m
from pumice.extender.wire.objects import STATUS_BITS
from pumice.extender.wire.verbs import PREEMPT, VERBS, Verb

Schema = dict[str, Any]


def _object(required: tuple[str, ...] = (), **properties: Schema) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_TEXT: Final[Schema] = {"type": "string"}
_NAME: Final[Schema] = {"type": "string", "minLength": 1}
_WHOLE: Final[Schema] = {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1}
_AMOUNTS: Final = _map({"type": "number", "minimum": 0, "maximum": 1e12})
_SCORES: Final = _map({"type": "number"})

_SCHEMAS: Final[dict[str, Schema]] = {
    "Task": _object(
        ("namespace", "name"),
        **dict.fromkeys(("uid", "namespace", "name", "job", "queue", "role", "nodeName"), _TEXT),
        resources=_AMOUNTS,
        priority=_WHOLE,
        labels=_map(_TEXT),
        annotations=_map(_TEXT),
        phase={"type": "string", "enum": list(STATUS_BITS)},
    ),
    "Node": _object(
        ("name",),
        name=_NAME,
        labels=_map(_TEXT),
        annotations=_map(_TEXT),
        taints=_list(_object(("key", "effect"), key=_TEXT, value=_TEXT, effect=_TEXT)),
        allocatable=_AMOUNTS,
        idle=_AMOUNTS,
        used=_AMOUNTS,
    ),
    "Job": _object(
        ("namespace", "name"),
        **dict.fromkeys(("uid", "namespace", "name", "queue"), _TEXT),
        minAvailable=_WHOLE,
        priority=_WHOLE,
        annotations=_map(_TEXT),
        members=_list(_ref("Task")),
    ),
    "Queue": _object(
        ("name",),
        name=_NAME,
        weight=_WHOLE,
        capability=_AMOUNTS,
        deserved=_AMOUNTS,
        guarantee=_AMOUNTS,
        allocated=_AMOUNTS,
        state=_TEXT,
    ),
    "Gpu": _object(("index",), index=_NAME, used={"type": "number"}, memory={"type": "number"}),
    "Snapshot": _object((), jobs=_list(_ref("Job")), nodes=_list(_ref("Node")), queues=_list(_ref("Queue"))),
    "Error": _object(("errorMessage",), errorMessage=_TEXT),
}

_REQUESTS: Final[Mapping[type, Schema]] = {
    m.SessionOpenRequest: _object((), snapshot=_ref("Snapshot")),
    m.SessionCloseRequest: _object(),
    m.PredicateRequest: _object(("task", "node"), task=_ref("Task"), node=_ref("Node")),
    m.NodesRequest: _object(("task", "nodes"), task=_ref("Task"), nodes=_list(_ref("Node"))),
    m.VictimsRequest: _object(("evictor", "evictees"), evictor=_ref("Task"), evictees=_list(_ref("Task"))),
    m.TasksRequest: _object(("tasks",), tasks=_list(_ref("Task"))),
    m.TaskRequest: _object(("task",), task=_ref("Task")),
    m.JobRequest: _object(("job",), job=_ref("Job")),
    m.JobsRequest: _object(("jobs",), jobs=_list(_ref("Job"))),
    m.QueueRequest: _object(("queue",), queue=_ref("Queue")),
    m.QueuesRequest: _object(("queues",), queues=_list(_ref("Queue"))),
    m.AllocatableRequest: _object(("queue", "task"), queue=_ref("Queue"), task=_ref("Task")),
    m.BestNodeRequest: _object(("task", "nodeScore"), task=_ref("Task"), nodeScore=_SCORES),
    m.GpuOrderRequest: _object(("task", "node", "gpus"), task=_ref("Task"), node=_ref("Node"), gpus=_list(_ref("Gpu"))),
    m.BindRequest: _object(("task", "node"), task=_ref("Task"), node=_ref("Node")),
}

_RESPONSES: Final[Mapping[type, Schema]] = {
    m.Acknowledged: _object(),
    m.PredicateResponse: _object(("code", "errorMessage"), code={"type": "integer"}, errorMessage=_TEXT),
    m.PrioritizeResponse: _object(("errorMessage",), nodeScore=_SCORES, errorMessage=_TEXT),
    m.BatchPredicateResponse: _object(("errors", "code"), errors=_map(_TEXT), code=_map({"type": "integer"})),
    m.VictimsResponse: _object(("status",), status={"type": "integer"}, victims=_list(_object((), uid=_TEXT))),
    m.VoteResponse: _object(("status",), status={"type": "integer"}),
    m.VerdictResponse: _object(("status",), status={"type": "boolean"}, reason=_TEXT, errorMessage=_TEXT),
    m.OverusedResponse: _object(("overused",), overused={"type": "boolean"}),
    m.ErrorResponse: _object(("errorMessage",), errorMessage=_TEXT),
    m.BestNodeResponse: _object(("nodeName",), nodeName=_TEXT, errorMessage=_TEXT),
    m.GpuOrderResponse: _object(("gpuScore",), gpuScore=_SCORES, errorMessage=_TEXT),
    m.OrderResponse: _object(("ranks",), ranks=_SCORES),
}

_ERRORS: Final = {
    "400": "The question cannot be read, or an object in it breaks a rule.",
    "401": "The bearer token is missing or wrong.",
    "409": "The policy read something that neither the call nor a snapshot holds.",
    "413": "The question is too large.",
    "500": "The policy failed.",
}


def document(paths: Mapping[str, Verb[Any, Any]], title: str, *, token: bool) -> dict[str, Any]:
    """The document for a server that answers *paths*. kube-scheduler's own verb (preempt) is left out."""
    described = {
        f"/{path}": {"post": _operation(path, verb)}
        for path, verb in sorted(paths.items())
        if verb is not PREEMPT and path != "filter"
    }
    components: dict[str, Any] = {"schemas": _SCHEMAS}
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": title, "version": "1", "description": "A Volcano extender, in the documented dialect."},
        "paths": described,
        "components": components,
    }
    if token:
        components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"bearer": []}]
    return found


def _operation(path: str, verb: Verb[Any, Any]) -> dict[str, Any]:
    error = {"application/json": {"schema": _ref("Error")}}
    answer = {"description": _first_line(verb.response), "content": _json(_RESPONSES[verb.response])}
    return {
        "operationId": path,
        "summary": _first_line(verb.request),
        "requestBody": {"required": True, "content": _json(_REQUESTS[verb.request])},
        "responses": {
            "200": answer,
            **{status: {"description": text, "content": error} for status, text in _ERRORS.items()},
        },
    }


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _first_line(thing: type) -> str:
    return (thing.__doc__ or "").strip().splitlines()[0]


def all_paths(renamed: Mapping[str, str]) -> dict[str, Verb[Any, Any]]:
    """Path -> verb: each under its own name, or under the one that it was given instead."""
    return {renamed.get(name, name).strip("/"): verb for name, verb in VERBS.items()}
