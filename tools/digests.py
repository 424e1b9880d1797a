"""Digests of what the scheduler decides, and of what it says, on shapes, scenarios, traces and random stories.

    python tools/digests.py                       # compare with benchmarks/digests.json; fails if an intent differs
    python tools/digests.py singles stories-kai   # some parts only
    python tools/digests.py --write               # write what is decided now
    python tools/digests.py --show volcano-17     # print what one story, or one shape, decides
    python tools/digests.py --data DIR            # also two traces: DIR holds philly/ and swf/

Each entry has two digests. *intents*: binds, evictions, nominations, phases of jobs and promised places. *texts*:
conditions, notes and reasons. A change of an intent digest is a commit of its own that names the reason; texts may
become plainer. Random stories are taken in blocks of `BLOCK`.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools")]

from digest_stories import BEGIN, Manifest, Story, story  # noqa: E402 - beside this file, whoever runs it

from pumice.config import from_data  # noqa: E402
from pumice.framework.registry import default_registry  # noqa: E402
from pumice.framework.session.runtime import Runtime  # noqa: E402
from pumice.model.api import decode  # noqa: E402
from pumice.model.events import BindFailed, Gone, Seen  # noqa: E402
from pumice.scheduler.assembly import assemble, catalogue_of  # noqa: E402
from pumice.scheduler.cycle import run_cycle  # noqa: E402
from pumice.state.cluster import ClusterState  # noqa: E402

RECORDED = ROOT / "benchmarks" / "digests.json"
STORIES = {"volcano": 1000, "kai": 1000}
BLOCK = 50
SCENARIOS = ("three-teams", "bad-day", "guide")
TRACES = ("philly", "swf")
FOLDERS = {"philly": "philly", "swf": "swf"}


@dataclass
class Digest:
    """What was decided and what was said, as two hashes; the lines themselves are kept on request."""

    keeps: bool = False
    lines: list[str] = field(default_factory=list)
    _intents: Any = field(default_factory=hashlib.sha256)
    _texts: Any = field(default_factory=hashlib.sha256)
    _known: dict[str, str] = field(default_factory=dict)

    def cycle(self, report: Any) -> None:
        """Add the report of one cycle."""
        for intent in report.intents:
            self._intent(intent)
        places = sorted((job, sorted(tasks.items())) for job, tasks in report.pipelined.items())
        self._decided(f"pipelined {places}")
        for job, refusal in sorted(report.refusals.items()):
            self._said(f"why {job}", f"{refusal.stage} {refusal.plugin}: {refusal.text}")
        for job, errors in sorted(report.fit_errors.items()):
            self._said(f"fit {job}", "; ".join(sorted({str(error) for error in errors.values()})))
        if report.errors:
            self._said("errors", "; ".join(report.errors))

    def line(self, text: str) -> None:
        """Add a line of an event log."""
        self._decided(text)

    @property
    def pair(self) -> list[str]:
        """The two digests."""
        return [self._intents.hexdigest()[:16], self._texts.hexdigest()[:16]]

    def _intent(self, intent: Any) -> None:
        match type(intent).__name__:
            case "Bind":
                notes = sorted(intent.annotations.items())
                claims = [choice.claim for choice in intent.prepare]
                self._decided(f"bind {intent.pod} {intent.node} {notes} {claims}")
            case "Evict":
                self._decided(f"evict {intent.pod} {intent.node} {intent.action} {intent.beneficiary}")
            case "Nominate":
                self._decided(f"nominate {intent.pod} {intent.node}")
            case "StatusUpdate":
                phase = intent.status.get("phase")
                if phase and self._known.get(f"phase {intent.key}") != phase:
                    self._known[f"phase {intent.key}"] = phase
                    self._decided(f"phase {intent.kind} {intent.key} {phase}")
                self._said(f"{intent.kind} {intent.key}", str(_timeless(intent.status)))
            case _:
                self._said(f"note {intent.key}", f"{intent.reason} {intent.message}")

    def _decided(self, text: str) -> None:
        self._intents.update(f"{text}\n".encode())
        if self.keeps:
            self.lines.append(text)

    def _said(self, what: str, text: str) -> None:
        if self._known.get(what) == text:  # repeated, not news
            return
        self._known[what] = text
        self._texts.update(f"{what} {text}\n".encode())
        if self.keeps:
            self.lines.append(f"    {what}: {text}")


def _timeless(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _timeless(v) for k, v in sorted(value.items()) if not k.lower().endswith("time")}
    return [_timeless(v) for v in value] if isinstance(value, (list, tuple)) else value


class Cluster:
    """Manifests by kind and key; what a cycle decides is carried out on them."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Manifest] = {}
        self.leaving: list[str] = []
        self.late: list[Any] = []

    def put(self, manifest: Manifest) -> Any:
        """Add or change an object."""
        self.objects[manifest["kind"], _key(manifest)] = manifest
        return Seen(decode(manifest["kind"], manifest))

    def gone(self, kind: str, key: str) -> Any:
        """Remove an object."""
        self.objects.pop((kind, key), None)
        return Gone(kind, key)

    def before(self) -> Iterator[Any]:
        """Let terminating pods leave, and show binds that were late."""
        for key in self.leaving:
            yield self.gone("Pod", key)
        self.leaving = []
        for intent in self.late:
            if ("Pod", intent.pod) in self.objects:
                yield self._bound(intent)
        self.late = []

    def ends(self, which: int, outcome: str) -> Iterator[Any]:
        """Let one of the running pods end."""
        running = sorted(
            k for (kind, k), o in self.objects.items() if kind == "Pod" and o["status"]["phase"] == "Running"
        )
        if not running:
            return
        key = running[which % len(running)]
        if outcome == "deleted":
            yield self._deleted(key)
        else:
            pod = self.objects["Pod", key]
            yield self.put({**pod, "status": {**pod["status"], "phase": outcome}})

    def carry_out(self, intents: Any, *, late: bool, fails: int) -> Iterator[Any]:
        """Do what a cycle decided."""
        binds = 0
        for intent in intents:
            match type(intent).__name__:
                case "Bind":
                    binds += 1
                    if binds - 1 == fails:
                        yield BindFailed(intent.pod, intent.uid, "refused", intent.node)
                    elif late:
                        self.late.append(intent)
                    else:
                        yield self._bound(intent)
                case "Evict":
                    yield self._deleted(intent.pod)
                case "StatusUpdate" if (intent.kind, intent.key) in self.objects:
                    known = self.objects[intent.kind, intent.key]
                    yield self.put({**known, "status": {**known.get("status", {}), **_plain(intent.status)}})

    def _bound(self, intent: Any) -> Any:
        pod = self.objects["Pod", intent.pod]
        meta = {**pod["metadata"], "annotations": {**pod["metadata"].get("annotations", {}), **intent.annotations}}
        spec = {**pod["spec"], "nodeName": intent.node}
        return self.put({**pod, "metadata": meta, "spec": spec, "status": {**pod["status"], "phase": "Running"}})

    def _deleted(self, key: str) -> Any:
        pod = self.objects["Pod", key]
        self.leaving.append(key)
        stamp = BEGIN.isoformat().replace("+00:00", "Z")
        return self.put({**pod, "metadata": {**pod["metadata"], "deletionTimestamp": stamp}})


def _key(manifest: Manifest) -> str:
    meta = manifest["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _plain(status: Mapping[str, Any]) -> dict[str, Any]:
    """A status as manifests have it."""
    data: dict[str, Any] = json.loads(json.dumps(status, default=str))
    return data


def play_story(told: Story, digest: Digest) -> None:
    """Run the cycles of a story."""
    registry = default_registry()
    assembly = assemble(from_data(told.conf, catalogue_of(registry)).conf, registry)
    cluster, state, runtime = Cluster(), ClusterState(), Runtime()
    state.now = BEGIN.timestamp() + 3600
    state.apply_all([cluster.put(obj) for obj in told.objects])
    for step in told.steps:
        state.now += step.seconds
        state.apply_all(list(cluster.before()))
        events = [cluster.put(obj) for obj in step.put] + [cluster.gone(kind, key) for kind, key in step.gone]
        for which, outcome in step.ends:
            events += cluster.ends(which, outcome)
        state.apply_all(events)
        report = run_cycle(state, assembly, runtime)
        digest.cycle(report)
        state.apply_all(list(cluster.carry_out(report.intents, late=step.late, fails=step.fails)))
    state.now += 1
    state.apply_all(list(cluster.before()))
    digest.cycle(run_cycle(state, assembly, runtime))


def play_stories(dialect: str, numbers: range, digest: Digest) -> None:
    """Run several stories one after the other."""
    for number in numbers:
        play_story(story(number, dialect), digest)


def play_shape(make: Callable[[], Any], digest: Digest) -> None:
    """Run a shape of the benchmark."""
    bench, shape = _bench("run"), make()
    registry = default_registry().copy()
    if shape.policy is not None:
        registry.register(shape.policy.name, shape.policy)
    assembly = assemble(from_data(bench.conf_of(shape, registry), catalogue_of(registry)).conf, registry)
    state, runtime = ClusterState(), Runtime()
    state.now = 1_800_000_000.0
    state.apply_all([Seen(obj) for obj in shape.objects])
    for seen, gone in shape.cycles:
        state.apply_all([*(Seen(obj) for obj in seen), *(Gone(kind, key) for kind, key in gone)])
        state.now += 1.0
        digest.cycle(run_cycle(state, assembly, runtime))


def _bench(name: str) -> Any:
    """Import a module of the benchmark."""
    from importlib import import_module

    return import_module(f"pumice_bench.{name}")


def shapes() -> dict[str, Callable[[], Any]]:
    """Every shape of the benchmark that decides, small enough to run all of them."""
    v, k = _bench("shapes"), _bench("kai_shapes")
    return {
        "singles": lambda: v.singles(600, 600),
        "gangs": lambda: v.gangs(600, 20),
        "big": lambda: v.gangs(1000, 60),
        "many-classes": lambda: v.many_classes(600, 4),
        "affinity": lambda: v.affinity(600, 4),
        "topology": lambda: v.topology(600, 60),
        "steady": lambda: v.steady(600),
        "fragmented-gangs": lambda: v.fragmented_gangs(600, 20),
        "fragmented-singles": lambda: v.fragmented_singles(600, 300),
        "reclaim": v.reclaim,  # on fewer nodes nothing is evicted
        "preempt": lambda: v.preempt(600, 60),
        "own-policy": lambda: v.own_policy(600, 20),
        "backlog": lambda: v.backlog(300, 600),
        "small-cycle": v.small_cycle,
        "singles-differ": lambda: v.differing(v.singles(600, 600)),
        "gangs-differ": lambda: v.differing(v.gangs(600, 20)),
        "many-classes-differ": lambda: v.differing(v.many_classes(600, 4)),
        "kai-allocate": lambda: k.allocate(20, 100),
        "kai-reclaim-idle": k.reclaim_idle,
        "kai-preempt": k.preempt,
        "kai-consolidation-half": lambda: k.consolidation_half(10, 40),
        "kai-fill": lambda: k.fill(40),
        "kai-fill-beside": lambda: k.fill_beside(20, 40),
        "kai-topology": lambda: k.spread(1, near=True),
        "kai-topology-anywhere": lambda: k.spread(1),
        "kai-reclaim": lambda: k.reclaim(60),
        "kai-reclaim-in-vain": lambda: k.reclaim_in_vain(60),
        "kai-reclaim-half": lambda: k.reclaim_half(20),
        "kai-reclaim-last": lambda: k.reclaim_last(20),
        "kai-reclaim-singles": lambda: k.reclaim_singles(10),
        "kai-reclaim-gangs": lambda: k.reclaim_gangs(20),
        "kai-reclaim-full": lambda: k.reclaim_full(20),
        "kai-consolidation": lambda: k.consolidation(20),
    }


def play_scenario(name: str, data: Path | None, digest: Digest) -> None:
    """Play a scenario of the examples with one seed, as the command does, and add its event log."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        given = ["--data", str(data / FOLDERS[name])] if data else []
        words = ["simulate", str(ROOT / f"examples/scenarios/{name}.yaml"), "--log", str(log), *given]
        command = [sys.executable, "-c", "import sys; from pumice.cli.entry import main; sys.exit(main())", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name}: {done.stderr.strip()}")
        for line in log.read_text(encoding="utf-8").splitlines():
            digest.line(line)


def parts(data: Path | None) -> dict[str, Callable[[Digest], None]]:
    """Everything that has a digest, by name."""
    found: dict[str, Callable[[Digest], None]] = {}
    for name, make in shapes().items():
        found[name] = partial(play_shape, make)
    for name in SCENARIOS:
        found[f"scenario-{name}"] = partial(play_scenario, name, None)
    for name in TRACES if data else ():
        found[f"trace-{name}"] = partial(play_scenario, name, data)
    for dialect, count in STORIES.items():
        for first in range(0, count, BLOCK):
            block = range(first, first + BLOCK)
            found[f"stories-{dialect}-{first}"] = partial(play_stories, dialect, block)
    return found


def shown(name: str) -> list[str]:
    """What one story or shape decides and says, line by line."""
    digest, (dialect, _, number) = Digest(keeps=True), name.rpartition("-")
    if dialect in STORIES and number.isdigit():
        play_story(story(int(number), dialect), digest)
    else:
        parts(None)[name](digest)
    return digest.lines


def main() -> int:
    """Compare, write or show; 1 if an intent differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="names, or their beginnings; all of them if none is given"
    )
    parser.add_argument("--write", action="store_true", help="write what is decided now")
    parser.add_argument("--show", metavar="NAME", help="print the decisions of a story (volcano-17) or a part")
    parser.add_argument("--data", type=Path, metavar="DIR", help="where the traces are")
    given = parser.parse_args()
    if given.show:
        print("\n".join(shown(given.show)))
        return 0
    known = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
    changed, texts = [], []
    for name, play in parts(given.data).items():
        if given.parts and not any(name.startswith(part) for part in given.parts):
            continue
        digest, began = Digest(), time.process_time()
        play(digest)
        gc.collect()
        then, now = known.get(name), digest.pair
        verdict = (
            "new"
            if then is None
            else "the same"
            if then == now
            else "texts differ"
            if then[0] == now[0]
            else "INTENTS DIFFER"
        )
        print(f"{name:<24} {now[0]} {now[1]}  {time.process_time() - began:6.1f} s  {verdict}", flush=True)
        if then is not None and then[0] != now[0]:
            changed.append(name)
        elif then != now:
            texts.append(name)
        known[name] = now
    if given.write:
        RECORDED.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{len(changed)} with other intents, {len(texts)} with other texts" + ("; written" if given.write else ""))
    return int(bool(changed) and not given.write)


if __name__ == "__main__":
    sys.exit(main())
