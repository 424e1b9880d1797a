"""A cluster that is followed in order to be asked about: read by list and watch, and bound in when somebody says so."""

from __future__ import annotations

from pumice.errors import PumiceError
from pumice.kube.backend import BackendSettings, KubeBackend
from pumice.kube.credentials import Credentials
from pumice.model.events import ClusterEvent
from pumice.model.intents import Bind

NEEDED = frozenset(("Node", "Pod"))
"""Kinds without which nothing can be said; PodGroups and Queues are read where the cluster has them."""


class NotBound(PumiceError):
    """The API server did not bind the pod."""


class FollowedCluster:
    """What an extender server knows its cluster by. ``start`` it, and ``stop`` it at the end; any thread may ask."""

    name = "api-server"

    def __init__(self, credentials: Credentials) -> None:
        self._backend = KubeBackend(credentials, BackendSettings(needed=NEEDED))

    def start(self) -> None:
        """Begin to read.

        :raises PumiceError: there are no credentials.
        """
        self._backend.start()

    def stop(self) -> None:
        """Stop reading."""
        self._backend.stop(grace=0.0)

    def trouble(self) -> str:
        """Why the cluster cannot be spoken of, or nothing."""
        if not self._backend.alive:
            return "the connection to the cluster has ended"
        missing = self._backend.inbox.missing
        return f"waiting for the first list of {', '.join(missing)}" if missing else ""

    def drain(self) -> list[ClusterEvent]:
        """Everything that happened since the last call, in order."""
        return self._backend.drain()

    def bind(self, intent: Bind) -> None:
        """Bind, or raise. A pod that has the node already is bound.

        :raises NotBound: the server said no.
        """
        why = self._backend.ask(lambda writer: writer.bind(intent))
        if why is not None:
            raise NotBound(f"pod {intent.pod}: {why}")
