"""The ``extender.*`` arguments of one extender: each stands once, at the field that it fills."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, Final, NamedTuple, TypeVar, get_type_hints
from urllib.parse import urlsplit

from pumice.engine.scope import Scope
from pumice.errors import InvalidInput
from pumice.extender.dialects import DIALECTS
from pumice.extender.protocol import ASKED, KUBE_PATHS, VERBS
from pumice.framework.arguments import Argument, Arguments
from pumice.model.api import LabelSelector, Requirement
from pumice.model.job import Job
from pumice.model.selectors import label_selector_matches
from pumice.model.task import Task, TaskClass

PREFIX: Final = "extender."
T = TypeVar("T")


# -- how an argument is read -------------------------------------------------------------------------------------------
class Reads(NamedTuple):
    """Says of a field from which argument it is read, how, and what it means."""

    name: str
    read: Callable[[Arguments, str, Any], Any]
    doc: str
    values: str = ""
    default: object = None
    """The default as it is written, if that is another value."""


def _url(arguments: Arguments, name: str, default: str) -> str:
    url = arguments.str(name, default).rstrip("/")
    parts = urlsplit(url)
    try:
        _ = parts.port
    except ValueError as exc:
        raise InvalidInput(f"argument {name}: the port must be a number from 0 to 65535, got {url!r}") from exc
    if url and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise InvalidInput(f"argument {name}: must be an http or https URL with a host, got {url!r}")
    return url


def _seconds(arguments: Arguments, name: str, default: float | None) -> float | None:
    """A duration in seconds; 0: no limit."""
    if arguments.get(name) is None:
        return default
    seconds = arguments.seconds(name, default or 0.0)
    if seconds < 0 and not arguments.typed:
        raise InvalidInput(f"argument {name}: must not be negative (0s: no limit), got {arguments[name]!r}")
    return seconds if seconds > 0 else None


def _names(arguments: Arguments, name: str, default: frozenset[str]) -> frozenset[str]:
    return frozenset(arguments.list(name, [*default]))


def _one_of(known: Mapping[str, T]) -> Callable[[Arguments, str, T], T]:
    """The meaning of a word."""

    def read(arguments: Arguments, name: str, default: T) -> T:
        if name not in arguments:
            return default
        given = arguments.str(name, "")
        if given not in known:
            raise InvalidInput(f"argument {name}: must be one of {', '.join(known)}, got {given!r}")
        return known[given]

    return read


def _at_least(least: int) -> Callable[[Arguments, str, int], int]:
    def read(arguments: Arguments, name: str, default: int) -> int:
        given = arguments.int(name, default)
        if given < least:
            raise InvalidInput(f"argument {name}: must be at least {least}, got {given}")
        return given

    return read


def _policies(arguments: Arguments, name: str, _: object) -> dict[str, bool]:
    """``{predicate: ignore}`` or ``predicate=ignore, jobReady=fail``."""
    given = arguments.get(name, {})
    if isinstance(given, str):
        pairs = [pair.partition("=")[::2] for pair in given.split(",") if pair.strip()]
        given = {verb.strip(): policy.strip() for verb, policy in pairs}
    if not isinstance(given, Mapping):
        raise InvalidInput(f"argument {name}: must be a table or a text such as predicate=ignore, got {given!r}")
    for verb, policy in given.items():
        if verb not in VERBS:
            raise InvalidInput(f"argument {name}: {verb!r} is not one of {', '.join(VERBS)}")
        if policy not in ("fail", "ignore"):
            raise InvalidInput(f"argument {name}: {verb} must be fail or ignore, got {policy!r}")
    return {verb: policy == "ignore" for verb, policy in given.items()}


_NAME: Final = r"[A-Za-z0-9./_-]+"
_TERM: Final = re.compile(rf"(?P<absent>!)?\s*(?P<key>{_NAME})(?:\s*(?P<sign>==|=|!=)\s*(?P<value>[A-Za-z0-9._-]*))?")


def _selector(arguments: Arguments, name: str, default: LabelSelector | None) -> LabelSelector | None:
    """A selector as kubectl takes it: ``app=licences,tier!=web,gpu,!spot``."""
    text = arguments.str(name, "")
    if not text.strip():
        return default
    lines = []
    for term in text.split(","):
        found = _TERM.fullmatch(term.strip())
        if found is None or (found["absent"] and found["sign"]):
            raise InvalidInput(f"argument {name}: {term.strip()!r} must look like key=value, key!=value, key or !key")
        if found["sign"]:
            operator = "NotIn" if found["sign"] == "!=" else "In"
            lines.append(Requirement(key=found["key"], operator=operator, values=(found["value"],)))
        else:
            lines.append(Requirement(key=found["key"], operator="DoesNotExist" if found["absent"] else "Exists"))
    return LabelSelector(match_expressions=tuple(lines))


def _words(known: Iterable[str]) -> str:
    return " or ".join(f"`{word}`" for word in known)


_SCOPES: Final = {scope.value: scope for scope in Scope}
_PAYLOADS: Final = {"full": False, "names": True}


# -- what is read -----------------------------------------------------------------------------------------------------
_LOOPBACK: Final = re.compile(r"localhost|127(?:\.\d+){3}|::1|.+\.localhost")


@dataclass(frozen=True, slots=True)
class Transport:
    """How to reach a service. Equal ones may share connections."""

    url: Annotated[
        str,
        Reads("urlPrefix", _url, "The service. Verbs are appended to it; without it the plugin does nothing.", "URL"),
    ] = ""
    timeout: Annotated[
        float | None, Reads("httpTimeout", _seconds, "For one whole exchange; `0s`: no limit.", "duration")
    ] = 1.0
    """Seconds for the whole exchange; ``None``: no limit."""
    concurrency: Annotated[
        int, Reads("concurrency", _at_least(1), "Calls that may be on their way at the same time.", "1 or more")
    ] = 64
    """Calls in flight."""
    breaker_failures: Annotated[
        int,
        Reads(
            "breakerFailures",
            _at_least(0),
            "Failures in a row after which nothing is asked for a while; 0: never.",
            "0 or more",
        ),
    ] = 5
    """Failures in a row that open the circuit; 0: never."""
    breaker_reset: Annotated[
        float | None, Reads("breakerReset", _seconds, "How long that is; then one call may try.", "duration")
    ] = 10.0
    """Seconds until an open circuit lets one call try; ``None``: at once."""
    ca_file: Annotated[
        str, Reads("caFile", Arguments.str, "TLS: the certificate authority of the service.", "path")
    ] = ""
    cert_file: Annotated[str, Reads("certFile", Arguments.str, "TLS: our client certificate.", "path")] = ""
    key_file: Annotated[str, Reads("keyFile", Arguments.str, "TLS: its key.", "path")] = ""
    token_file: Annotated[
        str, Reads("tokenFile", Arguments.str, "A bearer token; the file is read again when it changes.", "path")
    ] = ""
    compression: Annotated[bool, Reads("compression", Arguments.bool, "Send large questions with gzip.")] = False

    @property
    def exposed(self) -> bool:
        """Report whether plain HTTP leaves this machine."""
        parts = urlsplit(self.url)
        return parts.scheme == "http" and _LOOPBACK.fullmatch(parts.hostname or "") is None


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """One extender as the configuration describes it."""

    name: Annotated[str, Reads("name", Arguments.str, "Tells several extenders apart.")] = ""
    transport: Transport | None = None
    """``None``: no URL was given, the extender is off."""
    verbs: Mapping[str, str] = field(default_factory=dict)
    """Verb -> the path under which the service answers it; those with an empty path are left out."""
    ignorable: Annotated[
        bool, Reads("ignorable", Arguments.bool, "Errors are neutral for the decision instead of failing it.")
    ] = False
    policies: Annotated[
        Mapping[str, bool] | None,
        Reads(
            "failurePolicy",
            _policies,
            "Per verb, above `ignorable`.",
            "`{predicate: ignore, jobReady: fail}` or `predicate=ignore`",
        ),
    ] = None
    """Verb -> are its errors ignored? The answer if it differs from ``ignorable``."""
    managed: Annotated[
        frozenset[str],
        Reads(
            "managedResources",
            _names,
            "Ask only about tasks that name one of these; none: all tasks. A real Volcano takes a YAML list only.",
            "list of texts",
        ),
    ] = frozenset()
    dialect: Annotated[
        str,
        Reads(
            "dialect",
            _one_of({name: name for name in DIALECTS}),
            "What is sent, `volcano` under `compat: volcano`; answers are understood in every dialect.",
            _words(DIALECTS),
            "documented",
        ),
    ] = ""
    """Empty: the documented one, or under ``compat: volcano`` Volcano's."""
    scope: Annotated[
        Scope,
        Reads(
            "scope",
            _one_of(_SCOPES),
            "What answers about nodes depend on; those of the first two are kept.",
            _words(_SCOPES),
            "session",
        ),
    ] = Scope.SESSION
    names_only: Annotated[
        bool,
        Reads(
            "payload",
            _one_of(_PAYLOADS),
            "`names`: after the snapshot of onSessionOpen, calls carry names only.",
            _words(_PAYLOADS),
            "full",
        ),
    ] = False
    weight: Annotated[float, Reads("weight", Arguments.float, "Scores of prioritize are multiplied by it.")] = 1.0
    session_budget: Annotated[
        float | None,
        Reads(
            "sessionBudget",
            _seconds,
            "For all calls of one cycle; then calls fail at once. None: no limit.",
            "duration",
        ),
    ] = None
    """Seconds for all calls of one cycle; ``None``: no limit."""
    bypass: Annotated[
        LabelSelector | None,
        Reads(
            "bypassSelector",
            _selector,
            "Never ask about pods with these labels, such as the extender's own.",
            "`app=licences,!spot`",
        ),
    ] = None
    """Tasks that the extender is never asked about."""

    def ignores(self, verb: str) -> bool:
        """Report whether errors of *verb* are neutral."""
        return (self.policies or {}).get(verb, self.ignorable)


class TaskFilter:
    """Managed resources and the bypass selector of one extender: which tasks it is asked about."""

    def __init__(self, settings: ExtenderSettings) -> None:
        self._managed, self._bypass = settings.managed, settings.bypass

    def manages(self, task: Task) -> bool:
        """Report whether a container (or init container) names a managed resource in requests or limits.

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
        """Report whether the extender is asked about the task."""
        if self._bypass is not None and label_selector_matches(self._bypass, task.labels):
            return False
        return self.manages(task)

    def bypasses(self, job: Job) -> bool:
        """Report whether the bypass selector matches every task of the job."""
        if self._bypass is None or not job.tasks:
            return False
        return all(label_selector_matches(self._bypass, task.labels) for task in job.tasks.values())

    def holds(self, job: Job) -> bool:
        """Report whether the extender manages any task of the job."""
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


def _named(kind: type[Any]) -> list[tuple[str, Reads, Any]]:
    """The fields of a kind of settings that an argument fills, and what they are without it."""
    hints = get_type_hints(kind, include_extras=True)
    found = [(one, reads) for one in fields(kind) for reads in getattr(hints[one.name], "__metadata__", ())]
    return [(one.name, reads, one.default) for one, reads in found]


_NAMED: Final[dict[type[Any], list[tuple[str, Reads, Any]]]] = {
    kind: _named(kind) for kind in (Transport, ExtenderSettings)
}


def _read(kind: type[T], arguments: Arguments, **known: Any) -> T:
    """The settings of a kind, from the arguments that its fields name."""
    return kind(
        **known, **{name: reads.read(arguments, PREFIX + reads.name, default) for name, reads, default in _NAMED[kind]}
    )


def read_settings(arguments: Arguments) -> ExtenderSettings:
    """The settings in a plugin's arguments.

    :raises InvalidInput: an argument breaks a rule; names it, its value and the rule.
    """
    transport = _read(Transport, arguments)
    if bool(transport.cert_file) != bool(transport.key_file):
        raise InvalidInput("arguments extender.certFile and extender.keyFile: must be given together")
    verbs = {verb: path for verb in ASKED if (path := arguments.str(f"{PREFIX}{verb}Verb", "").strip("/"))}
    settings = _read(ExtenderSettings, arguments, transport=transport if transport.url else None, verbs=verbs)
    return replace(settings, verbs=_kube_verbs(verbs)) if settings.dialect == "kube" else settings


def _declared(reads: Reads, default: object) -> Argument[Any]:
    known = default if reads.default is None else reads.default
    return Argument[Any](known, reads.doc, name=PREFIX + reads.name, values=reads.values, read=reads.read)


SETTINGS: Final = tuple(_declared(reads, default) for named in _NAMED.values() for _, reads, default in named)
PATHS: Final = tuple(
    Argument("", VERBS[verb].question, name=f"{PREFIX}{verb}Verb", values="path under which the service answers")
    for verb in ASKED
)
