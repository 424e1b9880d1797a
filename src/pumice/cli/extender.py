"""``pumice extender``: serve policies over HTTP, check a running extender, record its traffic and answer from it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pumice.cli import render
from pumice.cli.commands import Commands
from pumice.cli.options import Output, OutputOption
from pumice.cli.usage import WrongUsage, web_address
from pumice.errors import InvalidInput
from pumice.words import counted

if TYPE_CHECKING:
    from pumice.extender.answering.policies import PolicyServer
    from pumice.extender.check import VerbCheck

app = Commands(help="Policies over HTTP, and tools for those who write them.", no_args_is_help=True)

HostOption = Annotated[str, typer.Option("--host", metavar="HOST", help="The address to listen on.")]
PortOption = Annotated[
    int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="The port to listen on; 0 takes a free one.")
]
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
    conf: Annotated[
        Path | None, typer.Option("--conf", metavar="CONF", help="A scheduler conf with arguments of the plugins.")
    ] = None,
    arg: Annotated[
        list[str] | None, typer.Option("--arg", metavar="KEY=VALUE", help="An argument of the plugins.")
    ] = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8080,
    verb: VerbOption = None,
    dialect: Annotated[
        str, typer.Option("--dialect", metavar="NAME", help="The only dialect to understand; else all are.")
    ] = "",
    compat: Annotated[
        str | None, typer.Option("--compat", metavar="PROFILE", help="Decide as another scheduler would: volcano.")
    ] = None,
    tls_cert: CertOption = None,
    tls_key: KeyOption = None,
    client_ca: ClientCaOption = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="Callers must bring this bearer token.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1, help="Processes that answer.")] = 1,
    max_body: Annotated[
        int, typer.Option("--max-body", metavar="MIB", min=1, help="MiB of a question, at most.")
    ] = 256,
    max_in_flight: Annotated[
        int,
        typer.Option("--max-in-flight", metavar="MIB", min=1, help="MiB of all questions at one time; beyond it: 503."),
    ] = 512,
    max_connections: Annotated[
        int, typer.Option("--max-connections", metavar="N", min=1, help="Connections at one time; others are closed.")
    ] = 1024,
    body_timeout: Annotated[
        float,
        typer.Option("--body-timeout", metavar="SECONDS", min=0.001, help="Seconds for a question to come whole."),
    ] = 30.0,
    follow: Annotated[
        bool, typer.Option("--follow", help="Follow a cluster: questions need only name nodes, and bind binds.")
    ] = False,
    kubeconfig: Annotated[
        str | None, typer.Option("--kubeconfig", metavar="FILE", help="The cluster to follow; else the pod's own.")
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", metavar="NAME", help="The kubeconfig's context; else its current one.")
    ] = None,
) -> None:
    """Serve plugins as an HTTP extender. Volcano, kube-scheduler or Pumice can call it.

    Examples:
        pumice extender serve plugins/tidy_gpus.py
        pumice extender serve binpack --arg binpack.weight=5 --port 8090
    """
    from pumice.cli.policies import address, answer, listening_on, pairs, policy_builders, supervise
    from pumice.extender.answering.intake import Options
    from pumice.extender.answering.policies import PolicyServer

    import_module("pumice.extender.server")  # where the extra is missing that is said before anything else
    if dialect:
        _known_dialect(dialect)
    tls = _tls(tls_cert, tls_key, client_ca)
    builders = policy_builders(policies, conf, arg or [])
    options = Options(
        paths=pairs("--verb", verb or []),
        dialect=dialect,
        max_body=max_body * 2**20,
        max_in_flight=max_in_flight * 2**20,
        max_connections=max_connections,
        body_timeout=body_timeout,
        token_file=token_file,
        compat=compat,
    )
    served = PolicyServer(builders, dialect=dialect, compat=compat)
    _say_what_is_missing(served, dialect)
    if dialect in ("", "volcano"):
        from pumice.extender.check import advice

        for line in advice(served):
            render.note(line)
    settings = {"host": host, "port": port, "log_level": "warning", "access_log": False, **tls}
    whom = None
    if follow or kubeconfig or context:
        from pumice.kube.credentials import Credentials

        whom = Credentials(kubeconfig, context)
    bound = served.needs_one_worker() if workers > 1 else []
    if bound:
        raise InvalidInput(
            f"--workers {workers}: {', '.join(bound)} must be declared STATIC or NODE, so that workers answer alike"
        )
    with listening_on(host, port) as listening:
        many = f" with {workers} workers" if workers > 1 else ""
        render.note(f"serving {', '.join(served.names)} on {address(listening, tls=bool(tls))}{many}")
        if workers == 1:
            answer(builders, options, settings, whom, [listening])
        else:
            supervise(workers, (policies, conf, arg or [], options, settings, listening, whom))


@app.command()
def check(
    url: Annotated[
        str,
        typer.Argument(metavar="URL", help="Where the extender listens; verbs are appended.", callback=web_address),
    ],
    dialect: Annotated[str, typer.Option("--dialect", metavar="NAME", help="The dialect to ask in.")] = "both",
    verb: VerbOption = None,
    only: Annotated[list[str] | None, typer.Option("--only", metavar="VERB", help="Ask this verb only.")] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="Seconds for each answer.")
    ] = 5.0,
    ca_file: Annotated[Path | None, typer.Option("--ca-file", metavar="FILE", help="CA of the extender.")] = None,
    token_file: Annotated[Path | None, typer.Option("--token-file", metavar="FILE", help="Bearer token.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Ask a running extender every verb. Shows how it answers; fails if an answer breaks the contract.

    Examples:
        pumice extender check http://127.0.0.1:8080
        pumice extender check http://127.0.0.1:8080 --only predicate -o json
    """
    from pumice.cli.policies import pairs
    from pumice.extender.asking.settings import Transport
    from pumice.extender.check import QUESTIONS
    from pumice.extender.check import check as check_extender

    for name in only or ():
        if name not in QUESTIONS:
            raise WrongUsage(f"--only {name!r}: must be one of {', '.join(QUESTIONS)}")
    _known_dialect(dialect)
    transport = Transport(
        url.rstrip("/"),
        timeout=timeout,
        ca_file=str(ca_file) if ca_file else "",
        token_file=str(token_file) if token_file else "",
    )
    verdicts = check_extender(transport, dialect=dialect, paths=pairs("--verb", verb or []), verbs=only or ())
    if output is Output.JSON:
        render.data([_verdict_data(verdict) for verdict in verdicts])
    else:
        _show_verdicts(verdicts)
    if any(verdict.outcome == "failed" for verdict in verdicts) or all(one.outcome == "absent" for one in verdicts):
        raise typer.Exit(1)


@app.command()
def record(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the extender listens.", callback=web_address)],
    cassette: CassetteArgument,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8081,
) -> None:
    """Record the exchanges of a scheduler and its extender. Stands between them.

    Examples:
        pumice extender record http://127.0.0.1:8080 tape.jsonl
        pumice extender record http://127.0.0.1:8080 tape.jsonl --port 8082
    """
    from pumice.cli.policies import address, listening_on, run_until_told
    from pumice.extender.cassette import recorder

    with listening_on(host, port) as listening:
        render.note(f"passing {address(listening)} on to {url}, recording to {cassette}")
        run_until_told(recorder(url, cassette), {"log_level": "warning"}, [listening])


@app.command()
def replay(
    cassette: CassetteArgument,
    against: Annotated[
        str | None,
        typer.Option(
            "--against", metavar="URL", help="Ask this extender, and compare its answers.", callback=web_address
        ),
    ] = None,
    loose: Annotated[
        bool, typer.Option("--loose", help="Answer new questions with what their verb was answered.")
    ] = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8081,
    output: OutputOption = Output.TABLE,
) -> None:
    """Answer from a cassette in place of the extender. Or ask an extender what the cassette asks.

    Examples:
        pumice extender replay tape.jsonl --port 8082
        pumice extender replay tape.jsonl --against http://127.0.0.1:8080
    """
    from pumice.extender import cassette as cassettes

    exchanges = cassettes.read(cassette)
    if against is None:
        from pumice.cli.policies import address, listening_on, run_until_told

        with listening_on(host, port) as listening:
            render.note(f"answering {counted(len(exchanges), 'exchange')} of {cassette} on {address(listening)}")
            run_until_told(cassettes.player(exchanges, loose=loose), {"log_level": "warning"}, [listening])
        return
    found = cassettes.differences(exchanges, against)
    if output is Output.JSON:
        render.data(
            {
                "asked": len(exchanges),
                "differ": [difference._asdict() for difference in found],
            }
        )
    else:
        render.table(
            ["#", "PATH", "THEN", "NOW"],
            found,
            wrap=["THEN", "NOW"],
            names=["PATH"],
        )
        render.line(f"{counted(len(exchanges), 'question')}, {len(found)} answered otherwise")
    if found:
        raise typer.Exit(1)


# -- helpers --------------------------------------------------------------------------------------------------------
def _say_what_is_missing(served: PolicyServer, dialect: str) -> None:
    for name in [dialect] if dialect else ["volcano", "kube"]:
        missing = served.not_carried(name)
        if missing:
            render.warning(f"callers in the {name} dialect do not ask: {', '.join(missing)}")


def _known_dialect(name: str) -> None:
    from pumice.extender.dialects import DIALECTS

    if name not in DIALECTS:
        raise WrongUsage(f"--dialect {name!r}: must be one of {', '.join(DIALECTS)}")


def _tls(cert: Path | None, key: Path | None, client_ca: Path | None) -> dict[str, Any]:
    if cert is None:
        if key is not None or client_ca is not None:
            raise WrongUsage("--tls-cert: must be given with --tls-key and --client-ca")
        return {}
    found: dict[str, Any] = {"ssl_certfile": str(cert), "ssl_keyfile": str(key or cert)}
    if client_ca is not None:
        import ssl

        found |= {"ssl_ca_certs": str(client_ca), "ssl_cert_reqs": int(ssl.CERT_REQUIRED)}
    return found


def _show_verdicts(verdicts: list[VerbCheck]) -> None:
    unreached = [
        one for one in verdicts if one.outcome == "failed" and any("cannot be reached" in n for n in one.notes)
    ]
    if len(unreached) > 1:  # one line says as much as one for every verb
        render.line(f"{counted(len(unreached), 'verb')} failed: {unreached[0].notes[0]}", style="red")
        verdicts = [one for one in verdicts if one not in unreached]
    if verdicts:
        rows = [(one.verb, one.outcome, one.milliseconds or "", "; ".join(one.notes)) for one in verdicts]
        render.table(["VERB", "VERDICT", "MS", "NOTES"], rows, wrap=["NOTES"])


def _verdict_data(verdict: VerbCheck) -> dict[str, Any]:
    return {
        "verb": verdict.verb,
        "verdict": verdict.outcome,
        "milliseconds": verdict.milliseconds,
        "notes": verdict.notes,
    }
