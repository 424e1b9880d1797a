"""``pumice mcp``: answers for agents, over the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pumice.cli.options import AnswersPlace, NamespaceOption
from pumice.cli.simulation import DataOption


def mcp(
    *,
    scenario: Annotated[
        list[Path] | None,
        typer.Option("--scenario", metavar="FILE", help="Compare confs and make plans on it (repeatable)."),
    ] = None,
    data: DataOption = None,
    place: AnswersPlace,
    namespace: NamespaceOption = None,
) -> None:
    """Answer an agent's questions over standard input and output (Model Context Protocol). Only reads.

    With PATH about manifests or a saved cycle; without, the running scheduler is asked with your own token.

    Examples:
        pumice mcp
        pumice mcp examples/demo --scenario examples/scenarios/guide.yaml
    """
    import asyncio

    from pumice.cli.commands import needs
    from pumice.cli.options import registry_with, take_back
    from pumice.cli.studies import checked, open_scenario
    from pumice.history.stories import read_history

    needs("mcp")
    from pumice.mcp.knowledge import Knowledge, LocalKnowledge, SchedulerKnowledge
    from pumice.mcp.server import serve_stdio
    from pumice.mcp.tools import Tools

    told = None if place.past is None else read_history(place.past)
    played = {path.stem: checked(open_scenario(path, place.plugins_dir, data, None)) for path in scenario or ()}
    knowledge: Knowledge
    if place.paths:
        knowledge = LocalKnowledge(place.answers())
    else:
        knowledge = SchedulerKnowledge(place.client(own=("plugins_dir", "past")), place.namespace("", namespace))
    tools = Tools(knowledge, registry_with(place.plugins_dir), told, played)
    take_back()  # the server keeps what plugins print off the wire
    asyncio.run(serve_stdio(tools))
