"""The scheduler conf in a ConfigMap: one object, followed through the API, read as if it were a file."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Mapping, Sequence

from pumice.kube.kinds import ConfigMap, Resource
from pumice.model.events import ClusterEvent, Gone, Seen


class ConfMap:
    """One ConfigMap as last seen. The backend's thread tells it, the scheduler's thread reads it.

    Without a key the map must have exactly one.
    """

    def __init__(self, namespace: str, name: str, key: str = "") -> None:
        self.namespace, self.name, self.key = namespace, name, key
        self.changed: Callable[[], None] = lambda: None
        """Called when another content was seen."""
        self._lock = threading.Lock()
        self._data: Mapping[str, str] | None = None
        self._why = "it was not listed yet"

    @classmethod
    def parse(cls, text: str) -> ConfMap:
        """Return the map that ``NAMESPACE/NAME`` or ``NAMESPACE/NAME/KEY`` names."""
        return cls(*text.split("/"))

    def __str__(self) -> str:
        return f"ConfigMap {self.namespace}/{self.name}"

    @property
    def resource(self) -> Resource:
        """Where its namespace's ConfigMaps are."""
        return Resource("ConfigMap", f"/api/v1/namespaces/{self.namespace}", "configmaps")

    @property
    def query(self) -> dict[str, str]:
        """What limits a list or watch to this one: rights on the one object are enough then."""
        return {"fieldSelector": f"metadata.name={self.name}"}

    def read_bytes(self) -> bytes:
        """The conf.

        :raises OSError: there is none; says why.
        """
        with self._lock:
            data, why = self._data, self._why
        if data is None:
            raise OSError(errno.ENOENT, why)
        if self.key:
            if self.key not in data:
                raise OSError(errno.ENOENT, f"it has no key {self.key!r}, only {_named(data)}")
            return data[self.key].encode()
        if len(data) != 1:
            raise OSError(errno.ENOENT, f"it must have one key or the key must be named, it has {_named(data)}")
        return next(iter(data.values())).encode()

    # -- told by the reflector --------------------------------------------------------------------------------------
    def first(self, kind: str, events: Sequence[ClusterEvent]) -> None:
        """The first list."""
        with self._lock:
            self._why = "it does not exist"
        self.put(events)
        self.changed()

    def put(self, events: Sequence[ClusterEvent]) -> None:
        """The map came, changed or went."""
        for event in events:
            match event:
                case Seen(object=ConfigMap() as found):
                    with self._lock:
                        self._data = found.data or {}
                case Gone():
                    with self._lock:
                        self._data, self._why = None, "it was deleted"
        if events:
            self.changed()


def _named(data: Mapping[str, str]) -> str:
    return ", ".join(map(repr, sorted(data))) or "none"
