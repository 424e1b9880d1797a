"""The user of the pages and the user's rights: a token of the cluster, or no user if only this machine is served."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from pumice.answers.visibility import EVERYTHING, Visibility
from pumice.kube.access import KnownUser, Reviews, readable, sight_of, trial_rights

LASTS: Final = 8 * 3600.0
"""Seconds after which one has to sign in again."""
MOST: Final = 2000
"""People who are signed in at once."""
COOKIE: Final = "pumice-session"


class NotAllowed(Exception):
    """A right is missing; says which."""


class Reader(Protocol):
    """Somebody who looks."""

    @property
    def name(self) -> str:
        """The user's name."""
        ...

    async def sight(self, namespaces: Iterable[str]) -> Visibility:
        """The user's rights, for these namespaces."""
        ...

    async def must_submit(self, namespaces: Iterable[str]) -> None:
        """He may try jobs in these namespaces.

        :raises NotAllowed: he may not.
        """
        ...


class Local:
    """The user at this machine: sees everything."""

    @property
    def name(self) -> str:
        """Nobody asks."""
        return ""

    async def sight(self, namespaces: Iterable[str]) -> Visibility:
        """Everything."""
        return EVERYTHING

    async def must_submit(self, namespaces: Iterable[str]) -> None:
        """He may."""


@dataclass(slots=True)
class SignedIn:
    """A user of the cluster."""

    user: KnownUser
    reviews: Reviews

    @property
    def name(self) -> str:
        """As the API server calls him."""
        return self.user.username

    async def sight(self, namespaces: Iterable[str]) -> Visibility:
        """The user's rights to see: one question for the whole cluster, else one for each namespace."""
        whole = await sight_of(self.reviews, self.user, ())
        if whole.namespaces is None:
            return whole
        return Visibility(await readable(self.reviews, self.user, namespaces), whole.nodes, whole.queues)

    async def must_submit(self, namespaces: Iterable[str]) -> None:
        """He has the rights to submit the job."""
        for namespace in namespaces:
            for right in trial_rights(namespace):
                if not await self.reviews.may(self.user, right):
                    raise NotAllowed(f"{self.name} may not {right}")


class PageAccess(Protocol):
    """Lets people in."""

    needs_token: bool

    async def reader(self, cookie: str) -> Reader | None:
        """The user of this cookie; None: unknown."""
        ...

    async def sign_in(self, token: str) -> str:
        """The cookie for a token; nothing if the token is nobody's."""
        ...

    def sign_out(self, cookie: str) -> None:
        """Forget a cookie."""
        ...


class OpenAccess:
    """For this machine alone."""

    needs_token = False

    async def reader(self, cookie: str) -> Reader | None:
        """Anybody."""
        return Local()

    async def sign_in(self, token: str) -> str:
        """Nobody has to."""
        return ""

    def sign_out(self, cookie: str) -> None:
        """Nothing is known."""


class TokenAccess:
    """Lets in who shows a token that the API server knows. Tokens stay here; a browser keeps a random word."""

    needs_token = True

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews
        self._tokens: OrderedDict[str, tuple[float, str]] = OrderedDict()

    async def reader(self, cookie: str) -> Reader | None:
        """The user who signed in for this cookie, if the token is still good."""
        until, token = self._tokens.get(cookie, (0.0, ""))
        if not token or time.monotonic() > until:
            self.sign_out(cookie)
            return None
        user = await self._reviews.user(token)
        if user is None:
            self.sign_out(cookie)
            return None
        return SignedIn(user, self._reviews)

    async def sign_in(self, token: str) -> str:
        """A new cookie, if the API server knows the token."""
        if await self._reviews.user(token) is None:
            return ""
        cookie = secrets.token_urlsafe(32)
        self._tokens[cookie] = (time.monotonic() + LASTS, token)
        while len(self._tokens) > MOST:
            self._tokens.popitem(last=False)
        return cookie

    def sign_out(self, cookie: str) -> None:
        """Forget it."""
        self._tokens.pop(cookie, None)
