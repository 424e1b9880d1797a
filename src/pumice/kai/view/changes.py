"""One change of a task in mind, with what it takes to undo it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from pumice.framework.session.statement import Operation
from pumice.kai.view.amounts import Amounts
from pumice.kai.view.device_claims import ClaimsBefore
from pumice.kai.view.jobs import JobView
from pumice.kai.view.stage import TaskStage
from pumice.kai.view.tasks import TaskView
from pumice.kai.view.zones import ZonePlacement
from pumice.model.node import Node

Before: TypeAlias = tuple[TaskStage, Node | None, tuple[str, ...], bool, Amounts, ZonePlacement | None]
"""What a task was and had before a change."""


class ChangeKind(Enum):
    """What an operation did."""

    EVICT = "evict"
    PIPELINE = "pipeline"
    ALLOCATE = "allocate"


@dataclass(slots=True, eq=False)
class ViewChange:
    """One change with what it takes to undo it."""

    kind: ChangeKind
    task: TaskView
    node: Node
    before: Before
    valid: bool = True
    """False: it was cancelled by a later one."""
    reason: str = ""
    for_job: JobView | None = None
    claims: ClaimsBefore = ()
    second: Node | None = None
    """Where an evicted task was to go until then."""
    real: Operation | None = None
    """What it did to the task itself; None: the state has no word for it."""
