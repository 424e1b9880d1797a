"""A history read as stories: what became of each job, of each node, and under which configuration."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pumice.history import lines
from pumice.history.files import Read
from pumice.history.lines import Admitted, Begins, Conf, Evicting, JobRuns, Line, Over, Pods, PodsLeft, PodsPlaced


@dataclass(slots=True)
class Loss:
    """Pods that a job lost and that were not its end: it was not we who took them."""

    at: float
    pods: int
    how: str


@dataclass(slots=True)
class Story:
    """One job, from when it was seen first."""

    job: str
    created: float
    submitted: float
    queue: str = ""
    minimum: int = 0
    priority: int = 0
    declared: float = 0.0
    pods: tuple[Pods, ...] = ()
    picky: bool = False
    found: bool = False
    """Held room already when the history began."""
    admitted: float | None = None
    placed: float | None = None
    """When as many pods as it needs had a place, for the first time."""
    since: float | None = None
    """… and for the last time: it was not interrupted from then on."""
    runs: float | None = None
    """When as many ran, for the first time."""
    ended: float | None = None
    how: str = ""
    evictions: int = 0
    """Pods that we evicted."""
    losses: list[Loss] = field(default_factory=list)
    first_left: float | None = None
    """When the first of the pods left that did not come back."""
    holds: dict[str, str] = field(default_factory=dict)
    """Pods that have a place now, and where."""

    @property
    def tasks(self) -> int:
        """The most pods that it had."""
        return sum(pods.count for pods in self.pods)

    @property
    def needs(self) -> int:
        """How many pods must run together."""
        return min(max(self.minimum, 1), max(self.tasks, 1))

    @property
    def apart_s(self) -> float:
        """Seconds between its first pod's end and its last one's."""
        return 0.0 if self.ended is None or self.first_left is None else self.ended - self.first_left

    @property
    def ran(self) -> float | None:
        """Seconds from its last start to its end; None if it has none of the two."""
        return None if self.ended is None or self.since is None else self.ended - self.since


@dataclass(slots=True)
class Stay:
    """A node, from when it was there to when it was gone."""

    node: lines.NodeLine
    since: float
    until: float | None = None
    closed: list[tuple[float, bool]] = field(default_factory=list)
    """When it took nothing new any more (True), and when it did again."""
    outlived: bool = False
    """Pods on it went on when it was gone: only its object was."""


@dataclass(slots=True)
class Told:
    """Everything that a history tells."""

    begins: float = 0.0
    ends: float = 0.0
    jobs: list[Story] = field(default_factory=list)
    """In the order in which they came."""
    nodes: list[Stay] = field(default_factory=list)
    queues: dict[str, lines.QueueLine] = field(default_factory=dict)
    confs: list[Conf] = field(default_factory=list)
    evictions: list[Evicting] = field(default_factory=list)
    eviction_s: list[float] = field(default_factory=list)
    """How long evicted pods took to go."""
    gaps: list[tuple[float, float]] = field(default_factory=list)
    """When nobody wrote."""
    resized: int = 0
    """Nodes that changed their size."""
    torn: int = 0
    unknown: int = 0

    @property
    def conf(self) -> dict[str, Any] | None:
        """The last configuration."""
        return self.confs[-1].data if self.confs else None


def read_history(path: Path) -> Told:
    """The stories of a folder, or of one file.

    :raises InvalidInput: there is no history.
    """
    read = Read(path)
    told = tell(read)
    told.torn, told.unknown = read.torn, read.unknown
    return told


def tell(written: Iterable[Line]) -> Told:
    """The stories that lines tell."""
    teller = _Teller()
    for line in written:
        teller.hear(line)
    teller.close()
    return teller.told


class _Teller:
    def __init__(self) -> None:
        self.told = Told()
        self.heard = False
        self._open: dict[str, Story] = {}
        self._nodes: dict[str, Stay] = {}
        self._lost_nodes: dict[str, Stay] = {}
        """Nodes that are gone."""
        self._leaving: dict[tuple[str, str], float] = {}
        self._unseen: dict[str, Story] = {}
        """Jobs that a new file has not named yet."""
        self._unseen_nodes: dict[str, Stay] = {}
        self._checked = 0.0

    def hear(self, line: Line) -> None:
        told = self.told
        if not self.heard:
            told.begins = line.at
            self.heard = True
        if (self._unseen or self._unseen_nodes) and line.at > self._checked:
            self._close_unseen()
        match line:
            case Begins():
                if told.ends and not line.goes_on:
                    told.gaps.append((told.ends, line.at))
                self._unseen, self._unseen_nodes, self._checked = dict(self._open), dict(self._nodes), line.at
            case Conf():
                if not told.confs or told.confs[-1].digest != line.digest:
                    told.confs.append(line)
            case lines.NodeLine():
                self._node(line)
            case lines.NodeGone():
                self._node_gone(line.name, line.at)
            case lines.QueueLine():
                told.queues[line.name] = line
            case lines.QueueGone():
                pass  # jobs that named it have to go somewhere
            case lines.JobLine():
                self._job(line)
            case Evicting():
                told.evictions.append(line)
                self._leaving[line.job, line.pod] = line.at
            case _:
                story = self._open.get(line.job)
                if story is not None:
                    self._of_job(story, line)
        told.ends = max(told.ends, line.at)

    def close(self) -> None:
        if self._unseen or self._unseen_nodes:
            self._close_unseen()

    def _close_unseen(self) -> None:
        """An object that a new file does not name ended while no history was written."""
        for key, story in self._unseen.items():
            if self._open.get(key) is story:
                self._forget(story, self._checked)
        for name, stay in self._unseen_nodes.items():
            if self._nodes.get(name) is stay:
                self._node_gone(name, self._checked)
        self._unseen, self._unseen_nodes = {}, {}

    def _node(self, line: lines.NodeLine) -> None:
        known = self._nodes.get(line.name)
        self._unseen_nodes.pop(line.name, None)
        if known is None:
            known = self._nodes[line.name] = Stay(line, line.at)
            self._lost_nodes.pop(line.name, None)
            self.told.nodes.append(known)
            if line.closed:
                known.closed.append((line.at, True))
            return
        if (known.closed[-1][1] if known.closed else False) != line.closed:
            known.closed.append((line.at, line.closed))
        size = (line.cpu, line.memory, line.gpus)
        if (known.node.cpu, known.node.memory, known.node.gpus) != size:
            self.told.resized += 1

    def _node_gone(self, name: str, at: float) -> None:
        known = self._nodes.pop(name, None)
        if known is not None:
            known.until = at
            self._lost_nodes[name] = known

    def _job(self, line: lines.JobLine) -> None:
        story = self._open.get(line.job)
        if story is not None and story.created != line.created:
            self._forget(story, line.at)
            story = None
        self._unseen.pop(line.job, None)
        if story is None:
            first = line.at <= self.told.begins
            story = self._open[line.job] = Story(
                line.job, line.created, min(line.created or line.at, line.at) if first else line.at
            )
            self.told.jobs.append(story)
        story.queue, story.minimum, story.priority = line.queue, line.minimum, line.priority
        story.declared, story.pods, story.picky = line.declared, line.pods, line.picky
        if story.ended is not None:
            story.ended, story.how = None, ""  # more pods of it came

    def _forget(self, story: Story, at: float) -> None:
        """A job is not there any more, and nobody said when it ended, unless it had before."""
        if story.ended is None:
            self._over(story, at, "unseen")
        self._open.pop(story.job, None)

    def _of_job(self, story: Story, line: Admitted | PodsPlaced | JobRuns | PodsLeft | Over) -> None:
        match line:
            case Admitted():
                story.admitted = line.at if story.admitted is None else story.admitted
            case PodsPlaced():
                self._placed(story, line)
            case JobRuns():
                story.runs = line.at if story.runs is None else story.runs
            case PodsLeft():
                self._left(story, line)
            case Over():
                self._over(story, line.at, line.how)

    def _placed(self, story: Story, line: PodsPlaced) -> None:
        enough = len(story.holds) >= story.needs
        if line.found:
            story.found |= line.at <= self.told.begins
            story.holds = dict(line.pods)
        else:
            story.holds |= line.pods
        if len(story.holds) >= story.needs:
            story.placed = line.at if story.placed is None else story.placed
            if not enough or story.since is None:
                story.since = line.at if not (line.found and story.since is not None) else story.since
        story.first_left = None

    def _left(self, story: Story, line: PodsLeft) -> None:
        for pod in line.pods:
            lost = self._lost_nodes.get(story.holds.pop(pod, ""))
            if lost is not None and line.how in ("succeeded", "failed", "evicted"):
                lost.outlived = True
        ours = [pod for pod in line.pods if (story.job, pod) in self._leaving]
        if line.how == "evicted":
            story.evictions += len(line.pods)
            self.told.eviction_s += [line.at - self._leaving[story.job, pod] for pod in ours]
        elif line.how in ("deleted", "failed"):
            story.losses.append(Loss(line.at, len(line.pods), line.how))
        for pod in ours:
            del self._leaving[story.job, pod]
        if story.first_left is None:
            story.first_left = line.at

    def _over(self, story: Story, at: float, how: str) -> None:
        story.ended, story.how = at, how
        while story.losses and story.losses[-1].at >= (story.first_left if story.first_left is not None else at):
            story.losses.pop()  # nothing was placed after it: this is how it ended
        if how in ("completed", "failed"):
            return  # more pods of it may come
        self._open.pop(story.job, None)
