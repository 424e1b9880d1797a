"""A new plugin: the files that ``pumice plugin new`` writes."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from pumice.cli.options import WrongUsage
from pumice.errors import InvalidInput

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

_PLUGIN = Template('''\
"""$name: a scheduling policy."""

from __future__ import annotations

from pumice import Argument, Node, Plugin, Scope, Task, Unfit, scope


class $cls(Plugin):
    """Keeps nodes with a label for tasks of as many CPUs as it says, and fills the fullest of the others first."""

    name = "$name"
    label = Argument("$name/at-least", "The label of nodes that are kept, with the least number of CPUs.")

    @scope(Scope.STATIC)  # the answer depends on the task's class and the node's labels alone
    def predicate(self, task: Task, node: Node) -> None:
        least = node.labels.get(self.label)
        if least is not None and task.requests.milli_cpu < 1000 * float(least):
            raise Unfit(f"the node is kept for tasks of {least} CPUs or more")

    @scope(Scope.NODE)  # ... and on what is placed on the node
    def node_order(self, task: Task, node: Node) -> float:
        return 100 * node.used.milli_cpu / max(node.allocatable.milli_cpu, 1)
''')

_TEST = Template('''\
"""The policy $name, on clusters of a few lines."""

from __future__ import annotations

from $module import $cls
from pumice.testing import Scenario, check_plugin, node


def test_it_keeps_the_rules() -> None:
    check_plugin($cls, objects=[node("kept", cpu=4, labels={"$name/at-least": "4"})])


def test_a_node_is_kept_for_large_tasks(scenario: Scenario) -> None:
    scenario.node("free", cpu=4).node("kept", cpu=4, labels={"$name/at-least": "4"})
    scenario.pod("busy", cpu=1, on="free")
    scenario.job("small", tasks=8, min_available=2, cpu=1).job("large", tasks=1, cpu=4)
    cycle = scenario.run(actions=["enqueue", "allocate"], plugins=["gang", $cls])
    assert {node for pod, node in cycle.binds.items() if "small" in pod} == {"free"}
    assert {node for pod, node in cycle.binds.items() if "large" in pod} == {"kept"}


def test_the_fuller_node_is_taken_first(scenario: Scenario) -> None:
    scenario.node("a-empty", cpu=4).node("b-busy", cpu=4)
    scenario.pod("busy", cpu=2, on="b-busy")
    scenario.job("small", tasks=1, cpu=1)
    cycle = scenario.run(actions=["enqueue", "allocate"], plugins=["gang", $cls])
    assert list(cycle.binds.values()) == ["b-busy"]
''')

_PROJECT = Template("""\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "$name"
version = "0.1.0"
description = "A scheduling policy for Pumice"
requires-python = ">=3.11"

[project.entry-points."pumice.plugins"] # found by every Pumice in the same environment
$name = "$module:$cls"

[tool.hatch.build.targets.wheel]
only-include = ["plugins/$module.py"]
sources = ["plugins"]

[tool.pytest.ini_options]
pythonpath = ["plugins"]
""")

_CONF = Template("""\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: $name
    arguments:
      label: $name/at-least
""")

_EXTENDER_CONF = Template("""\
# The same decisions with the policy behind HTTP. Volcano and Pumice read this; the policy is served by
#   pumice extender serve plugins/$module.py --conf scheduler.conf --port 8888
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: extender
    arguments:
      extender.urlPrefix: http://127.0.0.1:8888
      extender.predicateVerb: predicate
      extender.prioritizeVerb: prioritize
""")

_CLUSTER = Template("""\
# Three nodes, one of them kept for tasks of four CPUs or more; a pod that runs on b; three jobs. `whole` must wait for
# empty nodes.
$nodes---
apiVersion: v1
kind: Pod
metadata: {name: busy, annotations: {sim.pumice.dev/run-time: 30m}}
spec:
  schedulerName: pumice
  nodeName: b
  containers: [{name: main, resources: {requests: {cpu: "3", memory: 4Gi}}}]
status: {phase: Running}
$jobs""")

_NODE = Template("""\
---
apiVersion: v1
kind: Node
metadata: {name: $node, labels: {$labels}}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}}
""")

_GROUP = Template("""\
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: $job, namespace: default}
spec: {minMember: $pods, queue: default}
""")

_POD = Template("""\
---
apiVersion: v1
kind: Pod
metadata:
  name: $job-$number
  annotations: {scheduling.k8s.io/group-name: $job, sim.pumice.dev/run-time: 20m}
spec:
  schedulerName: pumice
  containers: [{name: main, resources: {requests: {cpu: "$cpu", memory: 2Gi}}}]
""")

_SCENARIO = Template("""\
# The jobs of cluster.yaml, then ten hours of small jobs and of some that need a whole node, under the default
# configuration and with the policy. Small jobs everywhere leave no node whole: the policy keeps them together.
#   pumice simulate scenario.yaml --report out.html
name: $name
seed: 1
horizon: 12h
pluginsDir: plugins
cluster:
  manifests: [cluster.yaml]
workload:
  generators:
  - name: small
    arrivals: {every: 3m, until: 10h}
    duration: {lognormal: {median: 10m, p90: 30m}}
    cpu: 1
    memory: 1Gi
  - name: whole-node
    arrivals: {every: 30m, until: 10h}
    duration: 15m
    cpu: 8
    memory: 8Gi
configurations:
  default: default
  $name: scheduler.conf
""")

_README = Template("""\
# $name

A scheduling policy for Pumice: one class, in `plugins/$module.py`. It runs in four places; try them from this folder.

```console
$$ pytest
$$ pumice cycle cluster.yaml --conf scheduler.conf --plugins-dir plugins
$$ pumice simulate scenario.yaml
$$ pumice extender serve plugins/$module.py --conf scheduler.conf --port 8888
```

`pip install .` installs the policy as a package: then a conf may name it wherever Pumice runs. Then leave out
`--plugins-dir`, and `pluginsDir` in `scenario.yaml`.

1. Its tests, on clusters of a few lines.
2. One cycle: who goes where, who waits and why. `pumice run` takes the same options and schedules a real cluster.
3. Twelve hours in the simulator, beside the default configuration: jobs that need a whole node wait less. `--report
   out.html` tells the whole story.
4. Behind an existing Volcano, which reads `extender.conf`. While it serves, `pumice cycle cluster.yaml --conf
   extender.conf` makes the decisions of the second line again.

`pumice plugin points` lists what a policy may decide, `pumice plugin points predicate` shows one of them, and
`pumice conf explain scheduler.conf --plugins-dir plugins` shows what a conf makes of it.
""")


def _cluster(name: str) -> str:
    """A small cluster on which the policy decides something."""
    mark = f'{name}/at-least: "4"'
    nodes = [_NODE.substitute(node=node, labels=mark if node == "c" else "") for node in ("a", "b", "c")]
    jobs = []
    for job, pods, cpu in (("small", 3, 2), ("large", 2, 6), ("whole", 2, 8)):
        jobs.append(_GROUP.substitute(job=job, pods=pods))
        jobs += [_POD.substitute(job=job, number=n, cpu=cpu) for n in range(pods)]
    return _CLUSTER.substitute(nodes="".join(nodes), jobs="".join(jobs))


def new_plugin(name: str, directory: Path) -> list[Path]:
    """Write a plugin, its test, confs, a cluster and a scenario into ``directory/name``; returns the files.

    :raises WrongUsage: the name is no plugin name, or another plugin has it.
    :raises InvalidInput: the folder exists or cannot be made.
    """
    from pumice.framework.registry import default_registry

    taken = default_registry().get(name)
    if taken is not None:
        raise WrongUsage(f"plugin name {name!r}: is taken by the one from {taken.origin}")
    if not _NAME.fullmatch(name):
        raise WrongUsage(f"plugin name {name!r}: must be lower-case words joined by dashes, such as spot-first")
    folder = directory / name
    if folder.exists():
        raise InvalidInput(f"folder {str(folder)!r}: exists already")
    module = name.replace("-", "_")
    words = {"name": name, "module": module, "cls": "".join(part.capitalize() for part in name.split("-"))}
    texts = {
        folder / "plugins" / f"{module}.py": _PLUGIN.substitute(words),
        folder / f"test_{module}.py": _TEST.substitute(words),
        folder / "pyproject.toml": _PROJECT.substitute(words),
        folder / "scheduler.conf": _CONF.substitute(words),
        folder / "extender.conf": _EXTENDER_CONF.substitute(words),
        folder / "cluster.yaml": _cluster(name),
        folder / "scenario.yaml": _SCENARIO.substitute(words),
        folder / "README.md": _README.substitute(words),
    }
    try:
        (folder / "plugins").mkdir(parents=True)
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise InvalidInput(f"folder {str(folder)!r}: {exc.strerror}") from exc
    return list(texts)
