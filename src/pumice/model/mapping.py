"""The mappings that plugins are given: labels, annotations, tasks, jobs, queues, nodes.

All are of one class. A subclass says what it holds, so that the thing itself can stand for its key:
``ssn.jobs[task.job]``. This guards against mistakes, not against malice: ``dict.__setitem__`` passes, and is how the
state writes (`state/writing.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar, overload
from weakref import WeakValueDictionary

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

_get = dict.get
_has = dict.__contains__


if TYPE_CHECKING:

    class _Base(Mapping[K, V]):
        """A mapping without the methods that write: a checker refuses them and goes on."""

        def __init__(self, values: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None: ...
        def __getitem__(self, key: K | V) -> V: ...
        def __iter__(self) -> Iterator[K]: ...
        def __len__(self) -> int: ...
        def copy(self) -> dict[K, V]: ...
        @overload
        def get(self, key: K | V) -> V | None: ...
        @overload
        def get(self, key: K | V, default: V | T) -> V | T: ...
        def get(self, key: K | V, default: Any = None) -> Any: ...
else:
    _Base = dict


class ReadOnlyMap(_Base[K, V], Generic[K, V]):
    """A dict that cannot be written. Keys are text; a key of another kind is a TypeError, in ``get`` and ``in`` too.

    ``copy()`` gives a dict of your own.
    """

    __slots__ = ()

    holds: ClassVar[type | None] = None
    """The class of its values, if one of them can stand for its key."""
    keyed_by: ClassVar[str] = "uid"
    """The attribute of a value that is its key."""

    def __missing__(self, key: Any) -> V:
        if isinstance(key, str):
            raise KeyError(key)
        return self[self._key_of(key)]

    if not TYPE_CHECKING:

        def get(self, key, default=None):
            """The value of a key, or *default*."""
            if key.__class__ is str:
                return _get(self, key, default)
            return _get(self, self._key_of(key), default)

        def __contains__(self, key):
            if key.__class__ is str:
                return _has(self, key)
            return _has(self, self._key_of(key))

        def _refuse(self, *args, **kwargs):
            raise TypeError("read-only: it cannot be changed; .copy() gives a dict of your own")

        __setitem__ = __delitem__ = __ior__ = _refuse
        clear = pop = popitem = setdefault = update = _refuse

    def _key_of(self, key: Any) -> Any:
        """The key that a thing stands for.

        :raises TypeError: it stands for none here.
        """
        if isinstance(key, str):
            return key
        if self.holds is not None and isinstance(key, self.holds):
            return getattr(key, self.keyed_by)
        wanted = f"text or a {self.holds.__name__}" if self.holds is not None else "text"
        raise TypeError(f"a key must be {wanted}, got {key!r}")

    def __reduce_ex__(self, protocol: object) -> tuple[type[dict[K, V]], tuple[dict[K, V]]]:
        """A copy or what comes out of a pickle is a dict of your own."""
        return dict, (self.copy(),)


class Labels(ReadOnlyMap[str, str]):
    """Labels or annotations: equal ones share one object for as long as somebody has it."""

    __slots__ = ("__weakref__",)


_shared: WeakValueDictionary[tuple[tuple[str, str], ...], Labels] = WeakValueDictionary()
NOTHING: Final = Labels()


def labels_of(written: Mapping[str, str] | None) -> ReadOnlyMap[str, str]:
    """Labels or annotations as they are handed out; equal ones share one object, so that a million pods can have some.

    An unused set is forgotten: in a cluster with changing jobs, most sets are seen once.
    """
    if not written:
        return NOTHING
    if isinstance(written, ReadOnlyMap):
        return written
    key = tuple(written.items())
    known = _shared.get(key)
    if known is None:
        known = _shared[key] = Labels(written)
    return known


def plain(value: Any) -> Any:
    """Data of your own, made of dicts and lists, from what was handed out."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value


def frozen(value: Any) -> Any:
    """Plain data as it is handed out: no mapping in it can be written, and its lists are tuples."""
    if isinstance(value, ReadOnlyMap):
        return value
    if isinstance(value, dict):
        return ReadOnlyMap({key: frozen(part) for key, part in value.items()})
    if isinstance(value, (list, tuple)):
        return tuple([frozen(part) for part in value])
    return value
