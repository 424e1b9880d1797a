"""Settings of ``pumice run`` and ``pumice controllers``: one YAML file with a version, and a JSON Schema of it.

A value that breaks a rule is refused with its line and column. Durations are text as in Go (``15s``), with days
(``90d``). A flag wins over the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from pumice.config.durations import SECOND, parse_duration
from pumice.config.problems import Problem, nearest
from pumice.config.schema import Position
from pumice.config.tree import ConfTable, Sequence, Tree, TreeError, parse_yaml, plain
from pumice.errors import ConfigError, InvalidInput, decoder_words

VERSION: Final = "pumice.dev/v1"
CONTROLLERS: Final = ("job", "podgroup", "queue")


Duration = Annotated[
    str, Meta(extra_json_schema={"pattern": r"^([0-9.]+(ns|us|µs|ms|s|m|h|d|w))+$|^0$"}, examples=["15s", "90d"])
]
Address = Annotated[str, Meta(extra_json_schema={"pattern": ":[0-9]+$"}, examples=["127.0.0.1:8080", ":8080"])]
"""``HOST:PORT``, or ``:PORT`` for every address of the machine."""


def seconds(duration: str) -> float:
    """Return the seconds of a duration.

    :raises InvalidInput: it is none, or below zero.
    """
    found = parse_duration(duration, days=True) / SECOND
    if found < 0:
        raise InvalidInput(f"duration {duration!r}: must not be below zero")
    return found


def _positive(duration: str) -> None:
    if not seconds(duration):
        raise InvalidInput(f"duration {duration!r}: must be above zero")


def _address(text: str) -> None:
    port = text.rpartition(":")[2]
    if ":" not in text or not port.isdigit() or int(port) > 65535:
        raise InvalidInput(f"address {text!r}: must be HOST:PORT or :PORT")


def _url(text: str) -> None:
    if not text.startswith(("http://", "https://")):
        raise InvalidInput(f"URL {text!r}: must begin with https:// or http://")


def _labels(texts: tuple[str, ...]) -> None:
    for text in texts:
        if not text.partition(":")[0] or ":" not in text:
            raise InvalidInput(f"{text!r}: must be KEY:VALUE")


def _conf_map(text: str) -> None:
    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(parts):
        raise InvalidInput(f"ConfigMap {text!r}: must be NAMESPACE/NAME or NAMESPACE/NAME/KEY")


def _controllers(names: tuple[str, ...]) -> None:
    for name in names:
        if name not in CONTROLLERS:
            raise InvalidInput(f"{name!r}: must be one of {', '.join(CONTROLLERS)}")


FORMS: Final[dict[str, Callable[[Any], object]]] = {
    "lease_duration": _positive,
    "renew_deadline": _positive,
    "retry_period": _positive,
    "schedule_period": _positive,
    "half_gang_timeout": seconds,
    "keep": _positive,
    "address": _address,
    "master": _url,
    "node_selector": _labels,
    "conf_map": _conf_map,
    "controllers": _controllers,
}
"""Setting -> what checks the form of its value."""


class _Group(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """Settings that belong together."""

    def __post_init__(self) -> None:
        for name, key in zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True):
            value = getattr(self, name)
            if value is not None and (check := FORMS.get(name)):
                try:
                    check(value)
                except InvalidInput as exc:
                    raise ValueError(f"{key}: {exc}") from exc


class ClusterSettings(_Group, frozen=True):
    """The API server."""

    kubeconfig: str | None = None
    """Else the pod's account, else ~/.kube/config."""
    context: str | None = None
    """Else the current context of the kubeconfig."""
    master: str | None = None
    """The URL of the API server, if it is not the kubeconfig's."""


class LeaderElection(_Group, frozen=True):
    """The Lease by which one of several replicas works."""

    leader_elect: bool = True
    resource_name: str | None = None
    """Else the scheduler's name, or pumice-controllers."""
    resource_namespace: str | None = None
    """Else the pod's own, else pumice-system."""
    lease_duration: Duration = "15s"
    renew_deadline: Duration = "10s"
    retry_period: Duration = "2s"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not seconds(self.lease_duration) > seconds(self.renew_deadline) > seconds(self.retry_period):
            raise ValueError(
                f"leaseDuration: {self.lease_duration} must be longer than renewDeadline {self.renew_deadline}, "
                f"and that longer than retryPeriod {self.retry_period}"
            )


class _Served(_Group, frozen=True):
    tls_cert_file: str | None = None
    tls_private_key_file: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.tls_cert_file) != bool(self.tls_private_key_file):
            raise ValueError("tlsCertFile and tlsPrivateKeyFile: both must be given, or none")


class MetricsSettings(_Served, frozen=True):
    """``/metrics``; over TLS only for tokens whose owner may get the path /metrics."""

    enabled: bool = False
    address: Address = ":8080"


class SchedulerMetrics(MetricsSettings, frozen=True):
    """``/metrics``, and ``/debug/cycle`` at the same address."""

    debug: bool = False
    """Serve /debug/cycle, which shows the pods of the cluster."""


class ControllersMetrics(MetricsSettings, frozen=True):
    """``/metrics`` of the controllers."""

    address: Address = ":8081"


class HealthSettings(_Group, frozen=True):
    """``/healthz``, ``/livez`` and ``/readyz``."""

    enabled: bool = False
    address: Address = ":11251"


class ControllersHealth(HealthSettings, frozen=True):
    """``/healthz``, ``/livez`` and ``/readyz`` of the controllers."""

    address: Address = ":11252"


class AnswersSettings(_Served, frozen=True):
    """Answers for `pumice why` and `pumice what-if`, for tokens of the API server."""

    address: Address | None = None
    """Without one, no questions are answered."""
    dashboard: bool = False
    """Serve pages too, below /dashboard."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dashboard and self.address is None:
            raise ValueError("dashboard: needs answers.address, where it is served")


class HistorySettings(_Group, frozen=True):
    """The history of all jobs, for `pumice trace`."""

    directory: str | None = None
    keep: Duration | None = None
    """Remove older files; without, all are kept."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep is not None and self.directory is None:
            raise ValueError("keep: needs history.directory, where the history is written")


class _Settings(_Group, frozen=True):
    scheduler_names: Annotated[tuple[str, ...], Meta(min_length=1)] = ("pumice",)
    """Pods with one of these as schedulerName are ours."""
    cluster: ClusterSettings = ClusterSettings()
    leader_election: LeaderElection = LeaderElection()
    verbosity: int = 1
    """0 logs warnings, 1 to 3 information, 4 everything."""
    api_version: Literal["pumice.dev/v1"] = "pumice.dev/v1"


class SchedulerSettings(_Settings, frozen=True):
    """The settings of `pumice run`."""

    kind: Literal["Scheduler"] = "Scheduler"
    conf: str | None = None
    """The file of the scheduler conf; followed if it changes."""
    conf_map: str | None = None
    """NAMESPACE/NAME or NAMESPACE/NAME/KEY of a ConfigMap with the conf, in the place of conf; followed too."""
    plugins_dir: str | None = None
    """Load every plugin of this directory; followed too."""
    compat: Literal["volcano", "kai"] | None = None
    """Decide as another scheduler would."""
    schedule_period: Duration = "1s"
    """A cycle runs at least this often."""
    default_queue: str = "default"
    """The queue of PodGroups that name none."""
    node_selector: tuple[str, ...] = ()
    """KEY:VALUE; only nodes with one of these labels. Without any, all nodes."""
    priority_class: bool = True
    """Read PriorityClasses."""
    half_gang_timeout: Duration = "60s"
    """A gang that could be bound only in part gives its room back after this time; 0: never."""
    binds_in_flight: Annotated[int, Meta(ge=1, le=1000)] = 64
    """Binds that are sent at once, at most."""
    metrics: SchedulerMetrics = SchedulerMetrics()
    health: HealthSettings = HealthSettings()
    answers: AnswersSettings = AnswersSettings()
    history: HistorySettings = HistorySettings()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.conf is not None and self.conf_map is not None:
            raise ValueError("conf and confMap: only one of them may be given")


class ControllersSettings(_Settings, frozen=True):
    """The settings of `pumice controllers`."""

    kind: Literal["Controllers"] = "Controllers"
    controllers: tuple[Annotated[str, Meta(extra_json_schema={"enum": list(CONTROLLERS)})], ...] = CONTROLLERS
    """Which of them run."""
    metrics: ControllersMetrics = ControllersMetrics()
    health: ControllersHealth = ControllersHealth()


AnySettings = TypeVar("AnySettings", SchedulerSettings, ControllersSettings)
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `([^`]*)`")
_AT: Final = re.compile(r" - at `\$(.*)`$")


def from_plain(data: Mapping[str, Any], kind: type[AnySettings]) -> AnySettings:
    """Return settings from plain data.

    :raises msgspec.ValidationError: a value that breaks a rule; the message ends with its path.
    """
    return msgspec.convert(data, kind)


def read(text: str, source: str, kind: type[AnySettings]) -> dict[str, Any]:
    """Return what the file says, checked, as plain data.

    :raises ConfigError: it breaks a rule; names line and column.
    """
    try:
        tree, errors, second = parse_yaml(text)
    except TreeError as exc:
        raise ConfigError(str(exc.as_problem(source))) from exc
    if errors:
        raise ConfigError(str(errors[0].as_problem(source)))
    if second is not None:
        raise ConfigError(str(Problem("documents", "only one document may be given", "", second, source)))
    data = plain(tree) or {}
    head = {"apiVersion": VERSION, "kind": kind().kind}
    for name, value in head.items():
        if isinstance(data, dict) and data.get(name) != value:
            written = "is missing" if name not in data else f"is {data[name]!r}"
            place = _place(tree, name)
            raise ConfigError(str(Problem("version", f"{written}; must be {value}", name, place, source)))
    try:
        from_plain(data, kind)  # type: ignore[arg-type]  # msgspec refuses what is no mapping
    except msgspec.ValidationError as exc:
        path, words, near = refusal(exc, kind)
        raise ConfigError(str(Problem("setting", words, path, _place(tree, path), source, nearest=near))) from exc
    assert isinstance(data, dict)
    return data


def with_values(data: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data with other values at dotted paths."""
    found = dict(data)
    for path, value in values.items():
        group, _, rest = path.partition(".")
        found[group] = with_values(found.get(group) or {}, {rest: value}) if rest else value
    return found


def json_schema(kind: type[_Settings]) -> dict[str, Any]:
    """Return the JSON Schema of the file, for editors."""
    return msgspec.json.schema(kind)


def refusal(exc: msgspec.ValidationError, kind: type[_Settings]) -> tuple[str, str, str | None]:
    """Return the path of the setting that was refused, why, and the name that was perhaps meant."""
    text = str(exc)
    at = _AT.search(text)
    path, text = (at[1].lstrip("."), text[: at.start()]) if at is not None else ("", text)
    names = _fields(kind, path)
    named = re.match(r"(\w+): ", text)
    if unknown := _UNKNOWN.match(text):
        return f"{path}.{unknown[1]}".lstrip("."), "there is no such setting", nearest(unknown[1], names)
    if named and named[1] in names:
        return f"{path}.{named[1]}".lstrip("."), text[named.end() :], None
    return path, decoder_words(msgspec.ValidationError(text)), None


def _fields(kind: Any, path: str) -> tuple[str, ...]:
    """Return the names of the settings at a path; nothing if it leads to no group."""
    for name, index in _STEP.findall(f".{path}" if path else ""):
        fields = {} if index else {f.encode_name: f.type for f in msgspec.structs.fields(kind)}
        kind = fields.get(name)
        if not hasattr(kind, "__struct_encode_fields__"):
            return ()
    return tuple(kind.__struct_encode_fields__)


def _place(tree: Tree, path: str) -> Position | None:
    """Return where a value stands, or the nearest thing around it."""
    place = tree.position
    for name, index in _STEP.findall(f".{path}"):
        if isinstance(tree, ConfTable) and name in tree.entries:
            place, tree = tree.entries[name].key_position or place, tree.entries[name].value
        elif isinstance(tree, Sequence) and index and int(index) < len(tree.items):
            tree = tree.items[int(index)]
            place = tree.position or place
        else:
            break
    return place
