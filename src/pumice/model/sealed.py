"""Objects that everybody may read and the state alone writes.

The slots of a sealed class are its public attributes, read at the speed of a slot. Assigning to one or deleting one
raises. While an object is made it is a draft, whose slots can be written; it is sealed when it is made. Afterwards only
`state/writing.py` writes them. This guards against mistakes, not against malice: ``object.__setattr__`` passes.

These names are for the engine, not for policies: ``row`` of tasks and nodes, ``version`` of jobs and queues,
``job_key`` and ``assumed_at`` of tasks, ``waiting`` of queues, ``in_session`` and ``role_total`` of jobs; of a task's
class ``id``, ``items``, ``dims``, ``values``, ``fit_dims`` and ``fit_values``; and ``ssn.state``, where everything is
kept. They may change from one version to the next.
"""

from __future__ import annotations

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
    """Base of the objects that plugins see: reading is free, writing raises.

    Slots are annotated `Final`, so that type checkers refuse an assignment too; the state writes to an untyped draft.
    """

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
