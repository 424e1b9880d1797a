"""A stranger's first hour: the built wheel, outside the source tree, every step through what was installed."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from wheel_env import environment, installed, run


@contextmanager
def served(*words: object, cwd: Path) -> Iterator[int]:
    """A server that is ready, on a free port; it must end well when it is told to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [*(str(word) for word in words), "--address", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, cwd=cwd, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=1):
                    break
            except OSError:
                assert process.poll() is None, process.communicate()[1]
                assert time.monotonic() < deadline, "the server is not ready after 30 s"
                time.sleep(0.05)
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
    assert process.returncode in (0, -signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.timeout(300)  # it takes some ten seconds, on a machine that is not busy
def test_a_new_plugin_decides_the_same_in_a_cycle_in_the_simulator_and_behind_http(tmp_path: Path, wheel: Path) -> None:
    scripts = installed(wheel, tmp_path, "extender", also=("pytest",))
    pumice, home = scripts / "pumice", tmp_path / "home"
    home.mkdir()
    where = run(scripts / "python", "-c", "import pumice; print(pumice.__file__)", cwd=home)
    assert where.startswith(str(tmp_path))

    run(pumice, "plugin", "new", "rack", cwd=home)
    folder = home / "rack"
    assert "3 passed" in run(scripts / "python", "-m", "pytest", "-q", "-W", "error", "rack", cwd=home)

    ours = ("--conf", "scheduler.conf", "--plugins-dir", "plugins")
    cycle = json.loads(run(pumice, "cycle", "cluster.yaml", *ours, "-o", "json", cwd=folder))
    assert cycle["errors"] == cycle["warnings"] == []
    assert cycle["binds"] == {
        "default/large-0": "a",
        "default/large-1": "c",
        "default/small-0": "a",  # the fuller one first, the one for large tasks not at all
        "default/small-1": "b",
        "default/small-2": "b",
    }

    run(pumice, "simulate", "scenario.yaml", "--conf", "rack", "--horizon", "1h", "--log", "log", cwd=folder)
    binds = re.findall(r"^0\.000 bind (\S+) (\S+)$", (folder / "log").read_text(), re.MULTILINE)
    assert dict(binds) == cycle["binds"]

    with served(pumice, "extender", "serve", "plugins/rack.py", "--conf", "scheduler.conf", cwd=folder) as port:
        conf = folder / "extender.conf"
        conf.write_text(conf.read_text().replace("127.0.0.1:8888", f"127.0.0.1:{port}"))
        over_http = json.loads(run(pumice, "cycle", "cluster.yaml", "--conf", conf, "-o", "json", cwd=folder))
        assert over_http["binds"] == cycle["binds"]
        assert over_http["errors"] == []
