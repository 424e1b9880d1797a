"""The tuned values: arguments of plugins, plugins that are on or off, lists of actions, weights of queues."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

from pumice import yamls
from pumice.config import Catalogue, SchedulerConf, from_data
from pumice.config.kai import resolve
from pumice.config.problems import nearest
from pumice.errors import InvalidInput
from pumice.framework.plugin import Arguments
from pumice.framework.registry import Registry
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.sim.study.sweeping import argument_of, plugin_of

Kind = Literal["argument", "plugin", "actions", "queue"]
Point = Mapping[str, Any]
"""A value for every knob, by the knob's name."""

_RANGE = re.compile(r"(-?[0-9.eE+-]+?)\.\.(-?[0-9.eE+-]+?)(\s+log)?")
_MOST_WEIGHT: Final = 10
_SPREAD: Final = 4.0
_SCORES: Final = frozenset({"node_order", "batch_node_order"})
"""Points at which a plugin only ranks nodes: switched off, it lets nothing happen that was forbidden."""


@dataclass(frozen=True, slots=True)
class Knob:
    """One thing that is tuned: a range of numbers, or a few values."""

    name: str
    kind: Kind
    owner: str = ""
    """The plugin or the queue."""
    argument: str = ""
    low: float = 0.0
    high: float = 0.0
    whole: bool = True
    log: bool = False
    choices: tuple[Any, ...] = ()
    tier: int | None = None
    """The tier in which a plugin comes in, counted from 1; the last one by default."""

    def ends(self) -> tuple[Any, ...]:
        """Return the values at which it would be seen that the conf refuses some."""
        if self.choices:
            return self.choices
        return (int(self.low), int(self.high)) if self.whole else (self.low, self.high)

    def in_words(self) -> str:
        """Return the values that it takes: ``0..10``, ``on, off``."""
        if self.choices:
            return ", ".join(map(worded, self.choices))
        return f"{self.low:g}..{self.high:g}{' log' if self.log else ''}"


def worded(value: Any) -> str:
    """Return a value as it is written on the command line."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


# -- what the command line says -------------------------------------------------------------------------------------
def parse_over(text: str, base: SchedulerConf, queues: Mapping[str, int], catalogue: Catalogue) -> list[Knob]:
    """Return the knobs that a text stands for.

    ``binpack.weight=0..10`` (whole numbers), ``overcommit.overcommit-factor=1.0..3.0`` (any), ``…=1..100 log``,
    ``binpack.weight=1,5,9``, ``binpack=on,off``, ``sjf@1=on,off`` (in the first tier),
    ``actions=enqueue allocate, enqueue easybackfill``, ``queues.research.weight=1..8``, ``queues.*.weight=1..8``.

    :raises InvalidInput: it is no such thing, or names what is not there.
    """
    name, eq, said = (part.strip() for part in text.partition("="))
    if not eq or not name or not said:
        raise InvalidInput(f"must be NAME=VALUES, such as binpack.weight=0..10 or sjf=on,off, got {text!r}")
    if name == "actions":
        lists = tuple(", ".join(part.split()) for part in said.split(","))
        return [Knob(name, "actions", choices=_distinct(lists, text))]
    if name.startswith("queues."):
        return _of_queues(name, said, queues, text)
    plugin, dot, argument = name.partition(".")
    plugin, at, tier = plugin.partition("@")
    told, plugin = plugin, resolve(plugin, base.dialect, catalogue.plugins)
    if not dot:
        if {part.strip() for part in said.split(",")} != {"on", "off"}:
            raise InvalidInput(f"{plugin}: a plugin is on,off; an argument is {plugin}.NAME=VALUES, got {text!r}")
        if plugin not in catalogue.plugins:
            meant = nearest(plugin, catalogue.plugins)
            raise InvalidInput(f"plugin {plugin!r}: unknown{f'; did you mean {meant!r}?' if meant else ''}")
        there = any(one.plugin.name == plugin for one in base.listed())
        if there and at:
            raise InvalidInput(f"plugin {plugin!r}: stands in the conf already; @TIER is for one that comes in")
        place = _tier(tier, base, text) if at else None
        return [Knob(name, "plugin", plugin, choices=(True, False), tier=place)]
    plugin_of(base.to_data(), plugin)
    exact = argument_of(plugin, argument, catalogue)
    return [_ranged(Knob(f"{told}.{argument}", "argument", plugin, exact), said, text)]


def knobs_over(texts: Sequence[str], base: SchedulerConf, queues: Mapping[str, int], registry: Registry) -> list[Knob]:
    """Return the knobs that texts stand for, each once, of values that the plugins take.

    :raises InvalidInput: as of `parse_over`; or one is there twice.
    :raises ConfigError: a plugin refuses a value.
    """
    catalogue = catalogue_of(registry)
    knobs = [knob for text in texts for knob in parse_over(text, base, queues, catalogue)]
    twice = next((k.name for at, k in enumerate(knobs) if k.name in {o.name for o in knobs[:at]}), None)
    if twice is not None:
        raise InvalidInput(f"{twice} is there twice")
    for knob in knobs:
        for value in knob.ends():
            assemble(made_of(base, knobs, {knob.name: value}, queues, catalogue).conf, registry)
    return knobs


def _tier(said: str, base: SchedulerConf, text: str) -> int:
    if not said.isdigit() or not 1 <= int(said) <= len(base.tiers):
        raise InvalidInput(f"{text!r}: the tier must be 1 to {len(base.tiers)}, got {said!r}")
    return int(said)


def _of_queues(name: str, said: str, queues: Mapping[str, int], text: str) -> list[Knob]:
    queue, _, field = name.removeprefix("queues.").rpartition(".")
    if field != "weight" or not queue:
        raise InvalidInput(f"must be queues.NAME.weight=VALUES, got {text!r}")
    named = [known for known in queues if fnmatchcase(known, queue)]
    if not named:
        meant = nearest(queue, queues)
        hint = f"; did you mean {meant!r}?" if meant else f"; there are {', '.join(queues)}"
        raise InvalidInput(f"queue {queue!r}: the scenario has none of that name{hint}")
    knobs = [_ranged(Knob(f"queues.{one}.weight", "queue", one), said, text) for one in named]
    wrong = any(knob.low < 1 or not knob.whole for knob in knobs if not knob.choices)
    if wrong or any(not isinstance(v, int) or v < 1 for knob in knobs for v in knob.choices):
        raise InvalidInput(f"{text!r}: a queue's weight is a whole number of at least 1")
    return knobs


def _ranged(knob: Knob, said: str, text: str) -> Knob:
    found = _RANGE.fullmatch(said)
    if found is None:
        values = tuple(yamls.load(part, text) for part in said.split(","))
        return replace(knob, choices=_distinct(values, text))
    try:
        low, high = float(found[1]), float(found[2])
    except ValueError:
        raise InvalidInput(f"{text!r}: a range is two numbers, such as 0..10 or 0.5..2.0") from None
    whole = all(re.fullmatch(r"-?\d+", end) for end in found.group(1, 2))
    log = found[3] is not None
    if not low < high or not math.isfinite(low) or not math.isfinite(high) or (log and low <= 0):
        raise InvalidInput(f"{text!r}: a range goes from a lower to a higher number{', above 0' if log else ''}")
    return replace(knob, low=low, high=high, whole=whole, log=log)


def _distinct(values: tuple[Any, ...], text: str) -> tuple[Any, ...]:
    kept = tuple(dict.fromkeys(values))
    if len(kept) < 2 or any(value is None or value == "" for value in kept):
        raise InvalidInput(f"{text!r}: at least two different values are needed")
    return kept


# -- what the conf itself offers ------------------------------------------------------------------------------------
class _Noting(Arguments):
    """Arguments that remember which numbers they were asked for."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.numbers: dict[str, tuple[float, bool]] = {}

    def int(self, key: str, default: int) -> int:
        found = super().int(key, default)
        self.numbers.setdefault(key, (found, True))
        return found

    def float(self, key: str, default: float) -> float:
        found = super().float(key, default)
        self.numbers.setdefault(key, (found, False))
        return found


def knobs_of(base: SchedulerConf, registry: Registry) -> list[Knob]:
    """Return what a conf offers by itself: every number that its plugins read, and the plugins that only rank nodes.

    A whole number n goes from 0 to 10 or to 4 n, any other from a quarter of it to four times of it.

    :raises InvalidInput: it offers nothing.
    """
    knobs: list[Knob] = []
    catalogue = catalogue_of(registry, hooks=True, conf=base)
    points = {
        listed.plugin.name: {hook.name for hook in catalogue.hooks if listed.plugin.name in hook.plugins}
        for listed in base.listed()
    }
    for listed in base.listed():
        name = listed.plugin.name
        info = registry.get(name)
        if info is None or any(knob.owner == name for knob in knobs):
            continue
        asked = _Noting(listed.plugin.arguments)
        try:
            info.build(asked)
        except Exception:  # what cannot be built says so when it is played
            continue
        if points[name] and points[name] <= _SCORES:
            knobs.append(Knob(name, "plugin", name, choices=(True, False)))
        declared = {one.name: one for one in info.arguments or ()}
        given = {key: one.of(asked) for key, one in declared.items() if not one.prefix}
        asked.numbers.update(
            (key, (value, isinstance(value, int)))
            for key, value in given.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        )
        for key, (value, whole) in asked.numbers.items():
            written = f"{name}.{key.removeprefix(f'{name}.')}"
            if whole and value >= 0:
                low, high = 0.0, max(_MOST_WEIGHT, _SPREAD * value)
            elif not whole and value > 0:
                low, high = value / _SPREAD, value * _SPREAD
            else:
                continue
            if (one := declared.get(key)) is not None:
                low = low if one.minimum is None else max(low, one.minimum)
                high = high if one.maximum is None else min(high, one.maximum)
            if low < high:
                knobs.append(Knob(written, "argument", name, key, low, high, whole=whole, log=not whole))
    if not knobs:
        raise InvalidInput("conf: its plugins read no numbers and none only ranks nodes; say what to search")
    return knobs


# -- a conf from a point --------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Candidate:
    """A configuration to try: a conf, and the weights of queues where they differ."""

    conf: SchedulerConf
    weights: tuple[tuple[str, int], ...] = ()
    point: tuple[tuple[str, Any], ...] = ()
    """The values that it was made of."""

    @property
    def key(self) -> str:
        """Its identity: two candidates that do the same have the same one."""
        return f"{self.conf.digest} {' '.join(f'{name}={weight}' for name, weight in self.weights)}".strip()


def made_of(
    base: SchedulerConf, knobs: Sequence[Knob], point: Point, queues: Mapping[str, int], catalogue: Catalogue
) -> Candidate:
    """Return the configuration of a point; what the point does not name stays as it is.

    :raises InvalidInput: a value breaks a rule of the conf.
    """
    data: dict[str, Any] = copy.deepcopy(base.to_data())
    weights: dict[str, int] = {}
    for knob in sorted(knobs, key=lambda knob: knob.kind != "plugin"):  # who comes in can be given arguments
        if knob.name not in point:
            continue
        value = point[knob.name]
        match knob.kind:
            case "argument":
                for entry in _entries(data, knob.owner):
                    entry.setdefault("arguments", {})[knob.argument] = value
            case "plugin":
                _switch(data, knob, bool(value))
            case "actions":
                data["actions"] = value
            case "queue":
                weights[knob.owner] = int(value)
    conf = from_data(data, catalogue, "<tuned>").conf
    other = tuple(sorted((name, weight) for name, weight in weights.items() if weight != queues.get(name)))
    return Candidate(conf, other, tuple(point.items()))


def _entries(data: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [entry for tier in data["tiers"] for entry in tier["plugins"] if entry["name"] == name]


def _switch(data: dict[str, Any], knob: Knob, on: bool) -> None:
    there = bool(_entries(data, knob.owner))
    if on and not there:
        data["tiers"][(knob.tier or 0) - 1]["plugins"].append({"name": knob.owner})
    elif there and not on:
        for tier in data["tiers"]:
            tier["plugins"] = [entry for entry in tier["plugins"] if entry["name"] != knob.owner]
