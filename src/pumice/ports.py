"""The interfaces around a loop: a backend, which gives events and takes intents, and observers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from pumice.model.events import ClusterEvent
from pumice.model.intents import Bind, Intent


class EventSource(Protocol):
    """The source of cluster events."""

    def drain(self) -> Iterable[ClusterEvent]:
        """Everything that happened since the last call, in order. Never waits."""
        ...


class IntentSink(Protocol):
    """Carries intents out; outcomes come back as events."""

    def submit(self, intents: Sequence[Intent]) -> None:
        """Take over a batch of intents. Returns at once; nothing is lost."""
        ...


class Binder(Protocol):
    """Binds one pod: the API server's own, or an extender's."""

    name: str

    def bind(self, intent: Bind) -> None:
        """Bind, or raise."""
        ...


@runtime_checkable
class ReadsBack(Protocol):
    """A binder that asks the cluster where nobody knows whether a bind happened."""

    read_back: Callable[[Bind], str] | None
    """Intended bind -> the node of the pod, empty if none; None until it is set."""


class Observer:
    """Is told what a loop does. It only reads; a subclass overrides the methods that it needs."""

    def handed(self, events: Sequence[ClusterEvent]) -> None:
        """Events came; the state has not taken them in yet."""

    def saw(self, event: ClusterEvent) -> None:
        """The state took an event in."""

    def deciding(self, conf_digest: str, conf: Callable[[], dict[str, Any]]) -> None:
        """All events are in; a cycle follows, under this configuration."""

    def decided(self, intents: Sequence[Intent]) -> None:
        """A cycle decided this; nothing of it was handed over yet."""

    def rest(self) -> None:
        """No cycle follows for now: another replica decides."""
