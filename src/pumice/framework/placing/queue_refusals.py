"""What queues refuse as they stand now, worded when somebody reads it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from pumice.framework.points import forms
from pumice.framework.points import table as points
from pumice.framework.points.guard import FAILS, let_pass
from pumice.framework.session.refusals import Refusal, Stage, WordedLater
from pumice.model.queue import Queue
from pumice.model.reason import Verdict
from pumice.model.task import Task

if TYPE_CHECKING:
    from pumice.framework.session.session import Session

Refusing: TypeAlias = Callable[[Task], Refusal | None]
"""Why the queue may not take a task; None where it may, or where nobody can tell."""


def as_it_stands(ssn: Session, queue: Queue) -> Refusing | None:
    """The refusals of a queue from what it holds and may have now; None where a plugin can only be asked.

    Numbers decide whether it refuses a task. The words are those of now as well, but are put together when somebody
    reads them: many who wait are told of other numbers in every cycle, and hardly one of them asks.
    """
    stands = ssn.bind(points.ALLOCATABLE_STANDING)(queue)
    if stands is None:
        return None
    asked = tuple(zip(ssn.of_registrations(_plugins), stands, strict=True))
    otherwise = f"queue {queue.name} may not take it"

    def refusal(task: Task) -> Refusal | None:
        for plugin, refused in asked:
            try:
                words = refused(task)
            except FAILS as exc:  # is told of when the plugin is asked in so many words
                let_pass(exc)
                return None
            if words is not None:
                return WordedLater(Stage.QUEUE, partial(_worded, plugin, words, otherwise))
        return None

    return refusal


def _plugins(ssn: Session) -> list[str]:
    return [c.plugin for c in ssn.callbacks(points.ALLOCATABLE)]


def _worded(plugin: str, words: Callable[[], Any], otherwise: str) -> Refusal:
    try:
        said = forms.verdict(plugin, words())
    except FAILS as exc:  # a plugin's own code: the refusal stands, whatever it would have said
        let_pass(exc)
        said = Verdict(False, plugin=plugin)
    return Refusal.of(Stage.QUEUE, said, otherwise=otherwise)
