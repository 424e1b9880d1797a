"""What an agent can ask: a table. A question takes names and texts, no path and no address; none changes anything."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta

from pumice.answers.what_if.supposition import WhatIf
from pumice.config import from_data, load
from pumice.config.catalogue import Catalogue
from pumice.config.explain import HookChain, explain
from pumice.config.lint import lint
from pumice.config.schema import SchedulerConf
from pumice.errors import InvalidInput, PumiceError
from pumice.framework.registry import Registry
from pumice.history.stories import Told
from pumice.mcp.bounds import clean, marked
from pumice.mcp.knowledge import Knowledge, evicted
from pumice.scheduler.assembly import catalogue_of
from pumice.sim.job_text import objects_in

SECONDS: Final = 20.0
"""For which an answer is waited for."""
AT_ONCE: Final = 4
"""Questions that are open at the same time."""
RETRY: Final = 2.0
"""Seconds after which one who was turned away may ask again."""
OWN_ARGUMENTS: Final = "who registers where is told for the default arguments of every plugin"

JobName: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=512, description="namespace/name, or the name where it is unique")
]
Namespace: TypeAlias = Annotated[str, Meta(max_length=253, description="the namespace, if the name has none")]
QueueName: TypeAlias = Annotated[str, Meta(max_length=253, description="the queue's name")]
JobText: TypeAlias = Annotated[
    str,
    Meta(min_length=1, max_length=262_144, description="YAML: a Volcano or batch Job, or a PodGroup with its pods"),
]
ConfText: TypeAlias = Annotated[
    str, Meta(max_length=65_536, description="the scheduler conf as YAML; nothing: the one that decides here")
]


class AboutJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job."""

    job: JobName
    namespace: Namespace = ""


class AboutQueue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A queue."""

    queue: Annotated[QueueName, Meta(min_length=1)]


class AboutWaiting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A queue, a namespace, or neither."""

    queue: QueueName = ""
    namespace: Namespace = ""
    limit: Annotated[int, Meta(ge=1, le=100, description="rows, at most")] = 20


class AboutManifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job that is not there yet."""

    manifest: JobText


class AboutConf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A configuration."""

    conf: ConfText = ""


@dataclass(frozen=True, slots=True)
class Tool:
    """A question."""

    name: str
    title: str
    about: str
    """What it answers, for whoever chooses among the tools."""
    arguments: type[msgspec.Struct]
    ask: Callable[[Tools, Any], Awaitable[Any]]

    @property
    def schema(self) -> dict[str, Any]:
        """Its arguments as JSON Schema."""
        made = msgspec.json.schema(self.arguments)
        others = {name: part for name, part in made["$defs"].items() if name != self.arguments.__name__}
        return {
            **made["$defs"][self.arguments.__name__],
            "title": self.name,
            **({"$defs": others} if others else {}),
        }


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """What leaves: plain data, and whether it is an answer."""

    data: dict[str, Any]
    failed: bool = False


class Tools:
    """Answers what is asked, bounded in number, time and size."""

    def __init__(self, knowledge: Knowledge, registry: Registry, told: Told | None = None) -> None:
        self.knowledge, self.registry, self.told = knowledge, registry, told
        self._open = 0

    async def call(self, name: str, arguments: Any) -> Answered:
        """The answer to a question, whatever it is; never an exception."""
        tool = TOOLS.get(name)
        if tool is None:
            return _refused(f"tool {name!r}: there is none of that name; there are {', '.join(TOOLS)}")
        if self._open >= AT_ONCE:
            return _refused(f"{AT_ONCE} questions are open; ask again when one is answered", retry=True)
        self._open += 1
        try:
            asked = msgspec.convert({} if arguments is None else arguments, tool.arguments)
            async with asyncio.timeout(SECONDS):
                return Answered(data=marked(await tool.ask(self, asked)))
        except msgspec.ValidationError as exc:
            return _refused(f"arguments of {name}: {exc}")
        except TimeoutError:
            return _refused(f"no answer within {SECONDS:g} s", retry=True)
        except PumiceError as exc:
            return _refused(str(exc), retry=exc.retryable)
        except RecursionError:
            return _refused("what was given is nested too deeply")
        except Exception as exc:
            return _refused(f"{type(exc).__name__}: {exc}")
        finally:
            self._open -= 1

    def read_conf(self, text: str) -> tuple[SchedulerConf, Catalogue]:
        """The conf that a text is, or the one that decides here; and who registers where.

        Plugins are opened to learn that, with the arguments of our own conf; arguments that an agent gives reach none.
        :raises InvalidConf: it is none; says why.
        """
        known = catalogue_of(self.registry)
        if text.strip():
            return load(text, known, "conf").conf, catalogue_of(self.registry, hooks=True)
        own = from_data(self.knowledge.conf(), known).conf
        return own, catalogue_of(self.registry, hooks=True, conf=own)


def _refused(text: str, *, retry: bool = False) -> Answered:
    again = {"retry_after": RETRY} if retry else {}
    return Answered(data={"error": clean(text), **again}, failed=True)


# -- questions ------------------------------------------------------------------------------------------------------
async def _why(tools: Tools, asked: AboutJob) -> Any:
    return await tools.knowledge.why(asked.job, asked.namespace)


async def _waiting(tools: Tools, asked: AboutWaiting) -> Any:
    return await tools.knowledge.waiting(asked.queue, asked.namespace, asked.limit)


async def _standing(tools: Tools, asked: AboutQueue) -> Any:
    return await tools.knowledge.standing(asked.queue)


async def _evicted(tools: Tools, asked: AboutJob) -> Any:
    return evicted(tools.told, asked.job, asked.namespace)


async def _fit(tools: Tools, asked: AboutManifest) -> Any:
    objects = await asyncio.to_thread(objects_in, asked.manifest)
    if not objects:
        raise InvalidInput("there is no PodGroup, pod or Job among the manifests")
    return await tools.knowledge.attempt(objects)


async def _when(tools: Tools, asked: AboutJob) -> Any:
    return await tools.knowledge.when(asked.job, asked.namespace)


async def _what_if(tools: Tools, asked: WhatIf) -> Any:
    asked.check()
    return await tools.knowledge.what_if(asked)


async def _explain(tools: Tools, asked: AboutConf) -> Any:
    conf, catalogue = await asyncio.to_thread(tools.read_conf, asked.conf)
    chains = explain(conf, catalogue.hooks)
    return {
        "conf": conf.to_data(),
        "chains": [_in_words(chain) for chain in chains if chain.asked and chain.tiers],
        "asked_by_no_action": [chain.hook for chain in chains if not chain.asked and chain.tiers],
        "assumes": [OWN_ARGUMENTS] if asked.conf.strip() else [],
    }


def _in_words(chain: HookChain) -> dict[str, str]:
    tiers = (
        f"tier {tier.number}: "
        + ", ".join(f"{link.plugin} ({link.off})" if link.off else link.plugin for link in tier.links)
        for tier in chain.tiers
    )
    return {"point": chain.hook, "rule": chain.fold, "plugins": "; ".join(tiers)}


async def _lint(tools: Tools, asked: AboutConf) -> Any:
    conf, catalogue = await asyncio.to_thread(tools.read_conf, asked.conf)
    findings = [str(finding) for finding in lint(conf, catalogue)]
    return {
        "traps": len(findings),
        "findings": findings,
        "assumes": [OWN_ARGUMENTS] if asked.conf.strip() else [],
    }


TOOLS: Final = {
    tool.name: tool
    for tool in (
        Tool(
            "why_pending",
            "Why a job waits",
            "Why a job does not start: the stage and reason code that stopped it, the limits in its way with numbers, "
            "its place in the queue, how the queue stands, and what would let it start.",
            AboutJob,
            _why,
        ),
        Tool(
            "who_waits",
            "Who waits",
            "The waiting jobs, the longest first, each with its place, reason code and reason; and how many wait for "
            "which reason. In one queue, in one namespace, or everywhere.",
            AboutWaiting,
            _waiting,
        ),
        Tool(
            "queue_standing",
            "How a queue stands",
            "What a queue holds, deserves, may have at most and asks for, by resource, and how many jobs wait in it. "
            "It borrows what it holds beyond what it deserves.",
            AboutQueue,
            _standing,
        ),
        Tool(
            "why_evicted",
            "Why a job was evicted",
            "Which pods of a job were evicted, when, by which action, and for the good of which job. Needs a history.",
            AboutJob,
            _evicted,
        ),
        Tool(
            "would_fit",
            "Would a job start",
            "What would become of a job that is not there yet: would it start now, on which nodes, who would be "
            "evicted for it, what it does to its queue, and why not if not. Nothing is submitted.",
            AboutManifest,
            _fit,
        ),
        Tool(
            "when_starts",
            "When a job will likely start",
            "When a waiting job will likely start: a range in seconds from now, what it rests on and what it assumes.",
            AboutJob,
            _when,
        ),
        Tool(
            "what_if",
            "What would change",
            "What the next cycle would decide otherwise, and who would start sooner or later, if queues had other "
            "weights, parts or limits, if nodes came or were drained, or under another conf. Nothing is changed.",
            WhatIf,
            _what_if,
        ),
        Tool(
            "conf_explain",
            "What a conf does",
            "For every extension point the chain of plugins that a scheduler conf makes run, and who asks it.",
            AboutConf,
            _explain,
        ),
        Tool(
            "conf_lint",
            "Traps of a conf",
            "The known traps that a scheduler conf steps into, each with its severity and what to do.",
            AboutConf,
            _lint,
        ),
    )
}
"""All of them, by name."""
