"""A new plugin: the files that ``pumice plugin new`` writes."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from pumice.errors import InvalidInput

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

_PLUGIN = Template('''\
"""$name: a scheduling policy."""

from __future__ import annotations

from pumice import Arguments, Node, Plugin, Scope, Task, Unfit, scope


class $cls(Plugin):
    """Keeps tasks off nodes that carry a label, unless they carry it too; among the rest, prefers full nodes.

    Arguments: ``label`` ($name/reserved).
    """

    name = "$name"
    arguments_read = ("label",)

    def __init__(self, arguments: Arguments) -> None:
        self.label = arguments.str("label", "$name/reserved")

    @scope(Scope.STATIC)  # the answer depends on the task's class and the node's labels alone
    def predicate(self, task: Task, node: Node) -> None:
        wanted = node.labels.get(self.label)
        if wanted is not None and task.labels.get(self.label) != wanted:
            raise Unfit(f"the node is reserved for {wanted}")

    @scope(Scope.NODE)  # ... and on what is placed on the node
    def node_order(self, task: Task, node: Node) -> float:
        return 100 * node.used.milli_cpu / max(node.allocatable.milli_cpu, 1)
''')

_TEST = Template('''\
"""The policy $name, on clusters of a few lines."""

from __future__ import annotations

from pathlib import Path

from pumice.testing import Scenario

PLUGINS = Path(__file__).parent / "plugins"


def test_a_reserved_node_is_left_to_those_it_is_reserved_for(scenario: Scenario) -> None:
    scenario.plugins_from(PLUGINS)
    scenario.node("free", cpu=4).node("reserved", cpu=4, labels={"$name/reserved": "team-a"})
    scenario.job("other", tasks=8, min_available=4, cpu=1)
    cycle = scenario.run(actions=["enqueue", "allocate"], plugins=["gang", "$name"])
    assert set(cycle.binds.values()) == {"free"}


def test_the_fuller_node_is_taken_first(scenario: Scenario) -> None:
    scenario.plugins_from(PLUGINS)
    scenario.node("a-empty", cpu=4).node("b-busy", cpu=4)
    scenario.pod("busy", cpu=2, on="b-busy")
    scenario.job("small", tasks=1, cpu=1)
    cycle = scenario.run(actions=["enqueue", "allocate"], plugins=["gang", "$name"])
    assert list(cycle.binds.values()) == ["b-busy"]
''')

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
      label: $name/reserved
""")


def new_plugin(name: str, directory: Path) -> list[Path]:
    """Write a plugin, its test and a conf that uses it into ``directory/name``; returns the files.

    :raises InvalidInput: the name is no plugin name, or the folder exists or cannot be made.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"plugin name {name!r}: must be lower-case words joined by dashes, such as spot-first")
    folder = directory / name
    if folder.exists():
        raise InvalidInput(f"folder {str(folder)!r}: exists already")
    module = name.replace("-", "_")
    texts = {
        folder / "plugins" / f"{module}.py": _PLUGIN,
        folder / f"test_{module}.py": _TEST,
        folder / "scheduler.conf": _CONF,
    }
    cls = "".join(part.capitalize() for part in name.split("-"))
    try:
        (folder / "plugins").mkdir(parents=True)
        for path, template in texts.items():
            path.write_text(template.substitute(name=name, cls=cls), encoding="utf-8")
    except OSError as exc:
        raise InvalidInput(f"folder {str(folder)!r}: {exc.strerror}") from exc
    return list(texts)
