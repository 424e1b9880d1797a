"""What every hook needs of its extender."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pumice.extender.conversation import Conversation
from pumice.extender.interest import Interest
from pumice.extender.reading import Reading
from pumice.extender.settings import Settings
from pumice.extender.writing import Writer


@dataclass(slots=True)
class Talk:
    """One extender during one session."""

    name: str
    settings: Settings
    reading: Reading
    interest: Interest
    conversation: Conversation
    writer: Writer
    memory: dict[str, Any]
    """Kept between sessions."""
    closed: bool = False
    """The service was told that the session is over; what is undone after that is not told."""

    def ignores(self, verb: str) -> bool:
        """Are errors of *verb* neutral?"""
        return self.settings.ignores(verb)

    def has(self, verb: str) -> bool:
        """Is the verb configured?"""
        return verb in self.settings.verbs
