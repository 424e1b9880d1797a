"""``pumice mcp``: answers for agents, over the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pumice.cli.cluster_options import Context, Kubeconfig
from pumice.cli.live import AuthorityOption, MaybePaths, NamespaceOption, ServerOption
from pumice.cli.options import CompatOption, ConfOption, PluginsDirOption
from pumice.cli.play_options import DataOption


def mcp(
    paths: MaybePaths = None,
    history: Annotated[
        Path | None,
        typer.Option(
            "--history", metavar="DIR", help="What `pumice run --history` wrote: for evictions and run times."
        ),
    ] = None,
    scenario: Annotated[
        list[Path] | None,
        typer.Option("--scenario", metavar="FILE", help="What confs are compared and plans are made on (repeatable)."),
    ] = None,
    data: DataOption = None,
    conf: ConfOption = None,
    plugins_dir: PluginsDirOption = None,
    compat: CompatOption = None,
    namespace: NamespaceOption = None,
    server: ServerOption = None,
    server_ca: AuthorityOption = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Answer an agent's questions over standard input and output (Model Context Protocol). Only reads.

    With PATH about manifests or a saved cycle; without, the running scheduler is asked with your own token.
    """
    import asyncio

    from pumice.cli.aside import take_back
    from pumice.cli.extras import needs
    from pumice.cli.live import asker_of, namespace_of, only_with_paths
    from pumice.cli.opening import open_scenario
    from pumice.cli.options import registry_with
    from pumice.cli.why import desk_of
    from pumice.history.stories import read_history

    needs("mcp")
    from pumice.mcp.knowledge import DeskKnowledge, DoorKnowledge, Knowledge
    from pumice.mcp.stdio import serve_stdio
    from pumice.mcp.tools import Tools

    told = None if history is None else read_history(history)
    opened = [(path.stem, open_scenario(path, plugins_dir, data, None)) for path in scenario or ()]
    worlds = {name: found.world(found.scenario.configurations) for name, found in opened}
    knowledge: Knowledge
    if paths:
        knowledge = DeskKnowledge(desk_of(paths, conf, plugins_dir, compat, history))
    else:
        only_with_paths(conf=conf, compat=compat)
        asker = asker_of(server, server_ca, kubeconfig, context)
        knowledge = DoorKnowledge(asker, namespace_of("", namespace, kubeconfig, context))
    tools = Tools(knowledge, registry_with(plugins_dir), told, worlds)
    take_back()  # the server keeps what plugins print off the wire
    asyncio.run(serve_stdio(tools))
