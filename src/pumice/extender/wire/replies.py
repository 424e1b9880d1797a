"""The JSON of responses: alike in every dialect, but for a predicate's text and for victims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from msgspec import UNSET

from pumice.extender.wire import messages as m
from pumice.extender.wire.gojson import numbers, sorted_map
from pumice.extender.wire.objects import Json, Wire, WireTask

Reply: TypeAlias = Callable[[Any], Json]
"""From a response to its JSON object."""


def replies(predicate: Callable[[m.PredicateResponse], Json], victim: Callable[[WireTask], object]) -> Reply:
    """The writer of a dialect that says a predicate's answer and a victim in its own way."""

    def victims(response: m.VictimsResponse) -> Json:
        if response.victims is UNSET:
            return {"status": response.status}
        if not isinstance(response.victims, list):
            return {"status": response.status, "victims": None}
        return {"status": response.status, "victims": [victim(task) for task in response.victims]}

    table: dict[type[Wire], Reply] = {**_ALIKE, m.PredicateResponse: predicate, m.VictimsResponse: victims}
    return lambda response: table[type(response)](response)


def _prioritize(response: m.PrioritizeResponse) -> Json:
    if response.scores is UNSET:
        return {"errorMessage": response.error}
    scores = numbers(response.scores) if isinstance(response.scores, dict) else None
    return {"nodeScore": scores, "errorMessage": response.error}


def _batch_predicate(response: m.BatchPredicateResponse) -> Json:
    said: Json = {"errors": sorted_map(response.errors), "code": sorted_map(response.codes)}
    return {**said, "errorMessage": response.error} if response.error else said


def _verdict(response: m.VerdictResponse) -> Json:
    said: Json = {"status": response.status}
    if response.reason:
        said["reason"] = response.reason
    if response.message:
        said["errorMessage"] = response.message
    return said


_ALIKE: Final[dict[type[Wire], Reply]] = {
    m.Acknowledged: lambda response: {},
    m.PrioritizeResponse: _prioritize,
    m.BatchPredicateResponse: _batch_predicate,
    m.VoteResponse: lambda response: {"status": response.status},
    m.VerdictResponse: _verdict,
    m.OverusedResponse: lambda response: {"overused": response.overused},
    m.ErrorResponse: lambda response: {"errorMessage": response.error},
    m.BestNodeResponse: lambda response: {"nodeName": response.node_name, "errorMessage": response.error},
    m.GpuOrderResponse: lambda response: {"gpuScore": numbers(response.scores), "errorMessage": response.error},
    m.OrderResponse: lambda response: {"ranks": numbers(response.ranks)},
}
