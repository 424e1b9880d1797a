"""Callers and their rights: the API server says both, and its word is kept for a moment."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import msgspec

from pumice.answers.visibility import Visibility
from pumice.errors import PumiceError
from pumice.kube.client import KubeClient

T = TypeVar("T")
KNOWN: Final = 60.0
"""Seconds for which a good token counts as good."""
UNKNOWN: Final = 5.0
"""The same for one that is not."""
RIGHTS: Final = 30.0
"""Seconds for which a right, or the want of it, is taken for granted."""
KEEP: Final = 10_000
_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class KnownUser(msgspec.Struct, frozen=True):
    """A user that the API server knows."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True)
class Right:
    """Something that may be allowed: a verb on a kind, in a namespace or in the whole cluster, or on a path."""

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    path: str = ""
    """A path that is no resource of the API server, for instance /metrics."""

    def __str__(self) -> str:
        if self.path:
            return f"{self.verb} the path {self.path}"
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}" + (f" in namespace {self.namespace!r}" if self.namespace else "")


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: KnownUser = KnownUser()


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


_TOKEN_REVIEW = msgspec.json.Decoder(_TokenReview)
_ACCESS_REVIEW = msgspec.json.Decoder(_AccessReview)


@dataclass(slots=True)
class _Kept(Generic[T]):
    """Results with an expiry; the oldest is forgotten first."""

    values: OrderedDict[Any, tuple[float, T]] = field(default_factory=OrderedDict)

    async def get(self, key: Any, find: Callable[[], Awaitable[T]], lasts: Callable[[T], float]) -> T:
        known = self.values.get(key)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        found = await find()
        self.values[key] = (time.monotonic() + lasts(found), found)
        self.values.move_to_end(key)
        while len(self.values) > KEEP:
            self.values.popitem(last=False)
        return found


class Unauthorized(PumiceError):
    """A request without the right that it needs; *status* is the HTTP status that says so."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Reviews:
    """Asks the API server about tokens and rights. Belongs to one event loop."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._users: _Kept[KnownUser | None] = _Kept()
        self._rights: _Kept[bool] = _Kept()

    async def caller(self, authorization: str) -> KnownUser:
        """The owner of the bearer token of a request; *authorization* is the header of that name.

        :raises Unauthorized: there is no token, or the API server does not know it.
        :raises PumiceError: the API server could not be asked.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthorized(401, "a bearer token is needed, as for the API server")
        user = await self.user(token.strip())
        if user is None:
            raise Unauthorized(401, "the API server does not know this token")
        return user

    async def require(self, user: KnownUser, right: Right) -> None:
        """Return if a user has a right.

        :raises Unauthorized: the user does not have it.
        :raises PumiceError: the API server could not be asked.
        """
        if not await self.may(user, right):
            raise Unauthorized(403, f"{user.username} may not {right}")

    async def user(self, token: str) -> KnownUser | None:
        """The token's user; None if it is invalid.

        :raises PumiceError: the API server could not be asked.
        """

        async def find() -> KnownUser | None:
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
            answer = await self._client.request("POST", _TOKENS, body)
            status = _TOKEN_REVIEW.decode(answer).status
            return status.user if status.authenticated else None

        key = hashlib.sha256(token.encode()).digest()
        return await self._users.get(key, find, lambda found: UNKNOWN if found is None else KNOWN)

    async def may(self, user: KnownUser, right: Right) -> bool:
        """Whether a user has a right.

        :raises PumiceError: the API server could not be asked.
        """

        async def find() -> bool:
            names = ("verb", "path") if right.path else ("verb", "group", "resource", "namespace")
            what = {name: getattr(right, name) for name in names}
            spec = {
                "user": user.username,
                "uid": user.uid,
                "groups": list(user.groups),
                "extra": {key: list(values) for key, values in user.extra.items()},
                "nonResourceAttributes" if right.path else "resourceAttributes": {k: v for k, v in what.items() if v},
            }
            body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
            answer = await self._client.request("POST", _ACCESS, body)
            return _ACCESS_REVIEW.decode(answer).status.allowed

        key = (user.username, user.uid, user.groups, tuple(sorted(user.extra.items())), right)
        return await self._rights.get(key, find, lambda _: RIGHTS)


VOLCANO: Final = "scheduling.volcano.sh"
ALL_JOBS: Final = Right("list", VOLCANO, "podgroups")
NODES: Final = Right("list", "", "nodes")
QUEUES: Final = Right("get", VOLCANO, "queues")
EVERYTHING_RIGHTS: Final = (QUEUES, NODES, ALL_JOBS)
"""The rights to see everything, as an operator does."""
MOST_NAMESPACES: Final = 1000
"""The number of namespaces that are asked about for a user who may not see all; further ones are reported."""
_AT_ONCE: Final = 32


def job_right(namespace: str) -> Right:
    """The right to read a job."""
    return Right("get", VOLCANO, "podgroups", namespace)


def trial_rights(namespace: str) -> tuple[Right, Right]:
    """The rights to try a job: those to submit it."""
    return Right("create", VOLCANO, "podgroups", namespace), Right("create", "", "pods", namespace)


async def sight_of(reviews: Reviews, user: KnownUser, namespaces: Iterable[str]) -> Visibility:
    """The permissions of a user who may read jobs in these namespaces."""
    everywhere, nodes, queues = await asyncio.gather(*(reviews.may(user, right) for right in (ALL_JOBS, NODES, QUEUES)))
    return Visibility(None if everywhere else frozenset(namespaces), nodes, queues)


async def readable(reviews: Reviews, user: KnownUser, namespaces: Iterable[str]) -> frozenset[str]:
    """Those of these namespaces in which a user may read jobs."""
    asked = sorted(namespaces)[:MOST_NAMESPACES]
    turns = asyncio.Semaphore(_AT_ONCE)

    async def may(namespace: str) -> bool:
        async with turns:
            return await reviews.may(user, job_right(namespace))

    allowed = await asyncio.gather(*map(may, asked))
    return frozenset(namespace for namespace, yes in zip(asked, allowed, strict=True) if yes)
