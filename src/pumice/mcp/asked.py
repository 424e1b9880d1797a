"""What an agent may say: names and texts, each with its bounds; no path and no address."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

JobName: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=512, description="namespace/name, or the name where it is unique")
]
Namespace: TypeAlias = Annotated[str, Meta(max_length=253, description="the namespace, if the name has none")]
QueueName: TypeAlias = Annotated[str, Meta(max_length=253, description="the queue's name")]
JobText: TypeAlias = Annotated[
    str, Meta(max_length=262_144, description="YAML: a Volcano or batch Job, or a PodGroup with its pods")
]
ConfText: TypeAlias = Annotated[
    str, Meta(max_length=65_536, description="the scheduler conf as YAML; nothing: the one that decides here")
]
NewConfText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=65_536, description="the other conf, as YAML")]
ScenarioName: TypeAlias = Annotated[
    str, Meta(max_length=253, description="one of those that the server was started with; nothing: the first")
]


class NothingArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole cluster."""


class JobArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job."""

    job: JobName
    namespace: Namespace = ""


class StartArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job that waits, or one that is not there yet."""

    job: Annotated[str, Meta(max_length=512, description="namespace/name of a job that is there")] = ""
    namespace: Namespace = ""
    manifest: JobText = ""


class QueueArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A queue."""

    queue: Annotated[QueueName, Meta(min_length=1)]


class WaitingArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A queue, a namespace, or neither."""

    queue: QueueName = ""
    namespace: Namespace = ""
    limit: Annotated[int, Meta(ge=1, le=100, description="rows, at most")] = 20


class ManifestArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job that is not there yet."""

    manifest: Annotated[JobText, Meta(min_length=1)]


class ConfArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A configuration."""

    conf: ConfText = ""


class ConfsArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two configurations, and what they are played on."""

    b: NewConfText
    a: ConfText = ""
    scenario: ScenarioName = ""
    seeds: Annotated[int, Meta(ge=1, le=30, description="pairs of runs; fewer than 6 give no interval")] = 10


class GoalArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is wanted, and of which nodes there may be more or fewer."""

    goal: Annotated[
        str,
        Meta(min_length=1, max_length=100, description="such as 'wait.p95 < 10m', 'wait.mean < 5m on 9 of 10 days'"),
    ]
    group: Annotated[str, Meta(max_length=253, description="the nodes that are counted; nothing: the first group")] = ""
    load: Annotated[float, Meta(gt=0, le=100, description="jobs come so many times as often")] = 1.0
    conf: ConfText = ""
    scenario: ScenarioName = ""
    seeds: Annotated[int, Meta(ge=1, le=40, description="days of each size; fewer than 6 are never sure")] = 6
