"""A scenario with something about it changed: more or fewer nodes of a group, more load, nodes that fail."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from pumice.config.problems import nearest
from pumice.errors import InvalidInput, PumiceError
from pumice.model import keys
from pumice.model.api import NodeObject
from pumice.model.resources import Resources, dim
from pumice.model.task import GPU_RESOURCES
from pumice.sim.draws import stream
from pumice.sim.faults import PlannedFault
from pumice.sim.scenario import SimScenario
from pumice.sim.study.running import Played, StudyRun, play, unpacked


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """So many nodes of a group fail at an instant; which ones is drawn from the seed."""

    count: int
    group: str
    at_s: float
    for_s: float = math.inf

    def nodes(self, scenario: SimScenario, seed: int) -> tuple[str, ...]:
        """Return who fails.

        :raises InvalidInput: the group has fewer nodes.
        """
        names = [node.metadata.name for node in nodes_of(scenario, self.group)]
        if self.count > len(names):
            raise InvalidInput(f"group {self.group!r} has {len(names)} nodes, so {self.count} cannot fail")
        return tuple(sorted(stream(seed, "fail", self.group).sample(names, self.count)))


@dataclass(frozen=True, slots=True)
class Variant:
    """The changes; without any, the scenario as it is."""

    group: str = ""
    count: int = 0
    load: float = 1.0
    failure: NodeFailure | None = None

    def of(self, scenario: SimScenario, seed: int) -> SimScenario:
        """Return the scenario with the changes made.

        :raises InvalidInput: it has no such nodes.
        """
        if self.group:
            scenario = with_nodes(scenario, self.group, self.count)
        if self.load != 1:
            scenario = scenario.with_load(self.load)
        if self.failure is None:
            return scenario
        faults = scenario.setting.faults
        failing = PlannedFault(self.failure.at_s, "fail", self.failure.nodes(scenario, seed), self.failure.for_s)
        return replace(
            scenario, setting=replace(scenario.setting, faults=replace(faults, planned=(*faults.planned, failing)))
        )


def play_variant(scenario: SimScenario | bytes, variant: Variant, task: StudyRun, *, keep: bool = False) -> Played:
    """Play a variant once.

    :raises PumiceError: the run was stopped.
    """
    done = play(variant.of(unpacked(scenario), task.seed), task, keep=keep)
    if done.failure:
        raise PumiceError(f"{task}: {done.failure}")
    return done


# -- nodes ----------------------------------------------------------------------------------------------------------
def groups_of(scenario: SimScenario) -> dict[str, int]:
    """Return the groups of equal nodes by name, and how many each has."""
    found: dict[str, int] = {}
    for node in _nodes(scenario):
        name = re.sub(r"-\d+$", "", node.metadata.name)
        found[name] = found.get(name, 0) + 1
    return found


def nodes_of(scenario: SimScenario, group: str) -> list[NodeObject]:
    """Return the nodes of a group: ``a100-0``, ``a100-1``, …, or the one of that name.

    :raises InvalidInput: there are none.
    """
    pattern = re.compile(rf"{re.escape(group)}(-\d+)?")
    found = [node for node in _nodes(scenario) if pattern.fullmatch(node.metadata.name)]
    if not found:
        groups = groups_of(scenario)
        meant = nearest(group, groups)
        hint = f"; did you mean {meant!r}?" if meant else f"; there are {', '.join(groups)}"
        raise InvalidInput(f"group {group!r}: the cluster has no nodes of that name{hint}")
    return found


def _nodes(scenario: SimScenario) -> list[NodeObject]:
    return [o for o in scenario.setting.objects if isinstance(o, NodeObject)]


def units_of(scenario: SimScenario, *, gpus: bool) -> float:
    """Return how many GPUs, or CPUs, all nodes together offer."""
    names = GPU_RESOURCES if gpus else ("cpu",)
    offered = [Resources.parse(node.status.allocatable) for node in _nodes(scenario)]
    return sum(int(one.get(dim(name))) for one in offered for name in names) / 1000


def with_nodes(scenario: SimScenario, group: str, count: int) -> SimScenario:
    """Return the scenario with another number of nodes in a group, as if its file said that ``count``.

    :raises InvalidInput: there is no such group, or something names one of its nodes.
    """
    there = nodes_of(scenario, group)
    if count == len(there):
        return scenario
    names = {node.metadata.name for node in there}
    planned = {name for fault in scenario.setting.faults.planned for name in fault.nodes} & names
    placed = {node for found in scenario.manifests for job in found.jobs for node in job.placed.values()} & names
    for what, named in (("a planned fault", planned), ("a running pod", placed)):
        if named:
            raise InvalidInput(f"group {group!r}: {what} names {min(named)}, so its nodes cannot be counted anew")
    width = len(str(count - 1))
    fresh = [_renamed(there[0], f"{group}-{number:0{width}d}") for number in range(count)]
    first = next(at for at, o in enumerate(scenario.setting.objects) if o in there)
    rest = [o for o in scenario.setting.objects if not (isinstance(o, NodeObject) and o.metadata.name in names)]
    objects = (*rest[:first], *fresh, *rest[first:])
    return replace(scenario, setting=replace(scenario.setting, objects=objects))


def _renamed(node: NodeObject, name: str) -> NodeObject:
    labels = {**(node.metadata.labels or {}), keys.HOSTNAME: name}
    metadata = msgspec.structs.replace(node.metadata, name=name, uid=name, labels=labels)
    return msgspec.structs.replace(node, metadata=metadata)


# -- failures ---------------------------------------------------------------------------------------------------------
def struck(done: Played, nodes: Sequence[str], at_s: float) -> list[str]:
    """Return the jobs that ran on these nodes when they failed, in the order of their names."""
    record = done.record()
    return sorted({pod.job for pod in record.pods if pod.node in nodes and pod.start <= at_s and pod.end == at_s})
