"""The effect of a conf on a real Volcano: crashes, refusals, and values that it reads otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from pumice.config.catalogue import Catalogue
from pumice.config.durations import parse_duration
from pumice.config.rules import Finding, Hit, Severity, values
from pumice.config.schema import Listed, Position, SchedulerConf
from pumice.errors import InvalidInput

ACTIONS: Final = frozenset(
    ("enqueue", "allocate", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim", "shuffle")
)
PLUGINS: Final = frozenset(
    (
        *("priority", "gang", "conformance", "drf", "proportion", "capacity", "overcommit", "resourcequota", "sla"),
        *("tdm", "predicates", "nodeorder", "binpack", "resource-strategy-fit", "numa-aware", "task-topology"),
        *("nodegroup", "usage", "rescheduling", "pdb", "cdp", "deviceshare", "network-topology-aware", "extender"),
    )
)
EXTENDER: Final = "extender"
_VERBS: Final = frozenset(
    (
        *("onSessionOpen", "onSessionClose", "predicate", "prioritize", "preemptable", "reclaimable"),
        *("queueOverused", "jobEnqueueable", "jobEnqueued", "jobReady", "allocateFunc", "deallocateFunc"),
    )
)
_READ: Final = frozenset(
    f"extender.{name}"
    for name in ("urlPrefix", "httpTimeout", "ignorable", "managedResources", *(f"{verb}Verb" for verb in _VERBS))
)
_TRUTHS: Final = frozenset(("1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"))
E, W, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO


def refused(conf: SchedulerConf, _: Catalogue) -> Iterator[Hit]:
    """Volcano does not take the conf at all: it keeps what it had."""
    if not conf.actions:
        yield Hit(E, "actions", "Volcano refuses a conf without actions, and keeps what it had", "Name some actions.")
    for action in conf.actions:
        if action not in ACTIONS:
            yield Hit(
                E,
                "actions",
                f"Volcano has no action {action!r}: it refuses the whole conf, and keeps what it had",
                "Leave it out.",
            )


def fatal(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """Volcano ends its process."""
    for hit in values.fatal_argument(conf, catalogue):
        yield Hit(E, hit.path, hit.message, hit.advice)


def passed_by(conf: SchedulerConf, _: Catalogue) -> Iterator[Hit]:
    """Volcano does not know it, says so in its log at most, and goes on without it."""
    if conf.compat is not None:
        yield Hit(INFO, "compat", "Volcano does not read `compat`", "It may stay.")
    seen: dict[str, Listed] = {}
    for listed in conf.listed():
        name = listed.plugin.name
        if name not in PLUGINS:
            yield Hit(
                W, listed.path, f"Volcano has no plugin {name!r}: it logs that and goes on without it", "Leave it out."
            )
        if name in seen and name in PLUGINS:
            yield Hit(
                W,
                listed.path,
                f"Volcano takes the last {name!r} of several and asks it once for each"
                + ("; only one extender can be used" if name == EXTENDER else ""),
                "List it once.",
            )
        seen[name] = listed


def kept_default(conf: SchedulerConf, catalogue: Catalogue) -> Iterator[Hit]:
    """Volcano warns and keeps the default of an argument whose type it does not take."""
    for hit in values.number_as_text(conf, catalogue):
        yield Hit(W, hit.path, hit.message, hit.advice)
    for listed in _extenders(conf):
        for name, value in listed.plugin.arguments.items():
            path = f"{listed.path}.arguments.{name}"
            if name not in _READ and name.startswith("extender."):
                yield Hit(W, path, f"Volcano does not read {name}", "A service behind Volcano cannot rely on it.")
            elif name == "extender.ignorable":
                if not isinstance(value, bool) and not (isinstance(value, str) and value in _TRUTHS):
                    yield Hit(
                        W, path, f"Volcano takes true or false here, not {value!r}, and keeps false", "Write true."
                    )
            elif name == "extender.httpTimeout":
                yield from _timeout(path, value)
            elif name != "extender.managedResources" and not isinstance(value, str):
                yield Hit(W, path, f"Volcano takes only text here, not {value!r}, and keeps none", "Write a text.")


def _timeout(path: str, value: object) -> Iterator[Hit]:
    try:
        length = parse_duration(value) if isinstance(value, str) else None
    except InvalidInput:
        length = None
    if length is None:
        yield Hit(W, path, f"Volcano cannot read {value!r} as a time and waits 1s", "Write a text such as 500ms.")
    elif length <= 0:
        yield Hit(W, path, f"for {value!r} Volcano waits without end: one lost answer stops it", "Write 1s.")


def dead_service(conf: SchedulerConf, _: Catalogue) -> Iterator[Hit]:
    """With a real Volcano and the extender's service down, ``ignorable`` has the opposite effect of its name."""
    for listed in _extenders(conf):
        ignorable = _is_true(listed.plugin.arguments.get("extender.ignorable", False))
        if _verb(listed, "onSessionOpen") and not ignorable:
            yield Hit(
                W,
                f"{listed.path}.arguments.extender.onSessionOpenVerb",
                "while the service is down Volcano does without the extender: pods are placed without the policy",
                "Leave the verb out unless the policy reads the whole cluster (`pumice extender serve` says so).",
            )
        if _verb(listed, "jobReady"):
            meaning = (
                "no job is ready, nothing is bound" if ignorable else "every job is ready, gangs are bound in parts"
            )
            yield Hit(
                W,
                f"{listed.path}.arguments.extender.jobReadyVerb",
                f"while the service is down, to Volcano {meaning}",
                "Leave the verb out unless the policy decides when a gang is ready.",
            )


def overruled(conf: SchedulerConf, _: Catalogue) -> Iterator[Hit]:
    """A policy that allows no victim is asked in one tier; Volcano then lets the next tier choose."""
    for point, verb, flag, asks in (
        ("preemptable", "preemptable", "enablePreemptable", ("preempt",)),
        ("reclaimable", "reclaimable", "enableReclaimable", ("reclaim",)),
    ):
        if not set(asks) & set(conf.actions):
            continue
        for listed in _extenders(conf):
            if not _verb(listed, verb):
                continue
            for later in conf.listed():
                if (
                    later.tier > listed.tier
                    and later.plugin.name in _CHOOSERS[point]
                    and later.plugin.flags.get(flag, True)
                ):
                    yield Hit(
                        W,
                        later.path,
                        f"when the extender in tier {listed.tier + 1} allows no {point} task, Volcano takes that for "
                        f"no opinion and lets {later.plugin.name!r} choose",
                        f"Set {flag}: false here.",
                    )


_CHOOSERS: Final = {
    "preemptable": frozenset(("priority", "gang", "conformance", "drf", "capacity", "tdm", "cdp", "pdb")),
    "reclaimable": frozenset(("priority", "gang", "conformance", "drf", "proportion", "capacity", "cdp", "pdb")),
}
"""Volcano's plugins that choose victims."""


def costs(conf: SchedulerConf, _: Catalogue) -> Iterator[Hit]:
    """A predicate behind a real Volcano is one HTTP call per task and node."""
    for listed in _extenders(conf):
        if _verb(listed, "predicate") and not listed.plugin.arguments.get("extender.managedResources"):
            yield Hit(
                INFO,
                f"{listed.path}.arguments.extender.predicateVerb",
                "Volcano asks this once per task and node, for every task of the cluster",
                "Set managedResources, or use prioritize, which is asked once per task.",
            )


def _extenders(conf: SchedulerConf) -> list[Listed]:
    return [listed for listed in conf.listed() if listed.plugin.name == EXTENDER]


def _verb(listed: Listed, verb: str) -> bool:
    return bool(listed.plugin.arguments.get(f"extender.{verb}Verb"))


def _is_true(value: object) -> bool:
    return value is True or (isinstance(value, str) and value in ("1", "t", "T", "TRUE", "true", "True"))


Check = Callable[[SchedulerConf, Catalogue], Iterable[Hit]]
RULES: Final[tuple[tuple[str, Check], ...]] = (
    ("volcano-refuses", refused),
    ("volcano-exits", fatal),
    ("volcano-passes-by", passed_by),
    ("volcano-keeps-default", kept_default),
    ("volcano-dead-service", dead_service),
    ("volcano-overrules", overruled),
    ("volcano-costs", costs),
)


def lint_for_volcano(conf: SchedulerConf, catalogue: Catalogue) -> list[Finding]:
    """The effects of *conf* on a real Volcano, in the order of the file. Errors: it ends, or does not take the conf."""
    findings = [
        Finding(name, hit.severity, hit.path, conf.position(hit.path), hit.message, hit.advice)
        for name, check in RULES
        for hit in check(conf, catalogue)
    ]
    return sorted(findings, key=lambda finding: finding.position or Position(0, 0))
