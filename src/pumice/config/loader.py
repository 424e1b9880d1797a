"""Conf text or data -> ``SchedulerConf``, with every problem found in one go.

Errors are what Volcano rejects, unknown plugins, and wrong types. Warnings are what Volcano silently ignores; with
``strict`` they are errors too. Defaults are not filled in: a conf holds what was written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Lines
from dataclasses import dataclass
from typing import Final, Protocol

from pumice.config import kai, objects
from pumice.config.catalogue import ArgumentsInfo, Catalogue
from pumice.config.durations import parse_duration
from pumice.config.problems import InvalidConf, Problem
from pumice.config.schema import ActionConf, PluginConf, Position, SchedulerConf, Tier
from pumice.config.tree import (
    ConfEntry,
    ConfTable,
    Reading,
    Scalar,
    Sequence,
    Tree,
    TreeError,
    from_plain,
    in_file_order,
    join,
    parse_yaml,
    plain,
)
from pumice.errors import ConfigError, InvalidInput, shown

DEFAULT_CONF: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
"""Used until a valid file is loaded, and whenever no file is given; the same as Volcano's."""

HELM_CONF: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
"""The conf of Volcano's Helm chart: the default with binpack, and without preemption by gang and drf."""


VOLCANO: Final = "Volcano"
KAI: Final = "KAI-Scheduler"

ELSEWHERE: Final[dict[str, str]] = {
    "capacity-card": VOLCANO,
}
"""Plugin -> whose it is."""
LIMITS: Final = "docs/limits.md#plugins-of-volcano-and-kai-scheduler-that-are-missing"


def absent_plugin(name: str, whose: str) -> str:
    """The message about a conf that names one."""
    return f"{whose}'s plugin {name!r}, not in Pumice: see {LIMITS}; leave it out to go on without it"


TOP_KEYS: Final = ("actions", "tiers", "configurations", "metrics", "compat", "dialect")
COMPAT_PROFILES: Final = ("volcano", "kai")
METRICS_KEYS: Final = (
    "type",
    "address",
    "interval",
    "tls.insecureSkipVerify",
    "elasticsearch.index",
    "elasticsearch.hostnameFieldName",
    "elasticsearch.username",
    "elasticsearch.password",
)


@dataclass(frozen=True, slots=True)
class LoadedConf:
    """A usable conf, and what it says in vain."""

    conf: SchedulerConf
    warnings: tuple[Problem, ...]


def load(text: str, catalogue: Catalogue, source: str = "<string>", strict: bool = False) -> LoadedConf:
    """The conf that *text* (YAML) holds; *source* names it in messages.

    :raises InvalidConf: with all errors (and, if *strict*, all warnings) in the order of the file.
    """
    reading = Reading(source)
    try:
        tree, errors, second = parse_yaml(text)
    except TreeError as error:
        raise InvalidConf([error.as_problem(source)]) from error
    reading.errors += [error.as_problem(source) for error in errors]
    if second is not None:
        reading.warn("second-document", "only the first YAML document is read, this one is not", "", second)
    return _finish(reading, tree, catalogue, strict, text.split("\n"))


def from_data(
    data: Mapping[str, object], catalogue: Catalogue, source: str = "<data>", strict: bool = False
) -> LoadedConf:
    """The conf that *data* (decoded JSON) holds; as ``load``, without positions."""
    try:
        tree = from_plain(data)
    except TreeError as error:
        raise InvalidConf([error.as_problem(source)]) from error
    return _finish(Reading(source), tree, catalogue, strict)


def _finish(reading: Reading, tree: Tree, catalogue: Catalogue, strict: bool, lines: Lines[str] = ()) -> LoadedConf:
    try:
        conf = _conf(reading, objects.unwrapped(reading, tree, lines, catalogue), catalogue)
    except TreeError as error:
        raise InvalidConf([error.as_problem(reading.source)]) from error
    failures = reading.errors + reading.warnings if strict else reading.errors
    if failures:
        raise InvalidConf(in_file_order(failures))
    return LoadedConf(conf, tuple(in_file_order(reading.warnings)))


def _conf(reading: Reading, tree: Tree, catalogue: Catalogue) -> SchedulerConf:
    if tree.position is not None:
        reading.positions[""] = tree.position
    if isinstance(tree, Sequence) and any(isinstance(t, ConfTable) and "plugins" in t.entries for t in tree.items):
        reading.error(
            "wrong-type", "must be a mapping, got a list of tiers; write it below 'tiers:'", "", tree.position
        )
        tree = ConfTable({})
    top = reading.table(tree, "")
    reading.warn_of_unknown_keys(top, "", TOP_KEYS + kai.KEYS)
    dialect = kai.dialect_of(top, _dialect(reading, _value(top, "dialect")))
    configurations = _configurations(reading, _value(top, "configurations"), catalogue, dialect)
    for key in kai.KEYS if dialect != "kai" else ():
        if key in top.entries:
            message = f"{key!r} is a key of KAI-Scheduler and not used in a conf of Volcano's"
            reading.warn("unused-key", message, key, top.entries[key].key_position)
    if dialect == "kai" and (settings := kai.settings(reading, top)) is not None:
        configurations = (*configurations, settings)
    conf = SchedulerConf.of(
        _actions(reading, _value(top, "actions"), catalogue, dialect),
        _tiers(reading, _value(top, "tiers"), catalogue, dialect),
        configurations,
        _metrics(reading, _value(top, "metrics")),
        _compat(reading, _value(top, "compat")),
        reading.source,
        reading.positions,
        dialect,
    )
    _warn_of_repeats(reading, conf, catalogue)
    return conf


def _dialect(reading: Reading, tree: Tree | None) -> str:
    text = reading.text(tree, "dialect")
    if text and text not in kai.DIALECTS:
        message = f"unknown dialect {text!r} (known: {_listing(kai.DIALECTS)})"
        reading.error("unknown-dialect", message, "dialect", tree.position if tree is not None else None, text)
        return ""
    return text


def _tiers(reading: Reading, tree: Tree | None, catalogue: Catalogue, dialect: str) -> tuple[Tier, ...]:
    if dialect == "kai" and kai.is_nothing(tree):
        return (kai.default_tier(catalogue),)
    items = reading.items(tree, "tiers")
    return tuple(_tier(reading, item, f"tiers[{index}]", catalogue, dialect) for index, item in enumerate(items))


def _actions(reading: Reading, tree: Tree | None, catalogue: Catalogue, dialect: str) -> tuple[str, ...]:
    if tree is not None and not isinstance(tree, Scalar):
        reading.wrong_type(tree, "actions", "comma-separated text such as 'enqueue, allocate, backfill'")
        return ()
    text = reading.text(tree, "actions")
    if dialect == "kai" and kai.is_nothing(tree):
        text = kai.DEFAULT_ACTIONS
    if not text.strip():
        position = tree.position if tree is not None else reading.positions.get("")
        example = kai.DEFAULT_ACTIONS if dialect == "kai" else "enqueue, allocate, backfill"
        rule = f"at least one action must be named, such as {example!r}"
        reading.error("no-actions", rule, "actions", position)
        return ()
    names: list[str] = []
    offset = 0
    for index, part in enumerate(text.split(",")):
        name = kai.resolve(part.strip(), dialect, catalogue.actions)
        names.append(name)
        path = f"actions[{index}]"
        position = _inside(tree, offset + len(part) - len(part.lstrip()))
        offset += len(part) + 1
        if not name:
            reading.error("unknown-action", "there is a comma but no action's name", path, position)
        elif name not in catalogue.actions:
            known = kai.of_dialect(catalogue.actions, dialect)
            message = f"unknown action {shown(name)} (known: {_listing(known)})"
            reading.error("unknown-action", message, path, position, name, known)
        elif said := kai.foreign(name, dialect, catalogue.actions, action=True):
            reading.error("other-dialect", said, path, position, name)
    return tuple(names)


def _tier(reading: Reading, tree: Tree, path: str, catalogue: Catalogue, dialect: str) -> Tier:
    table = reading.table(tree, path)
    reading.warn_of_unknown_keys(table, path, ("plugins",))
    path = join(path, "plugins")
    items = reading.items(_value(table, "plugins"), path)
    read = [_plugin(reading, item, join(path, index), catalogue, dialect) for index, item in enumerate(items)]
    plugins = tuple(plugin for plugin in read if plugin is not None)
    _forbid_two_sharers(reading, plugins, path)
    return Tier(plugins)


def _plugin(reading: Reading, tree: Tree, path: str, catalogue: Catalogue, dialect: str) -> PluginConf | None:
    before = len(reading.errors)
    table = reading.table(tree, path)
    written = _value(table, "name")
    name = kai.resolve(reading.text(written, join(path, "name")), dialect, catalogue.plugins)
    position = tree.position if written is None else written.position
    absent = kai.missing(name, dialect) if name not in catalogue.plugins else ""
    if absent:
        reading.warn("missing-plugin", absent, join(path, "name"), position, name)
        return None
    if not name and len(reading.errors) == before:
        reading.error("unknown-plugin", "the plugin has no name", join(path, "name"), position)
    elif name and name not in catalogue.plugins and name in ELSEWHERE:
        message = absent_plugin(name, ELSEWHERE[name])
        reading.error("missing-plugin", message, join(path, "name"), position, name)
    elif name and name not in catalogue.plugins:
        message = f"unknown plugin {shown(name)} (`pumice plugin list` lists those that there are)"
        known = [kai.written(each, dialect) for each in catalogue.plugins]
        reading.error("unknown-plugin", message, join(path, "name"), position, name, known)
    if said := kai.foreign(name, dialect, catalogue.plugins, action=False):
        reading.error("other-dialect", said, join(path, "name"), position, name)
    info = catalogue.plugins.get(name)
    flags: dict[str, bool] = {}
    for key, entry in table.entries.items():
        if key in catalogue.flags:
            _flag(reading, entry.value, join(path, key), key, flags)
        elif key not in ("name", "arguments") and not (
            dialect == "kai" and kai.warn_of_switch(reading, key, entry, join(path, key))
        ):
            _warn_of_plugin_key(reading, key, entry, join(path, key), name, catalogue)
    owner = f"plugin {kai.written(name, dialect)!r}"
    arguments = _arguments(reading, _value(table, "arguments"), join(path, "arguments"), owner, info)
    return PluginConf(name, arguments, flags, tree.position, catalogue.flags)


def _flag(reading: Reading, tree: Tree, path: str, key: str, flags: dict[str, bool]) -> None:
    if isinstance(tree, Scalar) and tree.value is None:
        return  # a key without a value is a flag that is not written
    if isinstance(tree, Scalar) and isinstance(tree.value, bool):
        flags[key] = tree.value
        return
    quoted = isinstance(tree, Scalar) and tree.text.casefold() in ("true", "false")
    reading.wrong_type(tree, path, "true or false, without quotes" if quoted else "true or false")


def _warn_of_plugin_key(
    reading: Reading, key: str, entry: ConfEntry, path: str, plugin: str, catalogue: Catalogue
) -> None:
    info = catalogue.plugins.get(plugin)
    if info is not None and info.reads(key):
        message = f"{key!r} is an argument of plugin {plugin!r} and belongs below 'arguments'"
        reading.warn("misplaced-argument", message, path, entry.key_position, value=key)
    elif key.casefold().startswith("enable"):
        reading.warn("unknown-flag", f"unknown flag {key!r}", path, entry.key_position, key, catalogue.flags)
    else:
        known = ("name", "arguments", *catalogue.flags)
        reading.warn("unknown-key", f"unknown key {key!r}", path, entry.key_position, key, known)


def _arguments(
    reading: Reading, tree: Tree | None, path: str, owner: str, info: ArgumentsInfo | None
) -> Mapping[str, object]:
    table = reading.table(tree, path)
    if info is not None:
        known = (*info.names, *info.prefixes)
        for key, entry in table.entries.items():
            if not info.reads(key):
                message = f"{owner} does not read the argument {key!r}" + ("" if known else "; it reads none")
                reading.warn("unread-argument", message, join(path, key), entry.key_position, key, known)
    return {key: plain(entry.value) for key, entry in table.entries.items()}


def _forbid_two_sharers(reading: Reading, plugins: tuple[PluginConf, ...], path: str) -> None:
    """Volcano refuses hierarchical drf beside proportion inside one tier; across tiers the linter tells."""
    if not any(plugin.name == "proportion" for plugin in plugins):
        return
    for index, plugin in enumerate(plugins):
        if plugin.name == "drf" and plugin.flags.get("enableHierarchy"):
            at = join(join(path, index), "enableHierarchy")
            message = "drf with enableHierarchy cannot stand in one tier with proportion: both order and reclaim queues"
            reading.error("hierarchy-conflict", message, at, reading.positions.get(at))


def _configurations(reading: Reading, tree: Tree | None, catalogue: Catalogue, dialect: str) -> tuple[ActionConf, ...]:
    entries: list[ActionConf] = []
    for index, item in enumerate(reading.items(tree, "configurations")):
        path = f"configurations[{index}]"
        table = reading.table(item, path)
        reading.warn_of_unknown_keys(table, path, ("name", "arguments"))
        name = kai.resolve(reading.text(_value(table, "name"), join(path, "name")), dialect, catalogue.actions)
        known = catalogue.actions
        if dialect == "kai" and name == kai.SETTINGS:  # as a conf that was read writes it
            entries.append(ActionConf(name, plain_of(_value(table, "arguments")), item.position))
            continue
        if name not in known:
            message = f"unknown action {shown(name)}, so these arguments are not read (known: {_listing(known)})"
            reading.warn("unknown-action", message, join(path, "name"), item.position, name, known)
        elif any(entry.name == name for entry in entries):
            message = f"a second entry for action {name!r}; only the first is read"
            reading.warn("unread-entry", message, path, item.position, value=name)
        given = _value(table, "arguments")
        arguments = _arguments(
            reading, given, join(path, "arguments"), f"action {kai.written(name, dialect)!r}", known.get(name)
        )
        entries.append(ActionConf(name, arguments, item.position))
    return tuple(entries)


def plain_of(tree: Tree | None) -> Mapping[str, object]:
    """A mapping as plain values."""
    return {key: plain(entry.value) for key, entry in tree.entries.items()} if isinstance(tree, ConfTable) else {}


def _metrics(reading: Reading, tree: Tree | None) -> dict[str, str]:
    table = reading.table(tree, "metrics")
    reading.warn_of_unknown_keys(table, "metrics", METRICS_KEYS)
    metrics = {key: reading.text(entry.value, join("metrics", key)) for key, entry in table.entries.items()}
    interval = metrics.get("interval")
    if interval:
        try:
            complaint = "" if parse_duration(interval) > 0 else f"must be above 0, got {interval!r}"
        except InvalidInput as error:
            complaint = str(error)
        if complaint:
            path = "metrics.interval"
            reading.warn("ignored-value", f"{complaint}; 30s is used", path, reading.positions.get(path))
    return metrics


def _compat(reading: Reading, tree: Tree | None) -> str | None:
    text = reading.text(tree, "compat")
    if text and text not in COMPAT_PROFILES:
        message = f"unknown profile {text!r} (known: {_listing(COMPAT_PROFILES)})"
        position = tree.position if tree is not None else None
        reading.error("unknown-compat", message, "compat", position, text, COMPAT_PROFILES)
    return text or None


def _warn_of_repeats(reading: Reading, conf: SchedulerConf, catalogue: Catalogue) -> None:
    """Warn of a plugin that is listed again, unless its entries can be told apart."""
    seen: set[tuple[str, str]] = set()
    for listed in conf.listed():
        name = listed.plugin.name
        argument = catalogue.repeatable.get(name)
        identity = "" if argument is None else str(listed.plugin.arguments.get(argument, ""))
        if name and (name, identity) in seen:
            shown_name = kai.written(name, conf.dialect)
            message = f"plugin {shown_name!r} is listed again, so each of its answers counts once per listing"
            if argument is not None:
                message = f"plugin {shown_name!r} is listed again; each of its entries needs an {argument!r} of its own"
            reading.warn("repeated-plugin", message, listed.path, listed.plugin.position, value=name)
        seen.add((name, identity))


def _value(table: ConfTable, key: str) -> Tree | None:
    entry = table.entries.get(key)
    return entry.value if entry is not None else None


def _inside(tree: Tree | None, offset: int) -> Position | None:
    """The position of character *offset* of a scalar, or the start of the scalar if that is unknown."""
    if isinstance(tree, Scalar) and tree.text_position is not None:
        return Position(tree.text_position.line, tree.text_position.column + offset)
    return tree.position if tree is not None else None


def _listing(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


class Readable(Protocol):
    """The source of a conf: a path, or any object that can be read like one; its text names it in errors."""

    def read_bytes(self) -> bytes:
        """The content; an `OSError` says why there is none."""
        ...


class ConfSource:
    """Follows one conf file and keeps the last good conf, whatever happens to the file.

    There is no watcher and no clock: the owner calls ``poll`` between sessions. The content decides, not times or
    inodes, so a ConfigMap whose links are swapped is seen, and a file that was only touched is not.
    """

    def __init__(
        self, path: Readable, catalogue: Catalogue, *, initial: LoadedConf | None = None, strict: bool = False
    ) -> None:
        self.path = path
        self.active = initial
        """The conf to use; None only until the first good one."""
        self.error: ConfigError | None = None
        """Why the present content of the file is not the active conf; None if it is, or if nothing was read yet."""
        self._catalogue = catalogue
        self._strict = strict
        self._active_content: str | None = None
        self._seen_content: str | None = None

    @property
    def active_digest(self) -> str | None:
        """The hash of the active conf, by which reports name it."""
        return self.active.conf.digest if self.active is not None else None

    def poll(self) -> LoadedConf | None:
        """The new conf if the file holds another good one than the active; else None.

        A file that cannot be read or used sets ``error`` and changes nothing else. It is read again at the next poll,
        and checked again when its content has changed.
        """
        try:
            content = self.path.read_bytes()
        except OSError as error:
            self.error = ConfigError(f"{self.path}: the scheduler conf cannot be read: {error.strerror or error}")
            self._seen_content = None
            return None
        digest = hashlib.sha256(content).hexdigest()
        if digest == self._seen_content:
            return None
        self._seen_content = digest
        if digest == self._active_content:
            self.error = None
            return None
        try:
            loaded = load(_decode(content, str(self.path)), self._catalogue, str(self.path), self._strict)
        except ConfigError as error:
            self.error = error
            return None
        self.active, self.error = loaded, None
        self._active_content = digest
        return loaded

    def check_again(self, catalogue: Catalogue) -> None:
        """Make the next poll check the file against *catalogue* even if unchanged: plugins came or went."""
        self._catalogue = catalogue
        self._seen_content = self._active_content = None


def _decode(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"not UTF-8: byte {error.start} is 0x{content[error.start]:02x}"
        raise InvalidConf([Problem("encoding", message, "", None, source)]) from error
