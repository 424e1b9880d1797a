"""A history, heard line by line, as what a cluster went through; written long ago or just now."""

from __future__ import annotations

import math
from typing import Any

from pumice.answers.when.forward import Lane
from pumice.answers.when.past import Past, PastJob, size_of
from pumice.answers.when.room import Amounts, Place, PodShape
from pumice.answers.when.room import Pods as Needed
from pumice.answers.when.run_times import Kind
from pumice.history import lines
from pumice.history.lines import Begins, Conf, JobLine, Line, Over, Pods, PodsLeft, PodsPlaced
from pumice.model.resources import CPU, MEMORY, Resources, dim
from pumice.model.task import GPU_RESOURCES

SHARING = frozenset({"proportion", "capacity"})
"""Plugins under which the queue goes first that has least of its part."""
_STOPPED = ("evicted", "deleted", "node", "unbound")


class Listener:
    """Tells a `Past` what lines say."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._nodes: dict[str, Amounts] = {}
        self._models: dict[str, str] = {}
        self._only: dict[tuple[str, ...], frozenset[str]] = {}
        """Models of GPUs -> the nodes that have them."""
        self._queues: dict[str, dict[str, Any]] = {}
        self._holds: dict[str, dict[str, str]] = {}
        """Job -> its pods that have a place, and where."""
        self._lines: dict[str, JobLine] = {}
        self._stopped: set[str] = set()
        """Jobs that lost pods at this instant, perhaps because they are over."""
        self._shares = False
        self._stale = False
        """Nodes or queues are not as they were."""
        self._unseen: set[str] | None = None
        """Jobs that a new file has not named yet."""

    def hear(self, line: Line) -> None:
        """Something happened."""
        past = self._past
        if line.at > past.now:
            if self._unseen:
                self._close_unseen()
            self._unseen = None
            self._interrupt()
            if self._stale:
                self._weigh()
            past.advance(line.at)
        match line:
            case Begins():
                self._unseen = set(past.names())
            case Conf():
                self._shares = bool(SHARING & set(_plugins(line.data)))
                self._stale = True
            case lines.NodeLine():
                size = (line.cpu, line.memory, line.gpus * 1000)
                self._nodes.pop(line.name, None)
                if not line.closed:
                    self._nodes[line.name] = size
                self._models[line.name] = line.model
                self._measure()
            case lines.NodeGone():
                self._nodes.pop(line.name, None)
                self._models.pop(line.name, None)
                self._measure()
            case lines.QueueLine():
                self._queues[line.name] = line.spec
                self._stale = True
            case lines.QueueGone():
                self._queues.pop(line.name, None)
                self._stale = True
            case JobLine():
                self._job(line)
            case PodsPlaced() if line.job in self._lines:
                self._placed(line)
            case PodsLeft() if line.job in self._lines:
                self._left(line)
            case Over() if line.job in self._lines:
                self._over(line.job)
            case _:
                pass

    # -- jobs -------------------------------------------------------------------------------------------------------
    def _job(self, line: JobLine) -> None:
        known = self._lines.get(line.job)
        if self._unseen:
            self._unseen.discard(line.job)
        if known is not None and known.created != line.created:
            self._over(line.job)
            known = None
        self._lines[line.job] = line
        if known is None:
            self._holds[line.job] = {}
            came = min(line.created or line.at, line.at)
            declared = line.declared or math.inf
            kind = Kind(line.queue, size_of(_asks(line.pods)))
            self._past.came(PastJob(line.job, kind, self._needed(line), came, -line.priority, declared))
        elif (job := self._past.knows(line.job)) is not None:
            job.pods = self._needed(line)

    def _needed(self, line: JobLine) -> Needed:
        """The pods that it needs to start."""
        left, needed = _needs(line), []
        for pods in line.pods:
            count = min(pods.count, left)
            left -= count
            if count:
                each = (pods.cpu, pods.memory, pods.gpus * pods.share)
                needed.append((count, PodShape(each, self._nodes_with(pods.models))))
        return tuple(needed) or ((1, PodShape((0, 0, 0))),)

    def _nodes_with(self, models: tuple[str, ...]) -> frozenset[str] | None:
        if not models:
            return None
        if models not in self._only:
            self._only[models] = frozenset(node for node, model in self._models.items() if model in models)
        return self._only[models]

    def _placed(self, line: PodsPlaced) -> None:
        holds = self._holds[line.job]
        holds.update(line.pods)
        job = self._past.knows(line.job)
        if job is not None and job.since is None and len(holds) >= _needs(self._lines[line.job]):
            self._past.began(line.job, self._places(line.job), known=not line.found)
        elif job is not None and job.since is not None:
            job.places = self._places(line.job)

    def _places(self, name: str) -> list[Place]:
        """Where a job's pods are; pods of several shapes are taken for equal, as nobody says which is which."""
        pods = self._lines[name].pods
        many = max(sum(p.count for p in pods), 1)
        each = tuple(amount // many for amount in _asks(pods))
        return [(node, each) for node in self._holds[name].values()]

    def _left(self, line: PodsLeft) -> None:
        for pod in line.pods:
            self._holds[line.job].pop(pod, None)
        if line.how in _STOPPED:
            self._stopped.add(line.job)

    def _interrupt(self) -> None:
        """Jobs that lost pods they need, and are not over: they wait again."""
        for name in self._stopped:
            job = self._past.knows(name)
            if job is not None and job.since is not None and len(self._holds[name]) < _needs(self._lines[name]):
                self._past.interrupted(name)
        self._stopped.clear()

    def _over(self, name: str) -> None:
        del self._lines[name], self._holds[name]
        if self._past.knows(name) is not None:
            self._past.ended(name)

    def _close_unseen(self) -> None:
        """What a new file does not name ended while nobody listened: when, nobody knows."""
        for name in self._unseen or ():
            job = self._past.knows(name)
            if job is not None and job.since is not None:
                self._past.interrupted(name)
            if name in self._lines:
                self._over(name)

    # -- room -------------------------------------------------------------------------------------------------------
    def _measure(self) -> None:
        self._only.clear()
        self._stale = True

    def _weigh(self) -> None:
        self._stale = False
        self._past.room = self._nodes
        room: Amounts = tuple(map(sum, zip(*self._nodes.values(), strict=True))) or (0, 0, 0)
        found = {name: lane_of(spec, room, self._shares) for name, spec in self._queues.items()}
        self._past.lanes = {name: lane for name, lane in found.items() if lane != Lane()}


def lane_of(spec: dict[str, Any], room: Amounts, shares: bool) -> Lane:
    """What a queue may have by its object: parts by weight, where it does not say what it deserves."""
    deserved = None
    if shares:
        written = spec.get("deserved")
        weight = spec.get("weight") or 1
        deserved = amounts_of(written, room) if written else tuple(has * weight for has in room)
    most = spec.get("capability")
    return Lane(deserved, amounts_of(most, (2**62,) * 3) if most else None)


def amounts_of(written: dict[str, Any], others: Amounts) -> Amounts:
    """Amounts of a manifest; *others* where it names none."""
    found = Resources.parse(written)
    gpus = [name for name in GPU_RESOURCES if name in written]
    return (
        int(found.get(CPU)) if "cpu" in written else others[0],
        int(found.get(MEMORY)) if "memory" in written else others[1],
        sum(int(found.get(dim(name))) for name in gpus) if gpus else others[2],
    )


def _asks(pods: tuple[Pods, ...]) -> Amounts:
    return (
        sum(p.count * p.cpu for p in pods),
        sum(p.count * p.memory for p in pods),
        sum(p.count * p.gpus * p.share for p in pods),
    )


def _needs(line: JobLine) -> int:
    return min(max(line.minimum, 1), max(sum(p.count for p in line.pods), 1))


def _plugins(conf: dict[str, Any]) -> list[str]:
    """The names of the plugins of a configuration."""
    return [plugin.get("name", "") for tier in conf.get("tiers") or () for plugin in tier.get("plugins") or ()]
