"""The ``pumice`` command with all its subcommands.

A start must be quick, for people at a prompt and for shells that complete a word. So a command is a line of this table
and its module is imported when it is called; and such a module imports, outside its functions, only what parsing needs.
"""

from __future__ import annotations

from typing import Final

from pumice.cli.lazy import CommandEntry, section
from pumice.cli.root import Pumice, root

COMMANDS: Final = (
    *section(
        "Write a policy",
        CommandEntry("plugin", "pumice.cli.plugin:plugin", "Make a plugin, list plugins and extension points."),
        CommandEntry("conf", "pumice.cli.conf:app", "Check a scheduler conf, or show what it does."),
    ),
    *section(
        "Ask, of a cluster or of files",
        CommandEntry("status", "pumice.cli.status:status", "Show jobs, queues and nodes."),
        CommandEntry("why", "pumice.cli.why:why", "Show why a job waits, and when it will likely start."),
        CommandEntry("what-if", "pumice.cli.what_if:what_if", "Show what a job, queues, nodes or a conf would change."),
        CommandEntry("cycle", "pumice.cli.cycle:cycle", "Run one scheduling cycle over manifests or a saved cycle."),
        CommandEntry("mcp", "pumice.cli.mcp:mcp", "Answer an agent's questions (Model Context Protocol)."),
    ),
    *section(
        "Simulate",
        CommandEntry("simulate", "pumice.cli.simulate:simulate", "Run a scenario under one or several configurations."),
        CommandEntry("tune", "pumice.cli.tune:tune", "Search plugin arguments; validate on held-out days."),
        CommandEntry("plan", "pumice.cli.plan:plan", "Find how many nodes a goal needs; try load and failures."),
        CommandEntry("trace", "pumice.cli.trace:trace", "Show a trace or a history; make a trace of it."),
        CommandEntry("report", "pumice.cli.report:report", "Compare recorded runs, and write their page."),
    ),
    *section(
        "On a cluster",
        CommandEntry("run", "pumice.cli.run:run", "Schedule the pods of a cluster, until stopped.", cls="RunCommand"),
        CommandEntry(
            "controllers",
            "pumice.cli.controllers:controllers",
            "Run the job, PodGroup and queue controllers.",
            cls="ControllersCommand",
        ),
        CommandEntry("extender", "pumice.cli.extender:app", "Serve policies over HTTP, check and record extenders."),
        CommandEntry("shadow", "pumice.cli.shadow:shadow", "Compare a candidate conf with the running scheduler."),
        CommandEntry("dashboard", "pumice.cli.dashboard:dashboard", "Serve pages over a cluster, files or a scenario."),
    ),
)

Pumice.entries = {entry.name: entry for entry in COMMANDS}
app = root()
