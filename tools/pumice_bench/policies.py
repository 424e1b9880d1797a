"""Policies as users write them: the guide's first plugin as it stands, and policies that declare their scope."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pumice import Node, Plugin, Scope, Task, Unfit, same_class, scope
from pumice.framework.loading import import_file

_GUIDE: Final = Path(__file__).parents[2] / "examples" / "plugins" / "myplugin.py"


def guide_policy() -> type[Plugin]:
    """Return the guide's first plugin as it stands, without any scope."""
    policy: type[Plugin] = vars(import_file(_GUIDE, "myplugin"))["MyPlugin"]
    return policy


def scoped_guide_policy() -> type[Plugin]:
    """Return the same with one line above its score: ``@scope(Scope.NODE, key=same_class)``."""
    policy = guide_policy()
    scope(Scope.NODE, key=same_class)(vars(policy)["fuller_is_better"])
    return policy


class OwnPolicy(Plugin):
    """A scalar policy with declared scopes and keys."""

    name = "own-policy"

    @scope(Scope.STATIC, key=same_class)
    def predicate(self, task: Task, node: Node) -> None:
        if node.labels.get("pool") != "batch":
            raise Unfit("not in the batch pool")

    @scope(Scope.NODE, key=same_class)
    def node_order(self, task: Task, node: Node) -> float:
        return node.used.milli_cpu / 1000
