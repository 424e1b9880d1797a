"""Which plugins really answer at each hook, tier by tier, and where the asking ends."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import yaml

from pumice.config.catalogue import HookInfo, Stop
from pumice.config.kai import written
from pumice.config.schema import Listed, SchedulerConf


@dataclass(frozen=True, slots=True)
class Link:
    """One entry of the conf whose plugin registers at a hook."""

    plugin: str
    path: str
    off: str | None = None
    """Why it does not run; None: it runs."""


@dataclass(frozen=True, slots=True)
class TierChain:
    """The part of one tier in a hook's chain; ``number`` counts from 1."""

    number: int
    links: tuple[Link, ...]

    @property
    def running(self) -> tuple[str, ...]:
        """The plugins that are asked, in order."""
        return tuple(link.plugin for link in self.links if link.off is None)


@dataclass(frozen=True, slots=True)
class HookChain:
    """Everything that will happen at one hook under one conf."""

    hook: str
    flag: str | None
    """None: it is always on, or the conf is KAI's, which has no flags."""
    fold: str
    ends: str
    """The condition that ends the questions early, in words."""
    tiers: tuple[TierChain, ...]
    """Only tiers in which a plugin registers."""
    asked: bool
    """Whether an action of the conf asks it (taken as yes where that is unknown)."""


def taking_part(conf: SchedulerConf, hook: HookInfo) -> list[Listed]:
    """The entries that register at *hook* and are on, in the order in which they are asked."""
    return [listed for listed in conf.listed() if listed.plugin.name in hook.plugins and why_off(listed, hook) is None]


def asked(conf: SchedulerConf, hook: HookInfo) -> bool:
    """Whether an action of *conf* asks *hook*; yes where it is not known who asks."""
    return hook.asked_by is None or any(action in hook.asked_by for action in conf.actions)


def why_off(listed: Listed, hook: HookInfo) -> str | None:
    """Why this entry does not answer at *hook* although its plugin registers there; None: it does."""
    plugin = listed.plugin
    if hook.flag is not None and not plugin.enabled(hook.flag):
        return f"{hook.flag} is false"
    needed = hook.when.get(plugin.name)
    if needed is not None and not plugin.enabled(needed):
        return f"registers only with {needed}: true"
    return None


def explain(conf: SchedulerConf, hooks: Iterable[HookInfo]) -> list[HookChain]:
    """The chain of every hook, in the order of *hooks*; one that nobody registers at has no tiers."""
    return [
        HookChain(
            hook.name,
            hook.flag if conf.dialect != "kai" else None,
            hook.fold,
            hook.short_circuit or hook.stop.value,
            _tiers(conf, hook),
            asked(conf, hook),
        )
        for hook in hooks
    ]


def _tiers(conf: SchedulerConf, hook: HookInfo) -> tuple[TierChain, ...]:
    chains: dict[int, list[Link]] = {}
    decided_by: Listed | None = None
    for listed in conf.listed():
        if listed.plugin.name not in hook.plugins:
            continue
        off = why_off(listed, hook)
        if off is None and decided_by is not None and _is_past(hook, decided_by, listed):
            off = f"never reached: {decided_by.plugin.name} in tier {decided_by.tier + 1} decides"
        if off is None and decided_by is None:
            decided_by = listed
        chains.setdefault(listed.tier, []).append(Link(written(listed.plugin.name, conf.dialect), listed.path, off))
    return tuple(TierChain(tier + 1, tuple(links)) for tier, links in chains.items())


def _is_past(hook: HookInfo, first: Listed, listed: Listed) -> bool:
    """Whether the asking has ended for certain before *listed*, *first* being the first to take part."""
    if hook.stop is Stop.FIRST_PLUGIN:
        return True
    return hook.stop is Stop.FIRST_TIER and listed.tier > first.tier


def render(chains: Sequence[HookChain], dialect: str = "volcano") -> str:
    """The chains as plain text; at the end the hooks that no plugin answers, and those that no action asks.

    KAI has neither flags nor tiers: its text shows none.
    """
    lines: list[str] = []
    for chain in chains:
        if not chain.asked or not chain.tiers:
            continue
        flag = "" if dialect == "kai" else f" ({chain.flag or 'no flag'})"
        lines += [f"{chain.hook}{flag}", f"  {_summary(chain)}"]
        for tier in chain.tiers:
            number = f"tier {tier.number}: " if dialect != "kai" or len(chain.tiers) > 1 else ""
            lines.append(f"  {number}{' -> '.join(tier.running) or 'no plugin'}")
            lines += [f"    not {link.plugin}: {link.off}" for link in tier.links if link.off is not None]
        lines.append("")
    idle = [chain.hook for chain in chains if chain.asked and not chain.tiers]
    unasked = [chain.hook for chain in chains if chain.tiers and not chain.asked]
    if idle:
        lines.append(f"unused extension points: {', '.join(idle)}")
    if unasked:
        lines.append(f"plugins would answer, but no action of this conf asks: {', '.join(unasked)}")
    return "\n".join(lines).rstrip() + "\n"


def _summary(chain: HookChain) -> str:
    return chain.fold or chain.ends


MASK: Final = "***"
_SECRET: Final = re.compile(
    r"token|passw|secret|credential|auth|cookie|api[-_.]?key|private[-_.]?key|headers", re.IGNORECASE
)
"""Names of what lets somebody in; of a table of that name every value."""
_PLACE: Final = re.compile(r"(file|path|dir)$", re.IGNORECASE)
"""Names of where something is, which is no secret."""
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"]+")


def conf_text(conf: SchedulerConf) -> str:
    """The conf as YAML, without what lets somebody in."""
    return yaml.safe_dump(without_secrets(conf.to_data()), sort_keys=False, allow_unicode=True, width=100)


def without_secrets(data: Any, name: str = "") -> Any:
    """Plain data of a conf, with `MASK` for secrets: values by their names, and parts of addresses.

    Numbers, switches and the names of files stay, whatever they are called.
    """
    if isinstance(data, Mapping):
        hidden = name if _secret(name) else ""
        return {key: without_secrets(value, hidden or str(key)) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [without_secrets(value, name) for value in data]
    if not isinstance(data, str):
        return data
    return MASK if data and _secret(name) else _URL.sub(lambda found: _address(found[0]), data)


def _secret(name: str) -> bool:
    return bool(_SECRET.search(name)) and not _PLACE.search(name)


def _address(url: str) -> str:
    """An address without user and password, and without parameters."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return MASK
    _, at, host = parts.netloc.rpartition("@")
    query = "&".join(f"{pair.partition('=')[0]}={MASK}" if "=" in pair else MASK for pair in parts.query.split("&"))
    fragment = MASK if parts.fragment else ""
    return urlunsplit(
        (parts.scheme, f"{MASK}@{host}" if at else host, parts.path, query if parts.query else "", fragment)
    )
