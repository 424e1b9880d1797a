"""Configurations from a grid: one conf, and arguments of its plugins that vary."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from pumice import yamls
from pumice.config import Catalogue, SchedulerConf, from_data
from pumice.config.kai import resolve
from pumice.config.problems import nearest
from pumice.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Varied:
    """An argument of a plugin and the values that it takes."""

    plugin: str
    argument: str
    values: tuple[Any, ...]


def parse_vary(text: str) -> Varied:
    """Return what ``binpack.weight=1,2,5`` stands for; values are read as YAML.

    :raises InvalidInput: it is no such thing.
    """
    name, eq, values = text.partition("=")
    plugin, dot, argument = name.strip().partition(".")
    parts = [part.strip() for part in values.split(",")]
    if not eq or not dot or not plugin or not argument or not all(parts):
        raise InvalidInput(f"must be PLUGIN.ARGUMENT=VALUE,VALUE, such as binpack.weight=1,2,5, got {text!r}")
    return Varied(plugin, argument, tuple(yamls.load(part, text) for part in parts))


def grid(base: SchedulerConf, varied: Sequence[Varied], catalogue: Catalogue) -> dict[str, SchedulerConf]:
    """Return the base conf as it is and one for every combination of values, by what was set.

    A combination that says the same as the base, or as another, is not played again.

    :raises InvalidInput: the base has no such plugin, or a value breaks a rule of the conf.
    """
    made = {"as it is": base}
    seen = {base.digest}
    meant = [resolve(one.plugin, base.dialect, catalogue.plugins) for one in varied]
    exact = [argument_of(plugin, one.argument, catalogue) for plugin, one in zip(meant, varied, strict=True)]
    for values in product(*(one.values for one in varied)):
        data: dict[str, Any] = copy.deepcopy(base.to_data())
        for plugin, argument, value in zip(meant, exact, values, strict=True):
            plugin_of(data, plugin).setdefault("arguments", {})[argument] = value
        name = " ".join(f"{one.plugin}.{one.argument}={value}" for one, value in zip(varied, values, strict=True))
        loaded = from_data(data, catalogue, name)
        if loaded.conf.digest not in seen:
            seen.add(loaded.conf.digest)
            made[name] = loaded.conf
    return made


def argument_of(plugin: str, argument: str, catalogue: Catalogue) -> str:
    """Return the argument as the plugin spells it: ``weight``, or ``binpack.weight`` with its own name before it.

    :raises InvalidInput: the plugin does not read it.
    """
    info = catalogue.plugins.get(plugin)
    full = f"{plugin}.{argument}"
    if info is None or info.reads(argument):
        return argument
    if info.reads(full):
        return full
    names = sorted(info.names)
    meant = nearest(argument, names) or nearest(full, names)
    hint = f"; did you mean {meant!r}?" if meant else f"; it reads {', '.join(names)}" if names else "; it reads none"
    raise InvalidInput(f"plugin {plugin!r} does not read the argument {argument!r}{hint}")


def plugin_of(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the entry of a plugin in the data of a conf.

    :raises InvalidInput: the conf has none.
    """
    there: list[dict[str, Any]] = [plugin for tier in data.get("tiers", ()) for plugin in tier.get("plugins", ())]
    found = next((plugin for plugin in there if plugin["name"] == name), None)
    if found is None:
        names = [str(plugin["name"]) for plugin in there]
        meant = nearest(name, names)
        hint = f"; did you mean {meant!r}?" if meant else f"; it has {', '.join(names)}"
        raise InvalidInput(f"plugin {name!r}: the conf has none of that name{hint}")
    return found
