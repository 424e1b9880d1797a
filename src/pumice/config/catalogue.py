"""The existing flags, plugins and actions, and the points that they are asked at.

The catalogue is filled above this package, from the points table and the registry; nothing here knows a plugin.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ArgumentsInfo:
    """The arguments that a plugin or action reads from its conf entry."""

    names: frozenset[str] = frozenset()
    """Arguments that are read by their exact name."""
    prefixes: tuple[str, ...] = ()
    """Beginnings of open-ended names, such as ``binpack.resources.``; something must follow."""
    flags: frozenset[str] = frozenset()
    """Flags that the plugin reads itself although they govern no hook, such as ``enableHierarchy``."""

    def reads(self, argument: str) -> bool:
        """Whether *argument* has any effect."""
        return argument in self.names or any(
            argument.startswith(prefix) and argument != prefix for prefix in self.prefixes
        )


class Stop(enum.Enum):
    """When the walk over tiers and plugins ends."""

    NEVER = "everyone is asked"
    ANSWER = "the first decisive answer ends it"
    TIER = "the first tier with a decision ends it"
    FIRST_TIER = "only the first tier in which someone takes part is asked"
    FIRST_PLUGIN = "only the first plugin that takes part is asked"


@dataclass(frozen=True, slots=True)
class HookInfo:
    """One extension point, as ``explain`` and the linter see it."""

    name: str
    """Written ``JobOrder`` or ``job_order``; the two are the same hook."""
    flag: str | None = None
    """The conf flag that governs it; None: always on."""
    fold: str = ""
    """How the answers of several plugins become one, in words."""
    short_circuit: str = ""
    """The condition that ends the questions early, in words; empty: that of ``stop``."""
    stop: Stop = Stop.NEVER
    plugins: frozenset[str] = frozenset()
    """The plugins that register here."""
    when: Mapping[str, str] = field(default_factory=dict)
    """Plugin -> the flag that must be on for it to register here (drf's QueueOrder needs ``enableHierarchy``)."""
    asked_by: frozenset[str] | None = None
    """The actions that ask it; None: unknown, taken as always asked."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything a conf may name."""

    flags: Mapping[str, bool]
    """Flag in the conf's spelling -> its value when it is not written."""
    plugins: Mapping[str, ArgumentsInfo | None]
    """Plugin -> what it reads; None: not known, every argument is accepted."""
    actions: Mapping[str, ArgumentsInfo | None]
    """Action -> what it reads from its entry in ``configurations``; None: every argument is accepted."""
    repeatable: Mapping[str, str] = field(default_factory=dict)
    """Plugin that may be listed more than once -> the argument that tells its entries apart."""
    hooks: tuple[HookInfo, ...] = ()
    """The extension points in the order in which ``explain`` shows them; may be left empty for loading."""

    def hook(self, name: str) -> HookInfo | None:
        """The hook called *name* (``JobOrder`` and ``job_order`` are the same), or None."""
        wanted = _plain(name)
        return next((hook for hook in self.hooks if _plain(hook.name) == wanted), None)


def _plain(name: str) -> str:
    return name.replace("_", "").casefold()
