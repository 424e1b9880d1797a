"""What happens when a plugin raises: it is attributed, told once and counted; who fails again and again is left out."""

from __future__ import annotations

import logging

from pumice.errors import PluginError
from pumice.framework.chains import Chains
from pumice.framework.metrics import Metrics
from pumice.framework.runtime import QUARANTINE_AFTER, Health
from pumice.model.intents import Intent, Note
from pumice.model.node import Node
from pumice.model.task import Task

log = logging.getLogger("pumice.framework")


class Failures(Chains):
    """Failures of plugins stay their own. Mixed into `Session`."""

    errors: list[PluginError]
    intents: list[Intent]
    metrics: Metrics
    _failed: set[str]

    def contain(
        self, plugin: str, point: str, exc: Exception, task: Task | None = None, node: Node | None = None
    ) -> None:
        """A plugin raised: attribute it, log it once with its traceback, count it, go on."""
        about = "".join(
            (f" for task {task.key}" if task is not None else "", f" on node {node.name}" if node is not None else "")
        )
        error = PluginError(plugin, point, f"{type(exc).__name__}: {exc}{about}", _raised_at(exc))
        health = self.runtime.health.setdefault(plugin, Health())
        health.failures += 1
        if health.last != f"{point}: {exc}":
            log.error("%s", error, exc_info=exc)
            health.last = f"{point}: {exc}"
        self._failed.add(plugin)
        self.metrics.counter("pumice_plugin_failures_total", plugin=plugin, point=point)
        if len(self.errors) < 1000:
            self.errors.append(error)

    def _judge(self) -> None:
        """Count failing cycles; quarantine a plugin that fails again and again."""
        for name, health in self.runtime.health.items():
            if name in self._failed:
                health.failing_cycles += 1
                if health.failing_cycles >= QUARANTINE_AFTER and not health.quarantined:
                    health.quarantined = True
                    self.intents.append(
                        Note(
                            "Plugin",
                            name,
                            "Warning",
                            "Quarantined",
                            f"failed in {QUARANTINE_AFTER} cycles: {health.last}",
                        )
                    )
                    log.error("plugin %r is quarantined: %s", name, health.last)
            else:
                health.failing_cycles = 0


def _raised_at(exc: Exception) -> str:
    """File and line of the code that raised."""
    trace = exc.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
