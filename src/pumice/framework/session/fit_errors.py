"""Why tasks fit nowhere, by job: what was found in this session, and what stands from earlier ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from pumice.engine.fit_error import FitError


class FitErrors(MutableMapping[str, dict[str, FitError]]):
    """Job -> task -> why it fits nowhere. What stands from earlier sessions is read through, and never changed."""

    __slots__ = ("_found_now", "_own", "_standing")

    def __init__(self) -> None:
        self._own: dict[str, dict[str, FitError]] = {}
        self._standing: Mapping[str, dict[str, FitError]] = {}
        self._found_now: Callable[[str], bool] | None = None

    def stand(self, errors: Mapping[str, dict[str, FitError]], found_now: Callable[[str], bool] | None = None) -> None:
        """These hold as they did before; the mapping does not change any more.

        *found_now*: says of which jobs this session found it out anew.
        """
        self._standing, self._found_now = errors, found_now

    def __getitem__(self, uid: str) -> dict[str, FitError]:
        found = self._own.get(uid)
        return self._standing[uid] if found is None else found

    def __setitem__(self, uid: str, errors: dict[str, FitError]) -> None:
        self._own[uid] = errors

    def __delitem__(self, uid: str) -> None:
        del self._own[uid]

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from (uid for uid in self._standing if uid not in self._own)

    def __len__(self) -> int:
        return len(self._own.keys() | self._standing.keys()) if self._standing else len(self._own)

    def get(self, uid: str, default: Any = None) -> Any:
        """What is known of a job."""
        found = self._own.get(uid)
        return self._standing.get(uid, default) if found is None else found

    def pop(self, uid: str, default: Any = None) -> Any:
        """Forget what this session found out about a job."""
        return self._own.pop(uid, default)

    def of(self, uid: str) -> dict[str, FitError]:
        """What was found out about the tasks of a job in this session; can be changed."""
        found = self._own.get(uid)
        if found is None:
            anew = self._found_now is not None and self._found_now(uid)
            found = self._own[uid] = self._standing[uid] if anew else {}
        return found
