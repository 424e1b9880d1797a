"""``pumice extender``: serve policies over HTTP, check a running extender, record its traffic and answer from it."""

from __future__ import annotations

import multiprocessing
import signal
import socket
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import Annotated, Any

import typer

from pumice.cli import render
from pumice.cli.options import ConfOption, JsonOption, Output, OutputOption, as_json, load_conf, registry_with
from pumice.config.problems import nearest
from pumice.errors import InvalidInput
from pumice.extender.server.options import Options
from pumice.extender.server.served import Served
from pumice.extender.settings import Transport
from pumice.extender.tools import cassette as cassettes
from pumice.extender.tools.check import Verdict
from pumice.extender.tools.check import check as check_extender
from pumice.extender.tools.compare import differences
from pumice.extender.tools.proxy import player, recorder
from pumice.framework.registry import PluginInfo, Registry, build

app = typer.Typer(help="Policies over HTTP, and tools for those who write them.", no_args_is_help=True)

HostOption = Annotated[str, typer.Option("--host", help="The address to listen on.")]
PortOption = Annotated[int, typer.Option("--port", help="The port to listen on; 0 takes a free one.")]
CertOption = Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate of the server.")]
KeyOption = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key.")]
ClientCaOption = Annotated[
    Path | None, typer.Option("--client-ca", metavar="FILE", help="Ask callers for a certificate that this CA signed.")
]
CassetteArgument = Annotated[Path, typer.Argument(metavar="CASSETTE", help="A file of recorded exchanges.")]
VerbOption = Annotated[
    list[str] | None, typer.Option("--verb", metavar="VERB=PATH", help="A verb that is asked under another path.")
]


@app.command()
def serve(
    policies: Annotated[
        list[str], typer.Argument(metavar="NAME|FILE…", help="Plugins by name, or files that hold one.")
    ],
    conf: ConfOption = None,
    arg: Annotated[
        list[str] | None, typer.Option("--arg", metavar="KEY=VALUE", help="An argument of the plugins.")
    ] = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8080,
    verb: VerbOption = None,
    dialect: Annotated[str, typer.Option("--dialect", help="The only dialect to understand; else all are.")] = "",
    compat: Annotated[str | None, typer.Option("--compat", help="Decide as another scheduler would: volcano.")] = None,
    tls_cert: CertOption = None,
    tls_key: KeyOption = None,
    client_ca: ClientCaOption = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="Callers must bring this bearer token.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes that answer.")] = 1,
    max_body: Annotated[int, typer.Option("--max-body", min=1, help="MiB of a question, at most.")] = 256,
) -> None:
    """Serve any Plugin as an HTTP extender that Volcano, kube-scheduler or Pumice can call."""
    import uvicorn

    from pumice.extender.server.app import app as make_app

    builders = policy_builders(policies, conf, arg or [])
    options = Options(
        paths=pairs("--verb", verb or []),
        dialect=dialect,
        max_body=max_body * 2**20,
        token_file=token_file,
        compat=compat,
    )
    served = Served(builders, dialect=dialect, compat=compat)
    _say_what_is_missing(served, dialect)
    tls = _tls(tls_cert, tls_key, client_ca)
    settings: dict[str, Any] = {"host": host, "port": port, "log_level": "warning", "access_log": False, **tls}
    if workers == 1:
        render.note(f"serving {', '.join(served.names)} on {'https' if tls else 'http'}://{host}:{port}")
        uvicorn.run(make_app(builders, options), **settings)
        return
    bound = served.needs_one_worker()
    if bound:
        raise InvalidInput(
            f"--workers {workers}: {', '.join(bound)} must be declared STATIC or NODE, so that workers answer alike"
        )
    render.note(f"serving {', '.join(served.names)} on {host}:{port} with {workers} workers")
    with _listening(host, port) as listening:
        _supervise(workers, (policies, conf, arg or [], options, settings, listening))


def _supervise(workers: int, arguments: tuple[Any, ...]) -> None:
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
    arg: list[str],
    options: Options,
    settings: dict[str, Any],
    listening: socket.socket,
) -> None:
    """Answer as one of several workers on a socket that they share."""
    import uvicorn

    from pumice.extender.server.app import app as make_app

    config = uvicorn.Config(make_app(policy_builders(policies, conf, arg), options), **settings)
    uvicorn.Server(config).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    """A socket that says it is TCP: only then does asyncio turn Nagle's algorithm off (40 ms per answer)."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        raise InvalidInput(f"address {host}:{port}: {error.strerror}") from error
    listening.set_inheritable(True)
    return listening


@app.command()
def check(
    url: Annotated[str, typer.Argument(help="Where the extender listens; verbs are appended.")],
    dialect: Annotated[str, typer.Option("--dialect", help="The dialect to ask in.")] = "both",
    verb: VerbOption = None,
    only: Annotated[list[str] | None, typer.Option("--only", metavar="VERB", help="Ask this verb only.")] = None,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds for each answer.")] = 5.0,
    ca_file: Annotated[Path | None, typer.Option("--ca-file", metavar="FILE", help="CA of the extender.")] = None,
    token_file: Annotated[Path | None, typer.Option("--token-file", metavar="FILE", help="Bearer token.")] = None,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Ask a running extender every verb and say how it answers; fails if an answer breaks the contract."""
    transport = Transport(
        url.rstrip("/"),
        timeout=timeout,
        ca_file=str(ca_file) if ca_file else "",
        token_file=str(token_file) if token_file else "",
    )
    verdicts = check_extender(transport, dialect=dialect, paths=pairs("--verb", verb or []), verbs=only or ())
    if as_json(output, json):
        render.data([_verdict_data(verdict) for verdict in verdicts])
    else:
        rows = [(one.verb, one.outcome, one.milliseconds or "", "; ".join(one.notes)) for one in verdicts]
        render.table(["VERB", "VERDICT", "MS", "NOTES"], rows, wrap=["NOTES"])
    if any(verdict.outcome == "failed" for verdict in verdicts) or all(one.outcome == "absent" for one in verdicts):
        raise typer.Exit(1)


@app.command()
def record(
    url: Annotated[str, typer.Argument(help="Where the extender listens.")],
    cassette: CassetteArgument,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8081,
) -> None:
    """Stand between a scheduler and its extender, and add every exchange to a cassette."""
    import uvicorn

    render.note(f"passing http://{host}:{port} on to {url}, recording to {cassette}")
    uvicorn.run(recorder(url, cassette), host=host, port=port, log_level="warning")


@app.command()
def replay(
    cassette: CassetteArgument,
    against: Annotated[
        str | None, typer.Option("--against", metavar="URL", help="Ask this extender, and compare its answers.")
    ] = None,
    loose: Annotated[
        bool, typer.Option("--loose", help="Answer new questions with what their verb was answered.")
    ] = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8081,
    output: OutputOption = Output.TABLE,
    json: JsonOption = False,
) -> None:
    """Answer from a cassette in place of the extender, or ask an extender what the cassette asks."""
    import uvicorn

    exchanges = cassettes.read(cassette)
    if against is None:
        render.note(f"answering {len(exchanges)} exchanges of {cassette} on http://{host}:{port}")
        uvicorn.run(player(exchanges, loose=loose), host=host, port=port, log_level="warning")
        return
    found = differences(exchanges, against)
    if as_json(output, json):
        render.data(
            {
                "asked": len(exchanges),
                "differ": [{"number": d.number, "path": d.path, "then": d.then, "now": d.now} for d in found],
            }
        )
    else:
        render.table(
            ["#", "PATH", "THEN", "NOW"], [(d.number, d.path, d.then, d.now) for d in found], wrap=["THEN", "NOW"]
        )
        render.line(f"{len(exchanges)} questions, {len(found)} answered otherwise")
    if found:
        raise typer.Exit(1)


# -- helpers --------------------------------------------------------------------------------------------------------
def policy_builders(policies: list[str], conf: Path | None, given: list[str]) -> list[Callable[[], Any]]:
    """How to build each policy, with the arguments that the conf and ``--arg`` give it.

    :raises InvalidInput: a plugin or file that does not exist.
    """
    registry = registry_with(None).copy()
    arguments = pairs("--arg", given)
    builders: list[Callable[[], Any]] = []
    for policy in policies:
        info = _find(policy, registry)
        from_conf = _conf_arguments(conf, registry, info.name)
        builders.append(partial(build, info, {**from_conf, **arguments}))
    return builders


def _find(policy: str, registry: Registry) -> PluginInfo:
    if policy.endswith(".py") or "/" in policy:
        path = Path(policy)
        if not path.is_file():
            raise InvalidInput(f"file {policy!r}: does not exist")
        return registry.load_file(path)
    info = registry.get(policy)
    if info is None:
        near = nearest(policy, [*registry.plugins, *registry.aliases])
        hint = f"; did you mean {near!r}?" if near else "; `pumice plugins` lists them"
        raise InvalidInput(f"plugin {policy!r}: there is none of that name{hint}")
    return info


def _conf_arguments(conf: Path | None, registry: Registry, name: str) -> Mapping[str, Any]:
    if conf is None:
        return {}
    loaded = load_conf(conf, registry)
    for tier in loaded.tiers:
        for plugin in tier.plugins:
            if plugin.name == name:
                return plugin.arguments
    return {}


def pairs(option: str, given: list[str]) -> dict[str, str]:
    """``KEY=VALUE`` texts as a table.

    :raises InvalidInput: one without ``=``.
    """
    found = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise InvalidInput(f"{option} {text!r}: must look like key=value")
        found[key.strip()] = value.strip()
    return found


def _say_what_is_missing(served: Served, dialect: str) -> None:
    for name in [dialect] if dialect else ["volcano", "kube"]:
        missing = served.not_carried(name)
        if missing:
            render.warning(f"callers in the {name} dialect do not ask: {', '.join(missing)}")


def _tls(cert: Path | None, key: Path | None, client_ca: Path | None) -> dict[str, Any]:
    if cert is None:
        if key is not None or client_ca is not None:
            raise InvalidInput("--tls-cert: must be given with --tls-key and --client-ca")
        return {}
    found: dict[str, Any] = {"ssl_certfile": str(cert), "ssl_keyfile": str(key or cert)}
    if client_ca is not None:
        found |= {"ssl_ca_certs": str(client_ca), "ssl_cert_reqs": int(ssl.CERT_REQUIRED)}
    return found


def _verdict_data(verdict: Verdict) -> dict[str, Any]:
    return {
        "verb": verdict.verb,
        "verdict": verdict.outcome,
        "milliseconds": verdict.milliseconds,
        "notes": verdict.notes,
    }
