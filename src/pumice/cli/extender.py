"""``pumice extender``: serve policies over HTTP, check a running extender, record its traffic and answer from it."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pumice.cli import render
from pumice.cli.commands import Commands
from pumice.cli.options import Output, OutputOption, WrongUsage, host_and_port, web_address
from pumice.errors import InvalidInput
from pumice.sockets import listening
from pumice.words import counted

if TYPE_CHECKING:
    from pumice.extender.answering.policies import PolicyServer
    from pumice.extender.check import VerbCheck

app = Commands(help="Policies over HTTP, and tools for those who write them.", no_args_is_help=True)

AddressOption = Annotated[
    str, typer.Option("--address", metavar="HOST:PORT", callback=host_and_port, help="Where it listens.")
]
CertOption = Annotated[Path | None, typer.Option("--tls-cert-file", metavar="FILE", help="Certificate of the server.")]
KeyOption = Annotated[Path | None, typer.Option("--tls-private-key-file", metavar="FILE", help="Its key.")]
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
    address: AddressOption = "127.0.0.1:8080",
    verb: VerbOption = None,
    dialect: Annotated[
        str, typer.Option("--dialect", metavar="NAME", help="The only dialect to understand; else all are.")
    ] = "",
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
    follow: Annotated[
        bool, typer.Option("--follow", help="Follow a cluster: questions need only name nodes, and bind binds.")
    ] = False,
    kubeconfig: Annotated[
        str | None, typer.Option("--kubeconfig", metavar="FILE", help="The cluster to follow; else the pod's own.")
    ] = None,
) -> None:
    """Serve plugins as an HTTP extender. Volcano, kube-scheduler or Pumice can call it.

    Examples:
        pumice extender serve plugins/tidy_gpus.py
        pumice extender serve binpack --address 127.0.0.1:8090
    """
    from pumice.cli.policies import answer, pairs, policy_builders, supervise, url_of
    from pumice.extender.answering.policies import PolicyServer
    from pumice.extender.server import Options

    import_module("pumice.extender.server")  # where the extra is missing that is said before anything else
    if dialect:
        _known_dialect(dialect)
    tls = _tls(tls_cert, tls_key, client_ca)
    builders, compat = policy_builders(policies, conf)
    options = Options(
        paths=pairs("--verb", verb or []),
        dialect=dialect,
        max_body=max_body * 2**20,
        max_in_flight=max(2 * max_body, 512) * 2**20,
        token_file=token_file,
        compat=compat,
    )
    served = PolicyServer(builders, dialect=dialect, compat=compat)
    _say_what_is_missing(served, dialect)
    if dialect in ("", "volcano"):
        from pumice.extender.check import advice

        for line in advice(served):
            render.note(line)
    settings = {"log_level": "warning", "access_log": False, **tls}
    whom = None
    if follow or kubeconfig:
        from pumice.kube.credentials import Credentials

        whom = Credentials(kubeconfig)
    bound = served.needs_one_worker() if workers > 1 else []
    if bound:
        raise InvalidInput(
            f"--workers {workers}: {', '.join(bound)} must be declared STATIC or NODE, so that workers answer alike"
        )
    with listening(address) as opened:
        opened.set_inheritable(True)
        many = f" with {workers} workers" if workers > 1 else ""
        render.note(f"serving {', '.join(served.names)} on {url_of(opened, tls=bool(tls))}{many}")
        if workers == 1:
            answer(builders, options, settings, whom, [opened])
        else:
            supervise(workers, (policies, conf, options, settings, opened, whom))


@app.command()
def check(
    url: Annotated[
        str,
        typer.Argument(metavar="URL", help="The extender's address; verbs are appended.", callback=web_address),
    ],
    dialect: Annotated[str, typer.Option("--dialect", metavar="NAME", help="The dialect to ask in.")] = "documented",
    verb: VerbOption = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="Seconds for each answer.")
    ] = 5.0,
    token_file: Annotated[Path | None, typer.Option("--token-file", metavar="FILE", help="Bearer token.")] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Ask a running extender every verb. Shows how it answers; fails if an answer breaks the contract.

    Examples:
        pumice extender check http://127.0.0.1:8080
        pumice extender check http://127.0.0.1:8080 --dialect kube -o json
    """
    from pumice.cli.policies import pairs
    from pumice.extender.asking.settings import Transport
    from pumice.extender.check import check as check_extender

    _known_dialect(dialect)
    transport = Transport(
        url.rstrip("/"),
        timeout=timeout,
        ca_file=os.environ.get("SSL_CERT_FILE", ""),
        token_file=str(token_file) if token_file else "",
    )
    verdicts = check_extender(transport, dialect=dialect, paths=pairs("--verb", verb or []))
    if output is Output.JSON:
        render.data([_verdict_data(verdict) for verdict in verdicts])
    else:
        _show_verdicts(verdicts)
    if any(verdict.outcome == "failed" for verdict in verdicts) or all(one.outcome == "absent" for one in verdicts):
        raise typer.Exit(1)


@app.command()
def record(
    url: Annotated[str, typer.Argument(metavar="URL", help="The extender's address.", callback=web_address)],
    cassette: CassetteArgument,
    address: AddressOption = "127.0.0.1:8081",
) -> None:
    """Record the exchanges of a scheduler and its extender. Stands between them.

    Examples:
        pumice extender record http://127.0.0.1:8080 tape.jsonl
        pumice extender record http://127.0.0.1:8080 tape.jsonl --address :8082
    """
    from pumice.cli.policies import run_until_told, url_of
    from pumice.extender.cassette import recorder

    with listening(address) as opened:
        render.note(f"passing {url_of(opened)} on to {url}, recording to {cassette}")
        run_until_told(recorder(url, cassette), {"log_level": "warning"}, [opened])


@app.command()
def replay(
    cassette: CassetteArgument,
    against: Annotated[
        str | None,
        typer.Option(
            "--against", metavar="URL", help="Ask this extender, and compare its answers.", callback=web_address
        ),
    ] = None,
    address: AddressOption = "127.0.0.1:8081",
    output: OutputOption = Output.TABLE,
) -> None:
    """Answer from a cassette in place of the extender. Or ask an extender what the cassette asks.

    Examples:
        pumice extender replay tape.jsonl --address :8082
        pumice extender replay tape.jsonl --against http://127.0.0.1:8080
    """
    from pumice.extender import cassette as cassettes

    exchanges = cassettes.read(cassette)
    if against is None:
        from pumice.cli.policies import run_until_told, url_of

        with listening(address) as opened:
            render.note(f"answering {counted(len(exchanges), 'exchange')} of {cassette} on {url_of(opened)}")
            run_until_told(cassettes.player(exchanges), {"log_level": "warning"}, [opened])
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
            raise WrongUsage("--tls-cert-file: must be given with --tls-private-key-file and --client-ca")
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
