"""The ``pumice`` command with all its subcommands.

A start must be quick, for people at a prompt and for shells that complete a word. So a command is a line of this table
and its module is imported when it is called; and such a module imports, outside its functions, only what parsing needs.
"""

from __future__ import annotations

from typing import Final

from pumice.cli.lazy import Entry
from pumice.cli.root import Pumice, root

COMMANDS: Final = (
    Entry("version", "pumice.cli.version:version", "Print the version."),
    Entry("run", "pumice.cli.run:run", "Schedule the pods of a cluster, until stopped.", cls="RunCommand"),
    Entry(
        "controllers",
        "pumice.cli.controllers:controllers",
        "Look after vcjobs, PodGroups and queues without Volcano.",
        cls="ControllersCommand",
    ),
    Entry("simulate", "pumice.cli.simulate:simulate", "Run a scenario under each of its configurations."),
    Entry(
        "compare", "pumice.cli.simulate:compare_confs", "Run one scenario under several configurations, side by side."
    ),
    Entry("sweep", "pumice.cli.sweep:sweep", "Run a scenario for every value of an argument."),
    Entry("tune", "pumice.cli.tune:tune", "Search a conf's arguments for what holds on days held out."),
    Entry("plan", "pumice.cli.plan:plan", "Say how many nodes a goal needs, and what failures would do."),
    Entry("report", "pumice.cli.report:report", "Make the page of runs that were recorded."),
    Entry("cycle", "pumice.cli.cycle:cycle", "Run one scheduling cycle over manifests or a saved cycle."),
    Entry("why", "pumice.cli.why:why", "Say what a job waits for, on one screen."),
    Entry("try", "pumice.cli.attempt:attempt", "Say what a job would do that is not there yet."),
    Entry("explain", "pumice.cli.cycle:explain", "Say why a job waits, in full: every reason, every node."),
    Entry("replay", "pumice.cli.cycle:replay", "Run a saved cycle again, also under another conf."),
    Entry("job", "pumice.cli.objects:jobs", "List the jobs of a cluster, or show one."),
    Entry("queue", "pumice.cli.objects:queues", "List the queues of a cluster, or show one."),
    Entry("conf", "pumice.cli.conf:app", "Check, explain and lint a scheduler conf."),
    Entry("points", "pumice.cli.points:points", "List the extension points, or show one."),
    Entry("plugins", "pumice.cli.plugins:plugins", "List the plugins and the arguments they read, or show one."),
    Entry("plugin", "pumice.cli.plugins:app", "Make a new plugin with its test and a scenario to try it on."),
    Entry("conformance", "pumice.cli.conformance:app", "Compare decisions with recorded cases."),
    Entry("extender", "pumice.cli.extender:app", "Serve policies over HTTP, check and record extenders."),
    Entry("bench", "pumice.cli.bench:bench", "Measure the scheduler, also against an earlier commit."),
)

Pumice.entries = {entry.name: entry for entry in COMMANDS}
app = root()
