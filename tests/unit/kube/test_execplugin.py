"""Programs that print credentials: what they are told, what they may print, and that nothing of theirs is left."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from scripted_api import ScriptedApi, serving, write_kubeconfig

from pumice.kube.client import KubeClient
from pumice.kube.credentials import ClusterEntry, Credentials, ExecPlugin, Extension, Printed, Variable, run_exec_plugin
from pumice.kube.errors import NoCredentials

V1 = "client.authentication.k8s.io/v1"
CERTS = Path(__file__).parents[2] / "extender" / "certs"


def plugin(code: str, **settings: Any) -> ExecPlugin:
    """A plugin that runs Python code."""
    return ExecPlugin(**{"command": sys.executable, "args": ["-c", code], "api_version": V1, **settings})


def prints(status: dict[str, str] | None, kind: str = "ExecCredential", version: str = V1) -> str:
    return f"print({json.dumps(json.dumps({'apiVersion': version, 'kind': kind, 'status': status}))})"


def printed(made: ExecPlugin, cluster: ClusterEntry | None = None, timeout: float = 30.0) -> Printed:
    return asyncio.run(run_exec_plugin(made, cluster or ClusterEntry(server="https://x"), timeout))


@pytest.mark.parametrize("version", [V1, "client.authentication.k8s.io/v1beta1"])
def test_a_token_is_taken(version: str) -> None:
    status = {"token": "t1", "expirationTimestamp": "2030-01-01T00:00:00Z"}
    assert printed(plugin(prints(status, version=version), api_version=version)) == Printed("t1")


def test_it_is_told_of_the_cluster_where_it_asks_for_that(tmp_path: Path) -> None:
    out = tmp_path / "told"
    code = f"import os; open({str(out)!r}, 'w').write(os.environ['KUBERNETES_EXEC_INFO'] + os.environ['PLACE']); "
    cluster = ClusterEntry(
        server="https://x",
        certificate_authority_data="aGVsbG8=",
        extensions=[Extension(f"{V1.partition('/')[0]}/exec", {"audience": "us"})],
    )
    for asks in (False, True):
        printed(
            plugin(code + prints({"token": "t"}), provide_cluster_info=asks, env=[Variable("PLACE", " here")]), cluster
        )
        told, _, place = out.read_text().rpartition(" ")
        assert place == "here"
        request = json.loads(told)
        assert (request["apiVersion"], request["kind"]) == (V1, "ExecCredential")
        assert request["spec"]["interactive"] is False
        expected = {"server": "https://x", "certificate-authority-data": "aGVsbG8=", "config": {"audience": "us"}}
        assert request["spec"].get("cluster") == (expected if asks else None)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (plugin(prints({"token": "t"}), api_version="client.authentication.k8s.io/v1alpha1"), "apiVersion .* must be"),
        (plugin("", command="/does/not/exist"), "exec plugin '/does/not/exist': No such file or directory$"),
        (
            plugin("", command="no-such-plugin-here", install_hint="apt install\nit"),
            "'no-such-plugin-here': No such file or directory; apt install it$",
        ),
        (plugin("raise SystemExit(3)"), "ended with exit code 3"),
        (plugin("print('hello')"), "printed no ExecCredential"),
        (plugin(prints({"token": "t"}, kind="Pod")), "must print an ExecCredential of .*/v1, got Pod"),
        (plugin(prints({"token": "t"}, version="v1")), "got ExecCredential of v1"),
        (plugin(prints(None)), "printed neither a token nor a certificate"),
        (plugin(prints({"clientKeyData": "k"})), "must print a certificate and its key together"),
        (plugin(prints({"token": "t"}), interactive_mode="Always"), "wants a terminal to ask on"),
    ],
)
def test_what_goes_wrong_is_said_with_the_plugins_name(
    made: ExecPlugin, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(NoCredentials, match=message) as caught:
        printed(made)
    assert f"exec plugin {made.command!r}" in str(caught.value)


def test_one_that_does_not_answer_is_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with pytest.raises(NoCredentials, match=r"did not answer within 1 s"):
        printed(plugin(code), timeout=1.0)
    assert not Path("/proc", pid.read_text()).exists()


def exec_config(path: str, code: str) -> None:
    """Let the user of a kubeconfig be one of a plugin."""
    found = yaml.safe_load(Path(path).read_text())
    made = {"apiVersion": V1, "command": sys.executable, "args": ["-c", code], "interactiveMode": "Never"}
    found["users"][0]["user"] = {"exec": made}
    Path(path).write_text(yaml.safe_dump(found))


def test_a_token_that_the_server_no_longer_takes_is_asked_for_anew(tmp_path: Path) -> None:
    """The plugin prints another token every time; the server takes only the newest."""
    count = tmp_path / "count"
    code = (
        f"import json, pathlib; p = pathlib.Path({str(count)!r}); "
        "n = int(p.read_text() or 0) + 1; p.write_text(str(n)); "
        f"print(json.dumps(dict(apiVersion={V1!r}, kind='ExecCredential', status=dict(token=f't{{n}}'))))"
    )
    count.write_text("")

    async def story() -> None:
        async with serving(tmp_path) as (api, _):
            path = write_kubeconfig(tmp_path, api.url, "")
            exec_config(path, code)
            api.answers["GET", "/x"] = [(200, {})]
            api.tokens = {"Bearer t1"}
            async with KubeClient(Credentials(path)) as client:
                await client.request("GET", "/x")
                api.tokens = {"Bearer t2"}
                await client.request("GET", "/x")
                await client.request("GET", "/x")
            assert count.read_text() == "2"
            assert _paths(api) == ["/x"] * 3

    asyncio.run(story())


def test_a_certificate_that_it_prints_is_used(tmp_path: Path) -> None:
    status = {
        "clientCertificateData": (CERTS / "client.pem").read_text(),
        "clientKeyData": (CERTS / "client.key").read_text(),
    }
    path = write_kubeconfig(tmp_path, "https://x", "")
    exec_config(path, prints(status))
    access = asyncio.run(Credentials(path).load())
    assert (access.cert, access.token) == ((CERTS / "client.pem").read_bytes(), "")


def _paths(api: ScriptedApi) -> list[str]:
    return [path for _, path, _, _ in api.requests]
