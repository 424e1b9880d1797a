"""Objects that everybody may read and the state alone writes.

The slots of a sealed class are its public attributes, read at the speed of a slot. Assigning to one or deleting one
raises. While an object is made it is a draft, whose slots can be written; it is sealed when it is made. Afterwards the
state writes through a `writer` per slot, or through `unsealed` where many slots change at once. This guards against
mistakes, not against malice: ``object.__setattr__`` passes.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar, NoReturn

_write = object.__setattr__


class _Making(type):
    """Makes an object as a draft and seals it."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        draft: Any = cls._draft  # type: ignore[attr-defined]
        made = object.__new__(draft)
        draft.__init__(made, *args, **kwargs)
        _write(made, "__class__", cls)
        return made


class Sealed(metaclass=_Making):
    """Base of the objects that plugins see: reading is free, writing raises."""

    __slots__ = ()
    _draft: ClassVar[type]

    def __init_subclass__(cls, draft: bool = False) -> None:
        if not draft:
            # both: they share one slot in C, and a draft with only one of them is written at a fifth of the speed
            body = {"__slots__": (), "__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
            cls._draft = _Making(cls.__name__, (cls,), body, draft=True)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} is read-only: the state alone writes it")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__}.{name} is read-only: the state alone writes it")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuses `copy` and `pickle`: a copy would not follow the cluster."""
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled, it is part of the state; keep its key")


def writer(cls: type, slot: str) -> Callable[[Any, Any], None]:
    """The function that writes one slot of a sealed class. For the state."""
    write: Callable[[Any, Any], None] = cls.__dict__[slot].__set__
    return write


class unsealed:  # noqa: N801  (read as a word: ``with unsealed(job):``)
    """Within the block the slots of *thing* can be written. For the state, where many change at once."""

    __slots__ = ("_cls", "_thing")

    def __init__(self, thing: Sealed) -> None:
        self._thing, self._cls = thing, type(thing)

    def __enter__(self) -> None:
        _write(self._thing, "__class__", self._cls._draft)

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None) -> None:
        _write(self._thing, "__class__", self._cls)


def become(thing: Sealed, cls: type[Sealed]) -> None:
    """Make *thing* one of another class of the same slots. For the state."""
    _write(thing, "__class__", cls)
