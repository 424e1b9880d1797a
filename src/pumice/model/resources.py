"""Vectors over resource names (`dimensions.py`) with Volcano's comparison rules.

A vector is sparse: cpu and memory always count (0 when unset), every other name may be *missing*, and what a missing
name means is part of each comparison (`Missing.ZERO` or `Missing.INFINITY`). Ledgers hold integers (cpu and extended
resources in thousandths; memory, storage and hugepages in bytes; pods whole); floats appear only in derived values
(deserved shares), to which alone the tolerance applies.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

from pumice.errors import InvalidInput, shown
from pumice.model import quantity

CPU: Final = 0
MEMORY: Final = 1
PODS: Final = 2

MOST_UNOFFERED: Final = 128
"""So many names that are asked for and that no node offers are known: who may make a pod may make up names."""
MOST_OFFERED: Final = 512
"""So many names are known beside them: each is a column for every node. A node that offers further ones is invalid."""
_SOME: Final = 32
"""From so many on it is worth looking which of them nobody asks for any more."""


class TooManyNames(InvalidInput):
    """A resource beyond those that are known."""


class _Use:
    """The mark that a name is in use; it ends with the last dimension that mentions it."""

    __slots__ = ("__weakref__",)


class Dimension(int):
    """The number of a name that an object brought, and a part in keeping it."""

    use: _Use


_NAMES: list[str] = ["cpu", "memory", "pods"]
_INDEX: dict[str, int] = {name: number for number, name in enumerate(_NAMES)}
_UNIT: list[int] = [1000, 1, 1]
_uses: dict[str, weakref.ref[_Use]] = {}
"""Names that are given back when nobody uses them; the others stay."""
_unoffered: set[str] = set()
_unused: list[int] = []
"""Numbers without a name."""
_ended: set[str] = set()
"""Names whose last use ended, and perhaps began again."""


def dim(name: str) -> int:
    """The dimension of a name that code or configuration knows, from now on. Its number never decides anything."""
    known = _INDEX.get(name)
    if known is None:
        known = _number(name)
    if _uses.pop(name, None) is not None:
        _unoffered.discard(name)
    return known


def asked_dim(name: str) -> int:
    """The dimension of a name that anybody may have written.

    :raises TooManyNames: no node offers it, and so many others are asked for already.
    """
    known = _INDEX.get(name)
    if known is None:
        if len(_unoffered) >= MOST_UNOFFERED:
            raise TooManyNames(
                f"resource {shown(name)}: no node offers it, and {MOST_UNOFFERED} others that none offers are asked for"
            )
        known = _number(name)
        _unoffered.add(name)
    elif name not in _uses:
        return known
    return _used(name, known)


def offered_dim(name: str) -> int:
    """The dimension of a name that a node offers.

    :raises TooManyNames: there are `MOST_OFFERED` others.
    """
    known = _INDEX.get(name)
    if known is None:
        if len(_INDEX) >= MOST_OFFERED + MOST_UNOFFERED:
            raise TooManyNames(f"resource {shown(name)}: nodes offer {MOST_OFFERED} others, the most that are known")
        known = _number(name)
    elif name not in _uses:
        return known
    _unoffered.discard(name)
    return _used(name, known)


def _number(name: str) -> int:
    if _unused:
        number = _unused.pop()
        _NAMES[number] = name
        _UNIT[number] = unit_of(name)
    else:
        number = len(_NAMES)
        _NAMES.append(name)
        _UNIT.append(unit_of(name))
    _INDEX[name] = number
    return number


def _used(name: str, number: int) -> Dimension:
    known = _uses.get(name)
    use = known() if known is not None else None
    if use is None:
        use = _Use()
        _uses[name] = weakref.ref(use, lambda _, name=name: _ended.add(name))  # type: ignore[misc]
    found = Dimension(number)
    found.use = use
    return found


def worth_a_look() -> bool:
    """Report whether there may be unused names."""
    return bool(_ended) or len(_unoffered) >= _SOME


def give_back() -> list[str]:
    """The numbers of names that nobody uses are for others from now on; returns these names. Between two cycles."""
    _ended.clear()
    gone = [name for name, use in _uses.items() if use() is None]
    for name in gone:
        number = _INDEX.pop(name)
        del _uses[name]
        _unoffered.discard(name)
        _NAMES[number] = ""
        _unused.append(number)
    _unused.sort(reverse=True)
    return gone


def dim_name(dimension: int) -> str:
    """The resource name of a dimension."""
    return _NAMES[dimension]


def known_dim(name: str) -> int | None:
    """The dimension of a name, if it has one now."""
    return _INDEX.get(name)


def dim_count() -> int:
    """How many columns a table needs for every name to have its own."""
    return len(_NAMES)


def unit(dimension: int) -> int:
    """How many ledger units make one unit as written in a manifest (1000 for cpu, 1 for memory)."""
    return _UNIT[dimension]


def unit_of(name: str) -> int:
    """The same by name."""
    in_bytes = name in ("memory", "ephemeral-storage", "storage") or name.startswith("hugepages-")
    return 1 if in_bytes or name == "pods" else 1000


Number: TypeAlias = int | float
Quantities: TypeAlias = Mapping[str, str | int | float]

TOLERANCE: Final = 0.1
"""Two derived values closer than this are equal (Volcano's minimum resource)."""

LIMIT: Final = 2**56
"""Ledgers are 64-bit integers; with amounts below this, a hundred on one node cannot overflow."""


def is_counted(name: str) -> bool:
    """Names that a scheduler counts: the native ones, extended resources, hugepages and attachable volumes."""
    if name in ("cpu", "memory", "pods", "ephemeral-storage"):
        return True
    if name.startswith(("count/", "requests.")):
        return False
    return "/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def amount(name: str, written: str | int | float) -> int:
    """A written quantity of a resource in ledger units, rounded up.

    :raises InvalidInput: not a quantity, or one that no machine has and that sums could not hold.
    """
    ledger = quantity.milli(written) if unit_of(name) == 1000 else quantity.value(written)
    if not -LIMIT < ledger < LIMIT:
        raise InvalidInput(f"quantity {written!r} of {name}: must be below {LIMIT} in ledger units, got {ledger}")
    return ledger


class Missing(Enum):
    """The meaning of a name that one side does not list."""

    ZERO = "zero"
    INFINITY = "infinity"


def _le(left: Number, right: Number) -> bool:
    return left < right or abs(left - right) < TOLERANCE


def amount_text(dimension: int, held: Number) -> str:
    """A ledger value as a manifest writes it."""
    per, whole = unit(dimension), int(held)
    return str(whole // per) if whole % per == 0 else f"{whole * 1000 // per}m"


class Resources:
    """An immutable vector over resource names. Reading: ``r.milli_cpu``, ``r.memory``, ``r["nvidia.com/gpu"]``."""

    __slots__ = ("_hash", "_values")
    _values: Mapping[int, Number]
    _hash: int
    """Made when first asked for: of a sum that is kept it must not be asked."""

    def __init__(self, values: Mapping[int, Number] | None = None) -> None:
        self._values = values if values is not None else {}

    # -- making -------------------------------------------------------------------------------------------------
    @classmethod
    def parse(cls, written: Quantities | None) -> Resources:
        """From a Kubernetes resource list; names that no scheduler counts are left out.

        :raises InvalidInput: a quantity that is none; the message names it.
        :raises TooManyNames: a name that no node offers, and many others are known.
        """
        if not written:
            return EMPTY
        return cls({asked_dim(name): amount(name, q) for name, q in written.items() if is_counted(name)})

    @classmethod
    def parse_offered(cls, written: Quantities | None) -> Resources:
        """From the resource list of a node: its names are known from now on.

        :raises InvalidInput: a quantity that is none; the message names it.
        :raises TooManyNames: the nodes offer too many names.
        """
        if not written:
            return EMPTY
        return cls({offered_dim(name): amount(name, q) for name, q in written.items() if is_counted(name)})

    @classmethod
    def of(cls, **written: str | int | float) -> Resources:
        """From keyword arguments as in a manifest: ``Resources.of(cpu=2, memory="4Gi", gpu=1)``."""
        names = {"gpu": "nvidia.com/gpu"}
        return cls.parse({names.get(name, name): q for name, q in written.items()})

    # -- reading ------------------------------------------------------------------------------------------------
    @property
    def milli_cpu(self) -> Number:
        """CPU in thousandths of a core."""
        return self._values.get(CPU, 0)

    @property
    def memory(self) -> Number:
        """Memory in bytes."""
        return self._values.get(MEMORY, 0)

    def get(self, dimension: int, default: Number = 0) -> Number:
        """The ledger value of a dimension, or *default* where it is missing. Names are for ``[]``: ``["cpu"]``.

        :raises TypeError: it is a name.
        """
        found = self._values.get(dimension)
        if found is not None:
            return found
        asked: object = dimension
        if isinstance(asked, str):
            raise TypeError(f"get takes the number of a dimension; write resources[{asked!r}] for a name")
        return default

    def __getitem__(self, name: str) -> Number:
        """The amount as a manifest would write it: cores, bytes, devices, whole or fractional; 0 where missing."""
        dimension = known_dim(name)
        if dimension is None:
            return 0
        held, per = self._values.get(dimension, 0), unit(dimension)
        if per == 1:
            return held
        return held // per if held % per == 0 else held / per

    def amount(self, name: str) -> Number:
        """The amount in ledger units, as `NodeRows` counts: thousandths of cores, bytes, thousandths of devices."""
        dimension = known_dim(name)
        return 0 if dimension is None else self._values.get(dimension, 0)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and known_dim(name) in self._values

    def items(self) -> Iterator[tuple[int, Number]]:
        """Dimension and ledger value of every name that is present."""
        return iter(self._values.items())

    @property
    def amounts(self) -> Mapping[int, Number]:
        """Dimension to ledger value of every present name; a kept sum shows its current values."""
        return MappingProxyType(self._values)

    def dims(self) -> set[int]:
        """The dimensions that count in a comparison: cpu, memory and every present one."""
        return {CPU, MEMORY, *self._values}

    def names(self) -> list[str]:
        """Names with more than a tolerable trace, sorted."""
        return sorted(dim_name(d) for d, v in self._values.items() if v >= TOLERANCE)

    def as_written(self) -> dict[str, Number]:
        """Every present name with its amount as a manifest would write it, sorted by name."""
        return {name: self[name] for name in sorted(dim_name(d) for d in self._values)}

    @property
    def is_empty(self) -> bool:
        """No more than a trace of anything but pods."""
        return all(v < TOLERANCE for d, v in self._values.items() if d != PODS)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Resources):
            return NotImplemented
        return self._values == other._values or all(self.get(d) == other.get(d) for d in self.dims() | other.dims())

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            found = hash(frozenset([(d, v) for d, v in self._values.items() if v]))
            object.__setattr__(self, "_hash", found)
            return found

    def __repr__(self) -> str:
        return f"Resources({', '.join(f'{n}={v}' for n, v in self.as_written().items())})"

    # -- arithmetic ---------------------------------------------------------------------------------------------
    def __add__(self, other: Resources) -> Resources:
        out = dict(self._values)
        for d, v in other._values.items():
            out[d] = out.get(d, 0) + v
        return Resources(out)

    def __sub__(self, other: Resources) -> Resources:
        """Plain subtraction; may go negative."""
        out = dict(self._values)
        for d, v in other._values.items():
            out[d] = out.get(d, 0) - v
        return Resources(out)

    def scaled(self, factor: float) -> Resources:
        """Every dimension times *factor*."""
        return Resources({d: v * factor for d, v in self._values.items()})

    def exceeding(self, other: Resources) -> Resources:
        """Per dimension the part above *other*, never negative (missing counts as zero)."""
        out: dict[int, Number] = {}
        for d in self._values.keys() | other._values.keys():
            over = self.get(d) - other.get(d)
            out[d] = max(0, over)
        return Resources(out)

    def at_most(self, cap: Resources, missing: Missing) -> Resources:
        """Per dimension the smaller value; a scalar that *cap* lacks becomes 0 or stays, as *missing* says."""
        out: dict[int, Number] = {}
        for d in self.dims():
            own = self.get(d)
            if d in (CPU, MEMORY) or d in cap._values:
                out[d] = min(own, cap.get(d))
            else:
                out[d] = 0 if missing is Missing.ZERO else own
        return Resources(out)

    def at_least(self, floor: Resources) -> Resources:
        """Per dimension the larger value over the union of names; negative scalars are dropped."""
        out: dict[int, Number] = {}
        for d in self.dims() | floor.dims():
            value = max(self.get(d), floor.get(d))
            if value >= 0 or d in (CPU, MEMORY):
                out[d] = value
        return Resources(out)

    def only(self, dims: Iterable[int]) -> Resources:
        """The named dimensions alone."""
        wanted = set(dims)
        return Resources({d: v for d, v in self._values.items() if d in wanted})

    # -- comparison (names after Volcano's) ---------------------------------------------------------------------
    def less(self, other: Resources, missing: Missing = Missing.ZERO) -> bool:
        """Strictly below in cpu, memory and every own scalar."""
        return self._compare(other, missing, strict=True)

    def less_equal(self, other: Resources, missing: Missing = Missing.ZERO) -> bool:
        """At most *other*, within the tolerance, in cpu, memory and every own scalar.

        With `Missing.INFINITY` a scalar that only *other* lists makes it false, one that only this lists is skipped.
        """
        return self._compare(other, missing, strict=False)

    def _compare(self, other: Resources, missing: Missing, *, strict: bool) -> bool:
        infinite = missing is Missing.INFINITY
        if infinite and any(d not in self._values and d > MEMORY for d in other._values):
            return False
        for d in self.dims():
            if infinite and d > MEMORY and d not in other._values:
                continue
            left, right = self.get(d), other.get(d)
            if not (left < right if strict else _le(left, right)):
                return False
        return True

    def not_within(self, other: Resources, missing: Missing = Missing.ZERO) -> list[str]:
        """Names in which this is above *other* (tolerance applies), sorted; empty when it is within."""
        return sorted(
            dim_name(d)
            for d in self.dims()
            if not (missing is Missing.INFINITY and d > MEMORY and d not in other._values)
            and not _le(self.get(d), other.get(d))
        )

    def within_requested(self, other: Resources, request: Resources) -> list[str]:
        """The names in *request* (pods aside) in which this is above *other*, exactly; sorted."""
        return sorted(
            dim_name(d)
            for d, v in request._values.items()
            if v > 0 and d != PODS and (d in self._values or d in (CPU, MEMORY)) and self.get(d) > other.get(d)
        )

    def less_partly(self, other: Resources, missing: Missing = Missing.ZERO) -> bool:
        """Strictly below in at least one dimension."""
        return self._compare_partly(other, missing, strict=True)

    def less_equal_partly(self, other: Resources, missing: Missing = Missing.ZERO) -> bool:
        """At most *other* in at least one dimension."""
        return self._compare_partly(other, missing, strict=False)

    def _compare_partly(self, other: Resources, missing: Missing, *, strict: bool) -> bool:
        def below(left: Number, right: Number) -> bool:
            return left < right if strict else _le(left, right)

        if below(self.get(CPU), other.get(CPU)) or below(self.get(MEMORY), other.get(MEMORY)):
            return True
        own = {d for d in self._values if d > MEMORY}
        theirs = {d for d in other._values if d > MEMORY}
        if missing is Missing.ZERO and theirs - own:
            return True
        if missing is Missing.INFINITY and own - theirs:
            return True
        return any(below(self.get(d), other.get(d)) for d in own)

    def less_equal_partly_requested(
        self, other: Resources, request: Resources, *, drop_zeros: bool = False
    ) -> list[str]:
        """Requested names (pods aside) in which this is at most *other*; with *drop_zeros* names where both are
        no more than a trace do not count."""
        names = []
        for d, v in request._values.items():
            if v <= 0 or d == PODS:
                continue
            left, right = self.get(d), other.get(d)
            if drop_zeros and left < TOLERANCE and right < TOLERANCE:
                continue
            if _le(left, right):
                names.append(dim_name(d))
        return sorted(names)

    def greater_partly_requested(self, other: Resources, request: Resources) -> bool:
        """Exactly above *other* in at least one requested dimension (pods aside)."""
        return any(v > 0 and d != PODS and self.get(d) > other.get(d) for d, v in request._values.items())

    def greater_partly_relevant(self, other: Resources, request: Resources) -> bool:
        """Like `greater_partly_requested`, where *other* sets a limit: cpu and memory above a trace, known scalars."""
        for d, v in request._values.items():
            if v <= 0 or d == PODS:
                continue
            relevant = other.get(d) >= TOLERANCE if d in (CPU, MEMORY) else d in other._values
            if relevant and self.get(d) > other.get(d):
                return True
        return False

    def equal(self, other: Resources) -> bool:
        """Within the tolerance in cpu, memory and own scalars."""
        return all(abs(self.get(d) - other.get(d)) < TOLERANCE for d in self.dims())

    def difference(self, other: Resources) -> tuple[Resources, Resources]:
        """(increased, decreased): what this has more and what it has less than *other*, per dimension."""
        more: dict[int, Number] = {}
        less: dict[int, Number] = {}
        for d in self.dims() | other.dims():
            delta = self.get(d) - other.get(d)
            more[d], less[d] = (delta, 0) if delta > 0 else (0, -delta)
        return Resources(more), Resources(less)


def share(part: Number, whole: Number) -> float:
    """``part / whole``; of nothing: 0 when nothing is taken, else 1."""
    if whole == 0:
        return 0.0 if part == 0 else 1.0
    return part / whole


def dominant_share(part: Resources, whole: Resources) -> float:
    """The largest share over the names that *whole* lists."""
    return max((share(part.get(d), v) for d, v in whole.items() if v >= TOLERANCE), default=0.0)


EMPTY: Final = Resources({})
