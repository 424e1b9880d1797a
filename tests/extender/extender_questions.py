"""Questions as a scheduler writes them, and what they tell as the server reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pumice.extender.asking.calls import QuestionWriter
from pumice.extender.dialects import DIALECTS, QuestionReader
from pumice.extender.protocol import Verb
from pumice.model.resources import Resources, dim_name, unit


def ask(dialect: str, verb: Verb[Any], *things: Any, names_only: bool = False) -> bytes:
    """The question of *verb* about *things*; about the whole cluster for onSessionOpen."""
    writer = QuestionWriter(dialect, names_only=names_only)
    return writer.question(verb, *things) if verb.parts else b"{}"


def told(verb: Verb[Any], body: Any, dialect: str = "") -> dict[str, Any]:
    """What a question tells, by the name of each part; *dialect*: the only one in which it may be."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return QuestionReader(dialect).read(verb, raw).parts


def answered(dialect: str, verb: Verb[Any], body: Any) -> Any:
    """An answer as a scheduler reads it."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return DIALECTS[dialect].read_answer(verb, raw)


def amounts(ledger: Mapping[int, int]) -> dict[str, float]:
    """A ledger by name, as a manifest would write it."""
    return {dim_name(d): value / unit(d) for d, value in ledger.items()}


def asked_for(pod: Any) -> dict[str, float]:
    """What the containers of a pod ask for, as a manifest would write it."""
    found: dict[str, float] = {}
    for container in pod.spec.containers or ():
        requests = Resources.parse(container.resources.requests if container.resources else None)
        found |= {name: float(amount) for name, amount in requests.as_written().items()}
    return found
