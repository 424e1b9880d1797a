"""Kubeconfig files: merged as kubectl merges them, every wrong one told in a line that names the file and the thing."""

from __future__ import annotations

import asyncio
import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.kube import credentials as module
from pumice.kube.credentials import Access, Credentials, read_kubeconfig
from pumice.kube.errors import NoCredentials

CERTS = Path(__file__).parents[2] / "extender" / "certs"
CA, CERT, KEY = (CERTS / "ca.pem", CERTS / "client.pem", CERTS / "client.key")


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a pod nor a home with a kubeconfig."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def config(
    path: Path,
    user: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    *,
    name: str = "x",
    current: str | None = "x",
) -> Path:
    """A kubeconfig of one context."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [{"name": f"c-{name}", "cluster": {"server": f"https://{name}.example:6443/", **(cluster or {})}}],
        "users": [{"name": f"u-{name}", "user": user}],
        "contexts": [{"name": name, "context": {"cluster": f"c-{name}", "user": f"u-{name}"}}],
        "current-context": current,
    }
    path.write_text(yaml.safe_dump(content))
    return path


def loaded(path: Path | None = None, context: str | None = None, master: str | None = None) -> Access:
    return asyncio.run(Credentials(str(path) if path else None, context, master).load())


def data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


# -- what is read -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("user", "shown"),
    [
        (None, ""),
        ({}, ""),
        ({"token": "t1"}, "Bearer t1"),
        ({"tokenFile": "token"}, "Bearer from-file"),
        ({"token": "t1", "tokenFile": "token"}, "Bearer from-file"),
        ({"username": "ann", "password": "pw"}, "Basic YW5uOnB3"),
        ({"token": "t1", "username": "ann"}, "Bearer t1"),
        ({"token": None, "exec": None, "auth-provider": None}, ""),
    ],
)
def test_what_a_user_shows(tmp_path: Path, user: dict[str, Any] | None, shown: str) -> None:
    (tmp_path / "token").write_text("from-file\n")
    assert loaded(config(tmp_path / "config", user)).token == shown


def test_a_cluster_says_where_and_how(tmp_path: Path) -> None:
    cluster = {"tls-server-name": "kubernetes", "proxy-url": "http://proxy:3128", "insecure-skip-tls-verify": True}
    access = loaded(config(tmp_path / "config", {}, cluster))
    assert access == Access("https://x.example:6443", verify=False, server_name="kubernetes", proxy="http://proxy:3128")


def test_certificates_come_from_files_beside_the_kubeconfig_or_stand_in_it(tmp_path: Path) -> None:
    for file in (CA, CERT, KEY):
        (tmp_path / "pki").mkdir(exist_ok=True)
        (tmp_path / "pki" / file.name).write_bytes(file.read_bytes())
    files = config(
        tmp_path / "files",
        {"client-certificate": "pki/client.pem", "client-key": str(tmp_path / "pki" / "client.key")},
        {"certificate-authority": "pki/ca.pem"},
    )
    inside = config(
        tmp_path / "inside",
        {"client-certificate-data": data(CERT), "client-key-data": data(KEY), "client-key": "not-looked-at"},
        {"certificate-authority-data": data(CA)},
    )
    one, other = loaded(files), loaded(inside)
    assert one == other
    assert (one.ca, one.cert, one.key) == (CA.read_bytes(), CERT.read_bytes(), KEY.read_bytes())
    assert one.tls().get_ca_certs() == other.tls().get_ca_certs() != []
    assert one.same_connection(other)


def test_another_token_needs_no_other_connection_and_another_certificate_does(tmp_path: Path) -> None:
    one = loaded(config(tmp_path / "a", {"token": "1"}))
    assert one.same_connection(loaded(config(tmp_path / "b", {"token": "2"})))
    assert not one.same_connection(
        loaded(config(tmp_path / "c", {"client-certificate": str(CERT), "client-key": str(KEY)}))
    )


def test_tokens_and_certificates_are_read_anew_each_time(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("one")
    path = config(tmp_path / "config", {"tokenFile": "token"})
    who = Credentials(str(path))
    assert asyncio.run(who.load()).token == "Bearer one"
    (tmp_path / "token").write_text("two")
    assert asyncio.run(who.load()).token == "Bearer two"


# -- which one --------------------------------------------------------------------------------------------------------
def test_several_files_are_merged_and_what_an_earlier_one_says_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = config(tmp_path / "one" / "config", {"tokenFile": "token"}, name="dev", current=None)
    two = config(tmp_path / "two" / "config", {"token": "second"}, name="prod", current="prod")
    config(tmp_path / "three", {"token": "never"}, name="dev", current="dev")
    (tmp_path / "one" / "token").write_text("first")
    names = [str(one), "", str(tmp_path / "missing"), str(two), str(tmp_path / "three")]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(names))
    assert loaded().token == "Bearer second"
    assert loaded(context="dev").token == "Bearer first"
    assert loaded(context="dev").host == "https://dev.example:6443"
    assert read_kubeconfig([one, two]).current == "prod"


def test_without_a_word_the_file_in_the_home_is_read(tmp_path: Path) -> None:
    config(tmp_path / "home" / ".kube" / "config", {"token": "home"})
    assert loaded().token == "Bearer home"


def test_a_given_address_stands_above_the_kubeconfigs(tmp_path: Path) -> None:
    path = config(tmp_path / "config", {"token": "t"})
    assert loaded(path, master="http://127.0.0.1:8080/") == Access("http://127.0.0.1:8080", "Bearer t")
    assert loaded(None, master="http://127.0.0.1:8080") == Access("http://127.0.0.1:8080")


def test_a_pod_has_its_own_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    monkeypatch.setattr(module, "MOUNTED", tmp_path)
    with pytest.raises(NoCredentials, match=r"the pod's account in .*: .*No such file"):
        loaded()
    (tmp_path / "token").write_text("one\n")
    (tmp_path / "ca.crt").write_bytes(CA.read_bytes())
    assert loaded() == Access("https://[fd00::1]:6443", "Bearer one", CA.read_bytes())
    (tmp_path / "token").write_text("two\n")
    assert loaded().token == "Bearer two"
    assert loaded(config(tmp_path / "config", {"token": "mine"})).token == "Bearer mine"


def test_a_kubeconfig_or_context_that_is_named_counts_in_a_pod_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setattr(module, "MOUNTED", tmp_path)
    (tmp_path / "token").write_text("pod")
    (tmp_path / "ca.crt").write_bytes(CA.read_bytes())
    (tmp_path / "namespace").write_text("of-the-pod")
    config(tmp_path / "home" / ".kube" / "config", {"token": "home"})
    assert loaded().token == "Bearer pod"
    assert Credentials().namespace() == "of-the-pod"
    with pytest.raises(NoCredentials, match="nowhere"):
        asyncio.run(Credentials(context="nowhere").load())
    assert Credentials(context="nowhere").namespace() == "default"
    monkeypatch.setenv("KUBECONFIG", str(config(tmp_path / "other", {"token": "other"})))
    assert loaded().token == "Bearer other"
    assert Credentials().namespace() != "of-the-pod"


# -- what is wrong ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("user", "cluster", "message"),
    [
        ({"client-key": "gone.key"}, {}, "client-key '.*gone.key': No such file or directory"),
        ({"tokenFile": "gone"}, {}, "tokenFile '.*gone': No such file or directory"),
        ({"client-certificate-data": "%%%"}, {}, "client-certificate-data: is not base64"),
        ({}, {"certificate-authority": "gone.pem"}, "certificate-authority '.*gone.pem': No such file or directory"),
        ({}, {"certificate-authority-data": "aGVsbG8="}, "the certificate authority is no certificate"),
        (
            {"client-certificate": str(CERT), "client-key": str(CERTS / "server.key")},
            {},
            "client certificate and key do not fit",
        ),
        ({"auth-provider": {"name": "oidc"}}, {}, "auth-provider 'oidc': is not supported; use an exec plugin"),
        ({"as": "root"}, {}, "as 'root': acting for another user is not supported"),
        ({"token": 5}, {}, r"users\[0\].user.token: must be text, got a whole number"),
        ({}, {"server": ""}, "cluster 'c-x' has no server"),
    ],
)
def test_what_is_wrong_with_an_entry_is_named_with_its_file(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], message: str
) -> None:
    path = config(tmp_path / "config", user, cluster)
    with pytest.raises(NoCredentials, match=message) as caught:
        loaded(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clusters: ]", "config:1:11: not YAML"),
        ("- a list", "must be a mapping, got a list"),
        ("", "has no current-context$"),
        ("contexts: [{name: a, context: {}}]", "has no current-context; --context takes one of a$"),
        ("current-context: prod\ncontexts: [{name: prd}]", "there is no context 'prod'; did you mean 'prd'"),
        ("current-context: a\ncontexts: [{name: a, context: {cluster: c}}]", "there is no cluster 'c'$"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(NoCredentials, match=message) as caught:
        loaded(path)
    assert str(path) in str(caught.value)


def test_who_has_nothing_is_told_where_was_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        NoCredentials, match=r"neither a kubeconfig nor a pod's account: .*/.kube/config does not exist"
    ):
        loaded()
    with pytest.raises(NoCredentials, match="kubeconfig '/does/not/exist': No such file"):
        loaded(Path("/does/not/exist"))
    monkeypatch.setenv("KUBECONFIG", f"/no/one{os.pathsep}/no/two")
    with pytest.raises(NoCredentials, match="/no/one and /no/two do not exist"):
        loaded()
