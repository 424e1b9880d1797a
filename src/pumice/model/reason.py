"""Why not: structured reasons as small integers while deciding, text only on request."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from pumice.errors import words_of
from pumice.model.limit import Limit

Words: TypeAlias = str | Callable[[], str]
"""Text, or how to find it once somebody wants to read it."""


class Code(IntEnum):
    """How final a rejection is (the numbers are kube-scheduler's and Volcano's status codes)."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5


class Reason(NamedTuple):
    """One rejection: who said it, what it says, how final it is."""

    plugin: str
    text: str
    code: Code = Code.UNSCHEDULABLE

    @property
    def evictable(self) -> bool:
        """Report whether an eviction could help."""
        return self.code is Code.UNSCHEDULABLE


FITS: Final = 0
TOGETHER: Final = ", "
"""Between the reasons that stand together in one."""
_REASONS: list[Reason] = [Reason("", "", Code.SUCCESS)]
_INDEX: dict[Reason, int] = {}
_UNUSED: list[int] = []
MOST_REASONS: Final = 65_536
"""So many different reasons are told apart; whoever words them by what tenants write must not fill the memory."""
_MORE: Final = "refused it, for a reason that is not told: too many different ones are remembered"


def reason_id(plugin: str, text: str, code: Code = Code.UNSCHEDULABLE, *, unresolvable: bool = False) -> int:
    """A reason as a number above 0, interned for the life of the process; 0 (`FITS`) means no objection.

    *unresolvable*: no eviction helps.
    """
    code = Code.UNRESOLVABLE if unresolvable else code
    reason = Reason(plugin, text, code)
    known = _INDEX.get(reason)
    if known is not None:
        return known
    if _UNUSED and code is Code.UNSCHEDULABLE:
        number = _UNUSED.pop()
        _REASONS[number] = reason
    else:
        if len(_REASONS) >= MOST_REASONS and text != _MORE:
            return reason_id(plugin, _MORE, code)
        number = len(_REASONS)
        _REASONS.append(reason)
    _INDEX[reason] = number
    return number


def forget_reason(plugin: str, text: str) -> None:
    """The reason is used up: its number may be used for another reason of the same code.

    Reasons in which it stands together with others are forgotten too.
    """
    for reason in [one for one in _INDEX if one.plugin == plugin and text in one.text.split(TOGETHER)]:
        _UNUSED.append(_INDEX.pop(reason))


def parts_of(reason: Reason, *, first: bool = False) -> list[Reason]:
    """The reasons that stand together in one, such as every resource that a node lacks; with *first* only the first."""
    if reason.plugin != "resources" or TOGETHER not in reason.text:
        return [reason]
    texts = reason.text.split(TOGETHER)
    return [reason._replace(text=text) for text in (texts[:1] if first else texts)]


def reason_count() -> int:
    """How many reasons have been made so far."""
    return len(_REASONS)


def reason_of(number: int | Reason) -> Reason:
    """The reason behind a number; a reason that has none is its own."""
    return number if isinstance(number, Reason) else _REASONS[number]


class Unfit(Exception):
    """Raised by a predicate: this task does not fit this node (or, in a pre-predicate, any node)."""

    text: str = ""
    code: Code = Code.UNSCHEDULABLE

    def __init__(self, text: object, *, unresolvable: bool = False, code: Code | None = None) -> None:
        super().__init__(text)
        self.text = words_of(text)
        self.code = Code(code) if code else Code.UNRESOLVABLE if unresolvable else Code.UNSCHEDULABLE


class Verdict(NamedTuple):
    """An answer with its reason. True where it passes."""

    passed: bool
    text: str = ""
    plugin: str = ""
    reason: str = ""
    """A CamelCase word for conditions."""
    advice: Words = ""
    """The change that would turn the no into a yes, in words."""
    code: Code = Code.UNSCHEDULABLE
    limits: tuple[Limit, ...] = ()
    """The limits that are in the way, with their numbers."""

    def __bool__(self) -> bool:
        return self.passed


PASS: Final = Verdict(True)


def reject(text: str, reason: str = "", *, advice: Words = "", limits: tuple[Limit, ...] = ()) -> Verdict:
    """A rejection that says why; *reason* is the CamelCase word for conditions, *advice* what would help.

    *advice* may be a function without arguments. It is called when a reader asks for it, so expensive advice costs
    nothing otherwise. It must use only data that it has.
    """
    return Verdict(False, text, reason=reason, advice=advice, limits=limits)
