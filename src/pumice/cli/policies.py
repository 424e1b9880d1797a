"""Serving policies: how they are built, and the processes that answer for them."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import socket
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pumice.cli.options import WrongUsage, load_conf, registry_with
from pumice.config.problems import nearest
from pumice.errors import InvalidInput
from pumice.framework.compat import PUMICE
from pumice.framework.points import FLAGS
from pumice.framework.registry import PluginInfo, Registry, build
from pumice.framework.session.questions import PluginEntry

if TYPE_CHECKING:
    from pumice.extender.server import Options
    from pumice.kube.credentials import Credentials


def supervise(workers: int, arguments: tuple[Any, ...]) -> None:
    """Run workers until one of them ends or this process is told to; then all end."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=work, args=arguments, daemon=True) for _ in range(workers)]
    for process in processes:
        process.start()

    def stop(*_: object) -> None:
        for process in processes:
            process.terminate()  # uvicorn finishes what it has begun

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    wait([process.sentinel for process in processes])
    stop()
    for process in processes:
        process.join()


def work(
    policies: list[str],
    conf: Path | None,
    options: Options,
    settings: dict[str, Any],
    listening: socket.socket,
    whom: Credentials | None,
) -> None:
    """Answer as one of several workers on a socket that they share."""
    answer(policy_builders(policies, conf)[0], options, settings, whom, [listening])


def answer(
    builders: list[Callable[[], Any]],
    options: Options,
    settings: dict[str, Any],
    whom: Credentials | None,
    sockets: list[socket.socket],
) -> None:
    """Answer until told to stop; follow the cluster that *whom* leads to."""
    from pumice.extender.server import app as make_app
    from pumice.serving import bounded

    cluster = None
    if whom is not None:
        from pumice.kube.backend import FollowedCluster

        cluster = FollowedCluster(whom)
        cluster.start()
    try:
        run_until_told(
            make_app(builders, options, cluster),
            bounded(options.max_connections, options.body_timeout, **settings),
            sockets,
        )
    finally:
        if cluster is not None:
            cluster.stop()


def run_until_told(application: Any, settings: dict[str, Any], sockets: list[socket.socket]) -> None:
    """Serve an ASGI application on sockets that listen already, until told to stop."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(application, **settings))
    gc.collect()
    gc.freeze()  # what is loaded by now stays: a collection in the middle of many small questions need not look at it
    gc.set_threshold(20_000, 50, 100)
    try:
        server.run(sockets=sockets)
    except KeyboardInterrupt:
        return
    if not server.started:
        raise typer.Exit(1)


def url_of(listening: socket.socket, *, tls: bool = False) -> str:
    """The address of a socket, as callers write it."""
    host, port = listening.getsockname()[:2]
    return f"{'https' if tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def policy_builders(policies: list[str], conf: Path | None) -> tuple[list[Callable[[], Any]], str | None]:
    """Return how to build each policy, with its arguments in the conf, and the conf's ``compat``; each has been tried.

    :raises InvalidInput: a plugin or file that does not exist, or arguments that are refused.
    :raises PluginLoadError: a policy that cannot work, whatever it is asked about.
    """
    from pumice.scheduler.trying import try_plugins

    registry = registry_with(None).copy()
    found = [_find(policy, registry) for policy in policies]
    loaded = load_conf(conf, registry) if conf is not None else None
    listed = [one.plugin for one in loaded.listed()] if loaded is not None else []
    builders: list[Callable[[], Any]] = []
    for info in found:
        arguments = next((plugin.arguments for plugin in listed if plugin.name == info.name), {})
        builders.append(partial(build, info, arguments))
        entry = PluginEntry(info.name, partial(_given, builders[-1]()), lambda flag: FLAGS.get(flag, True))
        for mistake in try_plugins([[entry]], (), PUMICE).errors:
            raise mistake
    return builders, loaded.compat if loaded is not None else None


def _given(made: Any) -> Any:
    return made


def _find(policy: str, registry: Registry) -> PluginInfo:
    if policy.endswith(".py") or "/" in policy:
        path = Path(policy)
        if not path.is_file():
            raise InvalidInput(f"file {policy!r}: does not exist")
        return registry.load_file(path)
    info = registry.get(policy)
    if info is None:
        near = nearest(policy, [*registry.plugins, *registry.aliases])
        hint = f"; did you mean {near!r}?" if near else "; `pumice plugin list` lists them"
        raise InvalidInput(f"no plugin named {policy!r}{hint}")
    return info


def pairs(option: str, given: list[str]) -> dict[str, str]:
    """``KEY=VALUE`` texts as a table.

    :raises WrongUsage: one without ``=``.
    """
    found = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise WrongUsage(f"{option} {text!r}: must look like key=value")
        found[key.strip()] = value.strip()
    return found
