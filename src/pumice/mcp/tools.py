"""The questions of an agent: a table. A question takes names and texts, no path and no address; none changes
anything."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pumice.answers import questions
from pumice.answers.supposition import WhatIf
from pumice.config import from_data, load
from pumice.config.catalogue import Catalogue
from pumice.config.explain import HookChain, explain, without_secrets
from pumice.config.lint import lint
from pumice.config.schema import SchedulerConf
from pumice.errors import InvalidInput, PumiceError, decoder_words
from pumice.framework.registry import Registry
from pumice.history.stories import Told
from pumice.mcp.arguments import (
    ConfArguments,
    ConfsArguments,
    GoalArguments,
    JobArguments,
    ManifestArguments,
    NothingArguments,
    QueueArguments,
    StartArguments,
    WaitingArguments,
    clean,
    marked,
)
from pumice.mcp.knowledge import Knowledge, evicted
from pumice.mcp.studies import Studies
from pumice.model.api import AnyObject
from pumice.scheduler.assembly import catalogue_of
from pumice.sim.job_manifests import objects_in
from pumice.sim.scenario import SimScenario

SECONDS: Final = 20.0
"""For which an answer is waited for."""
AT_ONCE: Final = 4
"""Questions that are open at the same time."""
RETRY: Final = 2.0
"""Seconds after which one who was turned away may ask again."""
OWN_ARGUMENTS: Final = "who registers where is told for the default arguments of every plugin"


@dataclass(frozen=True, slots=True)
class Tool:
    """A question."""

    name: str
    title: str
    about: str
    """A description for the caller who chooses among the tools."""
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
    """The output: plain data, and whether it is an answer."""

    data: dict[str, Any]
    failed: bool = False


class Tools:
    """Answers what is asked, bounded in number, time and size."""

    def __init__(
        self,
        knowledge: Knowledge,
        registry: Registry,
        told: Told | None = None,
        scenarios: Mapping[str, SimScenario] | None = None,
    ) -> None:
        self.knowledge, self.registry, self.told = knowledge, registry, told
        self.studies = Studies(scenarios or {}, self.conf_of)
        self._open = 0

    async def call(self, name: str, arguments: Any) -> Answered:
        """The answer to a question, whatever it is; never an exception."""
        tool = TOOLS.get(name)
        if tool is None:
            return _refused(f"no tool named {name!r}; there are {', '.join(TOOLS)}")
        if self._open >= AT_ONCE:
            return _refused(f"{AT_ONCE} questions are open; ask again when one is answered", retry=True)
        self._open += 1
        try:
            asked = msgspec.convert({} if arguments is None else arguments, tool.arguments)
            async with asyncio.timeout(SECONDS):
                return Answered(data=marked(await tool.ask(self, asked)))
        except msgspec.ValidationError as exc:
            return _refused(f"arguments of {name}: {decoder_words(exc)}")
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
        conf = self.conf_of(text, self.registry, "conf")
        return conf, catalogue_of(self.registry, hooks=True, conf=None if text.strip() else conf)

    def conf_of(self, text: str, registry: Registry, called: str) -> SchedulerConf:
        """The conf that a text is, or the one that decides here.

        :raises InvalidConf: it is none; says why.
        :raises NotKnown: nothing is given, and the one that decides here is not told.
        """
        known = catalogue_of(registry)
        return load(text, known, called).conf if text.strip() else from_data(self.knowledge.conf(), known).conf


def _refused(text: str, *, retry: bool = False) -> Answered:
    again = {"retry_after": RETRY} if retry else {}
    return Answered(data={"error": clean(text), **again}, failed=True)


# -- questions ------------------------------------------------------------------------------------------------------
async def _why(tools: Tools, asked: JobArguments) -> Any:
    namespace = tools.knowledge.namespace(asked.job, asked.namespace)
    return await tools.knowledge.ask(questions.WHY, questions.AboutWhy(namespace, asked.job, "no"))


async def _waiting(tools: Tools, asked: WaitingArguments) -> Any:
    parameters = questions.AboutWaiting(asked.namespace, asked.queue, asked.limit)
    return await tools.knowledge.ask(questions.WAITING, parameters)


async def _standing(tools: Tools, asked: QueueArguments) -> Any:
    return (await tools.knowledge.ask(questions.QUEUES, questions.AboutQueues([asked.queue]))).queues[0]


async def _evicted(tools: Tools, asked: JobArguments) -> Any:
    return evicted(tools.told, asked.job, asked.namespace)


async def _fairness(tools: Tools, asked: NothingArguments) -> Any:
    return await tools.knowledge.ask(questions.FAIRNESS)


async def _objects(manifest: str) -> Sequence[AnyObject]:
    objects = await asyncio.to_thread(objects_in, manifest)
    if not objects:
        raise InvalidInput("manifest: there is no PodGroup, pod or Job in it")
    return objects


async def _fit(tools: Tools, asked: ManifestArguments) -> Any:
    return await tools.knowledge.ask(questions.TRY, questions.AboutTrial("no"), await _objects(asked.manifest))


async def _when(tools: Tools, asked: StartArguments) -> Any:
    if bool(asked.job) == bool(asked.manifest):
        raise InvalidInput("give one of the two: job for a submitted job, or manifest for another one")
    if asked.job:
        namespace = tools.knowledge.namespace(asked.job, asked.namespace)
        return await tools.knowledge.ask(questions.WHEN, questions.AboutJob(namespace, asked.job))
    tried = await tools.knowledge.ask(questions.TRY, questions.AboutTrial(), await _objects(asked.manifest))
    return {
        "jobs": [{"job": one.job, "starts_now": one.starts, "when": one.when} for one in tried.jobs],
        "unseen": tried.unseen,
    }


async def _what_if(tools: Tools, asked: WhatIf) -> Any:
    asked.check()
    return await tools.knowledge.ask(questions.WHAT_IF, body=asked)


async def _explain(tools: Tools, asked: ConfArguments) -> Any:
    conf, catalogue = await asyncio.to_thread(tools.read_conf, asked.conf)
    chains = explain(conf, catalogue.hooks)
    return {
        "conf": without_secrets(conf.to_data()),
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


async def _lint(tools: Tools, asked: ConfArguments) -> Any:
    conf, catalogue = await asyncio.to_thread(tools.read_conf, asked.conf)
    findings = [str(finding) for finding in lint(conf, catalogue)]
    return {
        "traps": len(findings),
        "findings": findings,
        "assumes": [OWN_ARGUMENTS] if asked.conf.strip() else [],
    }


async def _compare(tools: Tools, asked: ConfsArguments) -> Any:
    return await asyncio.to_thread(tools.studies.compare, asked)


async def _plan(tools: Tools, asked: GoalArguments) -> Any:
    return await asyncio.to_thread(tools.studies.plan, asked)


TOOLS: Final = {
    tool.name: tool
    for tool in (
        Tool(
            "why_pending",
            "Why a job waits",
            "Why a job does not start: the stage and reason code that stopped it, the limits in its way with numbers, "
            "its place in the queue, how the queue stands, and what would let it start.",
            JobArguments,
            _why,
        ),
        Tool(
            "who_waits",
            "Who waits",
            "The waiting jobs, the longest first, each with its place, reason code and reason; and how many wait for "
            "which reason. In one queue, in one namespace, or everywhere.",
            WaitingArguments,
            _waiting,
        ),
        Tool(
            "queue_standing",
            "How a queue stands",
            "What a queue holds, deserves, may have at most and asks for, by resource, and how many jobs wait in it. "
            "It borrows what it holds beyond what it deserves.",
            QueueArguments,
            _standing,
        ),
        Tool(
            "audit_fairness",
            "Is the cluster shared fairly",
            "Which queues hold less than they deserve and ask for more, who borrows meanwhile, why their jobs wait, "
            "which parts nobody uses, and whether the conf takes back what is borrowed.",
            NothingArguments,
            _fairness,
        ),
        Tool(
            "why_evicted",
            "Why a job was evicted",
            "Which pods of a job were evicted, when, by which action, and for the good of which job. Needs a history.",
            JobArguments,
            _evicted,
        ),
        Tool(
            "would_fit",
            "Would a job start",
            "What would become of a job that is not there yet: would it start now, on which nodes, who would be "
            "evicted for it, what it does to its queue, and why not if not. Nothing is submitted.",
            ManifestArguments,
            _fit,
        ),
        Tool(
            "when_starts",
            "When a job will likely start",
            "When a waiting job, or one that is not there yet, will likely start: a range in seconds from now (before "
            "low, likely, high it starts in 1, 5, 9 of 10 cases), what it rests on and what it assumes.",
            StartArguments,
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
            "compare_confs",
            "Two confs compared",
            "What conf b changes against conf a over hours of simulated work, seed by seed in pairs: waits, use, "
            "evictions and fairness, each with its 95 % interval and a verdict. Takes seconds; where there is a "
            "retry_after, ask the same again to have more pairs.",
            ConfsArguments,
            _compare,
        ),
        Tool(
            "plan",
            "How many nodes a goal needs",
            "The smallest number of nodes of a group with which a goal such as 'wait.p95 < 10m' is met, found by "
            "simulation. Takes seconds; where there is a retry_after, ask the same again and it goes on.",
            GoalArguments,
            _plan,
        ),
        Tool(
            "conf_explain",
            "What a conf does",
            "For every extension point the chain of plugins that a scheduler conf makes run, and who asks it.",
            ConfArguments,
            _explain,
        ),
        Tool(
            "conf_lint",
            "Traps of a conf",
            "The known traps that a scheduler conf steps into, each with its severity and what to do.",
            ConfArguments,
            _lint,
        ),
    )
}
"""All of them, by name."""
