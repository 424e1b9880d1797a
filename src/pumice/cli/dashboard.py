"""``pumice dashboard``: the pages over a cluster, a saved cycle, manifests or a simulation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pumice.cli import render
from pumice.cli.options import (
    WATCHED,
    ConfOption,
    Context,
    Kubeconfig,
    MaybePaths,
    PluginsDirOption,
    WatchedNames,
    WrongUsage,
    host_and_port,
    load_conf,
    registry_with,
)
from pumice.sockets import is_loopback, listening

if TYPE_CHECKING:
    from pumice.dashboard.local import StateHolder


def dashboard(
    paths: MaybePaths = None,
    scenario: Annotated[
        Path | None, typer.Option("--scenario", metavar="FILE", help="Play this scenario while you look.")
    ] = None,
    running: Annotated[
        str | None, typer.Option("--running", metavar="NAME", help="Its configuration; else the first.")
    ] = None,
    speed: Annotated[
        float, typer.Option("--speed", metavar="FACTOR", min=0.001, help="How many simulated seconds pass in one.")
    ] = 60.0,
    conf: ConfOption = None,
    plugins_dir: PluginsDirOption = None,
    scheduler_name: WatchedNames = None,
    address: Annotated[
        str, typer.Option("--address", metavar="HOST:PORT", callback=host_and_port, help="The address of the pages.")
    ] = "127.0.0.1:8787",
    cert: Annotated[
        str | None, typer.Option("--tls-cert-file", metavar="FILE", help="The certificate of the pages.")
    ] = None,
    key: Annotated[str | None, typer.Option("--tls-private-key-file", metavar="FILE", help="Its key.")] = None,
    login: Annotated[
        bool, typer.Option("--login/--no-login", help="Ask for a token of the cluster; without, only for this machine.")
    ] = True,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Serve pages over a cluster, a saved cycle, manifests or a simulation. Only reads.

    Beside the scheduler itself `pumice run` serves them.

    Examples:
        pumice dashboard
        pumice dashboard examples/demo --conf examples/demo/scheduler.conf
    """
    import asyncio
    import signal

    from pumice.dashboard.access import OpenAccess, TokenAccess
    from pumice.dashboard.server import Dashboard
    from pumice.kube.access import Reviews
    from pumice.kube.client import KubeClient
    from pumice.kube.credentials import Credentials
    from pumice.kube.serving import serve, tls_of

    if paths and scenario is not None:
        raise WrongUsage("PATH and --scenario: only one of them may be given")
    if bool(cert) != bool(key):
        raise WrongUsage("--tls-cert-file and --tls-private-key-file: both must be given, or none")
    cluster = not paths and scenario is None
    if not is_loopback(address) and not (cluster and login and cert):
        raise WrongUsage(
            f"--address {address!r}: other machines are served a cluster only, with login and --tls-cert-file; "
            "use 127.0.0.1"
        )
    tls = tls_of(cert, key)
    holder, title = _holder(paths, scenario, running, speed, conf, plugins_dir, scheduler_name, (kubeconfig, context))
    with listening(address) as opened:
        holder.start()

        async def serving() -> None:
            if cluster and login:
                async with KubeClient(Credentials(kubeconfig, context), connections=16) as client:
                    pages = Dashboard(holder.ask, holder.history, TokenAccess(Reviews(client)), title=title)
                    await serve(opened, pages.routes(), tls)
            else:
                hosts = (address.rpartition(":")[0],)
                pages = Dashboard(holder.ask, holder.history, OpenAccess(), title=title, hosts=hosts)
                await serve(opened, pages.routes(), tls)

        render.note(f"The pages are at {'https' if tls else 'http'}://{address}/")
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            asyncio.run(serving())
        except KeyboardInterrupt:
            pass
        finally:
            holder.stop()


def _holder(
    paths: list[Path] | None,
    scenario: Path | None,
    running: str | None,
    speed: float,
    conf: Path | None,
    plugins_dir: Path | None,
    names: list[str] | None,
    cluster: tuple[str | None, str | None],
) -> tuple[StateHolder, str]:
    from pumice.dashboard.local import ClusterHolder, SimulationHolder, StillHolder
    from pumice.scheduler.assembly import assemble, catalogue_of

    if paths:
        from pumice.cli.options import StatusPlace

        return StillHolder(StatusPlace(conf, plugins_dir).answers_of(paths)), paths[0].name
    if scenario is not None:
        from pumice.sim.scenario import plugin_directory, read_scenario

        registry = registry_with(plugins_dir or plugin_directory(scenario))
        read = read_scenario(scenario, catalogue_of(registry))
        name = running or next(iter(read.configurations))
        if name not in read.configurations:
            raise WrongUsage(f"--running {name!r}: is not one of {', '.join(read.configurations)}")
        return SimulationHolder(read, name, assemble(read.configurations[name], registry), speed), read.name
    from pumice.kube.credentials import Credentials
    from pumice.kube.watching import Watching
    from pumice.state.cluster import ClusterState

    registry = registry_with(plugins_dir)
    state = ClusterState(scheduler_names=names or WATCHED)
    assembly = assemble(load_conf(conf, registry), registry)
    return ClusterHolder(Watching(Credentials(*cluster), dialect=assembly.conf.dialect), state, assembly), "cluster"
