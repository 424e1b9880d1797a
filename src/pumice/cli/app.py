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
        CommandEntry(
            "plugin", "pumice.cli.plugins:app", "Make a new plugin with its test and a scenario to try it on."
        ),
        CommandEntry("points", "pumice.cli.points:points", "List the extension points, or show one."),
        CommandEntry(
            "plugins", "pumice.cli.plugins:plugins", "List the plugins and the arguments they read, or show one."
        ),
        CommandEntry("conf", "pumice.cli.conf:app", "Check, explain and lint a scheduler conf."),
    ),
    *section(
        "Decide once, over manifests or a saved cycle",
        CommandEntry("cycle", "pumice.cli.cycle:cycle", "Run one scheduling cycle: who goes where, and who waits."),
        CommandEntry("explain", "pumice.cli.cycle:explain", "Say why a job waits, in full: every reason, every node."),
        CommandEntry("replay", "pumice.cli.cycle:replay", "Run a saved cycle again, also under another conf."),
    ),
    *section(
        "Simulate",
        CommandEntry("simulate", "pumice.cli.simulate:simulate", "Run a scenario under one or several configurations."),
        CommandEntry("tune", "pumice.cli.tune:tune", "Search a conf's arguments for what holds on days held out."),
        CommandEntry("plan", "pumice.cli.plan:plan", "Say how many nodes a goal needs, and what failures would do."),
        CommandEntry("trace", "pumice.cli.trace:app", "Make a trace of a history or a log, and show what is in one."),
        CommandEntry("report", "pumice.cli.report:report", "Make the page of runs that were recorded."),
    ),
    *section(
        "On a cluster",
        CommandEntry("run", "pumice.cli.run:run", "Schedule the pods of a cluster, until stopped.", cls="RunCommand"),
        CommandEntry(
            "controllers",
            "pumice.cli.controllers:controllers",
            "Look after vcjobs, PodGroups and queues without Volcano.",
            cls="ControllersCommand",
        ),
        CommandEntry("extender", "pumice.cli.extender:app", "Serve policies over HTTP, check and record extenders."),
        CommandEntry("shadow", "pumice.cli.shadow:shadow", "Say what a conf would do otherwise, beside the scheduler."),
        CommandEntry(
            "dashboard", "pumice.cli.dashboard:dashboard", "Serve pages: queues, who waits and why, what changed."
        ),
    ),
    *section(
        "Ask, of a cluster or of files",
        CommandEntry("why", "pumice.cli.why:why", "Say what a job waits for, on one screen."),
        CommandEntry("when", "pumice.cli.when:when", "Say when a job will likely start, as a range."),
        CommandEntry("try", "pumice.cli.attempt:attempt", "Say what a job would do that is not there yet."),
        CommandEntry(
            "what-if", "pumice.cli.what_if:what_if", "Say what other queues, nodes or another conf would change."
        ),
        CommandEntry("job", "pumice.cli.objects:jobs", "List the jobs of a cluster, or show one."),
        CommandEntry("queue", "pumice.cli.objects:queues", "List the queues of a cluster, or show one."),
        CommandEntry("mcp", "pumice.cli.mcp:mcp", "Answer an agent's questions (Model Context Protocol)."),
    ),
    *section(
        "Pumice itself",
        CommandEntry("bench", "pumice.cli.bench:bench", "Measure the scheduler, also against an earlier commit."),
        CommandEntry("conformance", "pumice.cli.conformance:app", "Compare decisions with recorded cases."),
        CommandEntry("version", "pumice.cli.version:version", "Print the version."),
    ),
)

Pumice.entries = {entry.name: entry for entry in COMMANDS}
app = root()
