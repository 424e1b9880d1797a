"""The ``extender.*`` arguments of one extender, read and checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from pumice.config.durations import SECOND, parse_duration
from pumice.engine.scope import Scope
from pumice.errors import InvalidInput
from pumice.extender.dialects import DIALECTS
from pumice.extender.protocol import ASKED, KUBE_PATHS, VERBS
from pumice.framework.arguments import Arguments
from pumice.model.api import LabelSelector, Requirement
from pumice.model.job import Job
from pumice.model.selectors import label_selector_matches
from pumice.model.task import Task, TaskClass

PREFIX: Final = "extender."

_OTHERS: Final = (
    *("name", "urlPrefix", "httpTimeout", "ignorable", "managedResources", "dialect", "scope", "payload", "weight"),
    *("failurePolicy", "sessionBudget", "breakerFailures", "breakerReset", "concurrency", "caFile", "certFile"),
    *("keyFile", "tokenFile", "compression", "bypassSelector"),
)
ARGUMENTS: Final = tuple(sorted(PREFIX + name for name in (*_OTHERS, *(f"{verb}Verb" for verb in ASKED))))
"""Every argument that the plugin reads."""

_LOOPBACK: Final = re.compile(r"localhost|127(?:\.\d+){3}|::1|.+\.localhost")


@dataclass(frozen=True, slots=True)
class Transport:
    """How to reach a service. Equal ones may share connections."""

    url: str
    timeout: float | None = 1.0
    """Seconds for the whole exchange; ``None``: no limit."""
    concurrency: int = 64
    """Calls in flight."""
    breaker_failures: int = 5
    """Failures in a row that open the circuit; 0: never."""
    breaker_reset: float = 10.0
    """Seconds until an open circuit lets one call try."""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    token_file: str = ""
    compression: bool = False

    @property
    def exposed(self) -> bool:
        """Does plain HTTP leave this machine?"""
        parts = urlsplit(self.url)
        return parts.scheme == "http" and _LOOPBACK.fullmatch(parts.hostname or "") is None


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """One extender as the configuration describes it."""

    name: str = ""
    transport: Transport | None = None
    """``None``: no URL was given, the extender is off."""
    verbs: Mapping[str, str] = field(default_factory=dict)
    """Verb -> the path under which the service answers it; those with an empty path are left out."""
    ignorable: bool = False
    policies: Mapping[str, bool] = field(default_factory=dict)
    """Verb -> are its errors ignored? Where it differs from ``ignorable``."""
    managed: frozenset[str] = frozenset()
    dialect: str = "both"
    scope: Scope = Scope.SESSION
    names_only: bool = False
    weight: float = 1.0
    session_budget: float | None = None
    """Seconds for all calls of one cycle; ``None``: no limit."""
    bypass: LabelSelector | None = None
    """Tasks that the extender is never asked about."""

    def ignores(self, verb: str) -> bool:
        """Are errors of *verb* neutral?"""
        return self.policies.get(verb, self.ignorable)


class TaskFilter:
    """Managed resources and the bypass selector of one extender: which tasks it is asked about."""

    def __init__(self, settings: ExtenderSettings) -> None:
        self._managed, self._bypass = settings.managed, settings.bypass

    def manages(self, task: Task) -> bool:
        """Does a container (or init container) name a managed resource in requests or limits?

        With no managed resources every task counts.
        """
        if not self._managed:
            return True
        memo = task.klass.memo
        known: bool | None = memo.get(("extender", self._managed))
        if known is None:
            known = memo["extender", self._managed] = self._named(task.klass)
        return known

    def concerns(self, task: Task) -> bool:
        """Is the extender asked about the task?"""
        if self._bypass is not None and label_selector_matches(self._bypass, task.labels):
            return False
        return self.manages(task)

    def bypasses(self, job: Job) -> bool:
        """Does the bypass selector match every task of the job?"""
        if self._bypass is None or not job.tasks:
            return False
        return all(label_selector_matches(self._bypass, task.labels) for task in job.tasks.values())

    def holds(self, job: Job) -> bool:
        """Is any task of the job the extender's business?"""
        return any(self.concerns(task) for task in job.tasks.values())

    def _named(self, klass: TaskClass) -> bool:
        containers = [*(klass.spec.containers or ()), *(klass.spec.init_containers or ())]
        return any(
            name in self._managed
            for container in containers
            if container.resources is not None
            for named in (container.resources.requests, container.resources.limits)
            for name in named or ()
        )


def read_settings(arguments: Arguments) -> ExtenderSettings:
    """The settings in a plugin's arguments.

    :raises InvalidInput: an argument breaks a rule; names it, its value and the rule.
    """
    url = _url(arguments)
    dialect = _choice(arguments, "dialect", "both", tuple(DIALECTS))
    verbs = {verb: path for verb in ASKED if (path := _text(arguments, f"{verb}Verb").strip("/"))}
    if dialect == "kube":
        verbs = _kube_verbs(verbs)
    transport = Transport(
        url=url,
        timeout=_seconds(arguments, "httpTimeout", 1.0),
        concurrency=_at_least(arguments, "concurrency", 64, 1),
        breaker_failures=_at_least(arguments, "breakerFailures", 5, 0),
        breaker_reset=_seconds(arguments, "breakerReset", 10.0) or 0.0,
        ca_file=_text(arguments, "caFile"),
        cert_file=_text(arguments, "certFile"),
        key_file=_text(arguments, "keyFile"),
        token_file=_text(arguments, "tokenFile"),
        compression=arguments.bool(PREFIX + "compression", False),
    )
    if bool(transport.cert_file) != bool(transport.key_file):
        raise InvalidInput("arguments extender.certFile and extender.keyFile: must be given together")
    return ExtenderSettings(
        name=_text(arguments, "name"),
        transport=transport if url else None,
        verbs=verbs,
        ignorable=arguments.bool(PREFIX + "ignorable", False),
        policies=_policies(arguments),
        managed=frozenset(arguments.list(PREFIX + "managedResources")),
        dialect=dialect,
        scope=Scope(_choice(arguments, "scope", Scope.SESSION.value, tuple(scope.value for scope in Scope))),
        names_only=_choice(arguments, "payload", "full", ("full", "names")) == "names",
        weight=arguments.float(PREFIX + "weight", 1.0),
        session_budget=_seconds(arguments, "sessionBudget", None),
        bypass=_selector(_text(arguments, "bypassSelector")),
    )


_KUBE: Final = {
    verb: kube.name
    for verb in ASKED
    for kube in KUBE_PATHS.values()
    if VERBS[verb] is kube or (kube.points and VERBS[verb].points[:1] == kube.points[:1])
}
"""Our verb -> the one of kube-scheduler's protocol that is asked at the same point."""


def _kube_verbs(verbs: Mapping[str, str]) -> dict[str, str]:
    """The verbs of kube-scheduler's protocol that answer ours: its filter takes all nodes at once."""
    for verb in verbs:
        if verb not in _KUBE:
            known = ", ".join(f"extender.{name}Verb" for name in _KUBE)
            raise InvalidInput(f"argument extender.{verb}Verb: the kube dialect carries only {known}")
    return {_KUBE[verb]: path for verb, path in verbs.items()}


def _text(arguments: Arguments, name: str) -> str:
    return arguments.str(PREFIX + name, "")


def _url(arguments: Arguments) -> str:
    url = _text(arguments, "urlPrefix").rstrip("/")
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise InvalidInput(f"argument extender.urlPrefix: must be an http or https URL with a host, got {url!r}")
    return url


def _seconds(arguments: Arguments, name: str, default: float | None) -> float | None:
    """A duration in seconds; 0: no limit."""
    given = arguments.get(PREFIX + name)
    if given is None:
        return default
    try:
        if not isinstance(given, str):
            raise InvalidInput(f"must be a text such as 500ms or 1m30s, got {given!r}")
        seconds = parse_duration(given) / SECOND
        if seconds < 0:
            raise InvalidInput(f"must not be negative (0s: no limit), got {given!r}")
    except InvalidInput as error:
        raise InvalidInput(f"argument extender.{name}: {error}") from None
    return seconds if seconds > 0 else None


def _choice(arguments: Arguments, name: str, default: str, known: tuple[str, ...]) -> str:
    given = arguments.str(PREFIX + name, default)
    if given not in known:
        raise InvalidInput(f"argument extender.{name}: must be one of {', '.join(known)}, got {given!r}")
    return given


def _at_least(arguments: Arguments, name: str, default: int, least: int) -> int:
    given = arguments.int(PREFIX + name, default)
    if given < least:
        raise InvalidInput(f"argument extender.{name}: must be at least {least}, got {given}")
    return given


def _policies(arguments: Arguments) -> dict[str, bool]:
    """``{predicate: ignore}`` or ``predicate=ignore, jobReady=fail``."""
    given = arguments.get(PREFIX + "failurePolicy", {})
    if isinstance(given, str):
        pairs = [pair.partition("=")[::2] for pair in given.split(",") if pair.strip()]
        given = {verb.strip(): policy.strip() for verb, policy in pairs}
    if not isinstance(given, Mapping):
        raise InvalidInput(
            f"argument extender.failurePolicy: must be a table or a text such as predicate=ignore, got {given!r}"
        )
    policies = {}
    for verb, policy in given.items():
        if verb not in VERBS:
            raise InvalidInput(f"argument extender.failurePolicy: {verb!r} is not one of {', '.join(VERBS)}")
        if policy not in ("fail", "ignore"):
            raise InvalidInput(f"argument extender.failurePolicy: {verb} must be fail or ignore, got {policy!r}")
        policies[str(verb)] = policy == "ignore"
    return policies


_NAME: Final = r"[A-Za-z0-9./_-]+"
_TERM: Final = re.compile(rf"(?P<absent>!)?\s*(?P<key>{_NAME})(?:\s*(?P<sign>==|=|!=)\s*(?P<value>[A-Za-z0-9._-]*))?")


def _selector(text: str) -> LabelSelector | None:
    """A selector as kubectl takes it: ``app=licences,tier!=web,gpu,!spot``."""
    if not text.strip():
        return None
    lines = []
    for term in text.split(","):
        found = _TERM.fullmatch(term.strip())
        if found is None or (found["absent"] and found["sign"]):
            raise InvalidInput(
                f"argument extender.bypassSelector: {term.strip()!r} must look like key=value, key!=value, key or !key"
            )
        if found["sign"]:
            operator = "NotIn" if found["sign"] == "!=" else "In"
            lines.append(Requirement(key=found["key"], operator=operator, values=(found["value"],)))
        else:
            lines.append(Requirement(key=found["key"], operator="DoesNotExist" if found["absent"] else "Exists"))
    return LabelSelector(match_expressions=tuple(lines))
