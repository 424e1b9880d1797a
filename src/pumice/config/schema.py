"""The typed conf: actions, tiers of plugins, arguments of actions, the metrics source.

Values are frozen; the mappings in them are shared and must not be changed.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pumice.errors import InvalidInput


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the conf file; both numbers count from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class PluginConf:
    """One entry of a tier's ``plugins``."""

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    flags: Mapping[str, bool] = field(default_factory=dict)
    """Only the flags that are written."""
    position: Position | None = field(default=None, compare=False)
    defaults: Mapping[str, bool] = field(default_factory=dict, compare=False, repr=False)
    """Flag -> its value when it is not written; from the catalogue."""

    def enabled(self, flag: str) -> bool:
        """Whether *flag* is on for this entry: as written, else its default.

        :raises InvalidInput: there is no such flag.
        """
        written = self.flags.get(flag)
        if written is not None:
            return written
        if flag not in self.defaults:
            raise InvalidInput(f"plugin {self.name!r}: there is no flag {flag!r}")
        return self.defaults[flag]

    def to_data(self) -> dict[str, object]:
        """The entry as it could stand in a JSON conf."""
        data: dict[str, object] = {"name": self.name, **self.flags}
        if self.arguments:
            data["arguments"] = copy.deepcopy(dict(self.arguments))
        return data


@dataclass(frozen=True, slots=True)
class Tier:
    """Plugins that decide together; the tiers before it decide first."""

    plugins: tuple[PluginConf, ...] = ()


@dataclass(frozen=True, slots=True)
class ActionConf:
    """Arguments of one action: an entry of ``configurations``."""

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Listed:
    """One plugin entry with its place in the conf."""

    tier: int
    path: str
    plugin: PluginConf


@dataclass(frozen=True, slots=True)
class SchedulerConf:
    """A conf that was checked; build one with ``load``, ``from_data`` or ``SchedulerConf.of``."""

    actions: tuple[str, ...]
    tiers: tuple[Tier, ...]
    configurations: tuple[ActionConf, ...]
    metrics: Mapping[str, str]
    compat: str | None
    source: str = field(compare=False)
    digest: str
    """A hash of the content: two confs that say the same have the same one, whatever their comments and layout."""
    positions: Mapping[str, Position] = field(default_factory=dict, compare=False, repr=False)
    """Path -> where its value stands in the file; empty for a conf that was not read from text."""
    dialect: str = "volcano"
    """The dialect of the conf: ``volcano`` or ``kai``."""

    @classmethod
    def of(
        cls,
        actions: tuple[str, ...],
        tiers: tuple[Tier, ...],
        configurations: tuple[ActionConf, ...] = (),
        metrics: Mapping[str, str] | None = None,
        compat: str | None = None,
        source: str = "<code>",
        positions: Mapping[str, Position] | None = None,
        dialect: str = "volcano",
    ) -> SchedulerConf:
        """The conf made of these parts, with its digest; nothing is checked."""
        conf = cls(actions, tiers, configurations, dict(metrics or {}), compat, source, "", positions or {}, dialect)
        return dataclasses.replace(conf, digest=_digest(conf.to_data()))

    def action_arguments(self, name: str) -> Mapping[str, object]:
        """The arguments of action *name*: those of its first entry in ``configurations``, or none."""
        return next((entry.arguments for entry in self.configurations if entry.name == name), {})

    def listed(self) -> Iterator[Listed]:
        """Every plugin entry, tiers from the top, with the path to it."""
        for tier_index, tier in enumerate(self.tiers):
            for index, plugin in enumerate(tier.plugins):
                yield Listed(tier_index, f"tiers[{tier_index}].plugins[{index}]", plugin)

    def position(self, path: str) -> Position | None:
        """The position of the value at *path*, or of the nearest value around it; None without a file."""
        while path and path not in self.positions:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.positions.get(path)

    def with_compat(self, compat: str | None) -> SchedulerConf:
        """The same conf under another compatibility profile (``--compat``)."""
        return SchedulerConf.of(
            *(self.actions, self.tiers, self.configurations, self.metrics, compat, self.source, self.positions),
            dialect=self.dialect,
        )

    def to_data(self) -> dict[str, object]:
        """The content as plain JSON values, which ``from_data`` reads back to an equal conf."""
        data: dict[str, object] = {
            "actions": ", ".join(self.actions),
            "tiers": [{"plugins": [plugin.to_data() for plugin in tier.plugins]} for tier in self.tiers],
        }
        if self.configurations:
            data["configurations"] = [
                {"name": entry.name, "arguments": copy.deepcopy(dict(entry.arguments))} for entry in self.configurations
            ]
        if self.metrics:
            data["metrics"] = dict(self.metrics)
        if self.compat is not None:
            data["compat"] = self.compat
        if self.dialect != "volcano":
            data["dialect"] = self.dialect
        return data


def _digest(data: Mapping[str, object]) -> str:
    canonical = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
