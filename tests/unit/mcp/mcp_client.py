"""A client of ``pumice mcp``, for tests: starts it, and speaks JSON lines with it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PUMICE = Path(sys.executable).with_name("pumice")


class AgentClient:
    """Speaks JSON lines with a server."""

    def __init__(self, *words: object, cwd: Path) -> None:
        self.process = subprocess.Popen(
            [str(PUMICE), "mcp", *(str(word) for word in words)],
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._number = 0

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        self.send(json.dumps({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}).encode())
        assert self.process.stdout is not None
        while True:
            answer: dict[str, Any] = json.loads(self.process.stdout.readline())
            if answer.get("id") == self._number:
                return answer

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.ask("tools/call", name=name, arguments=arguments)["result"]
        return found

    def greet(self) -> dict[str, Any]:
        """Begin."""
        hello = self.ask(
            "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "x", "version": "1"}
        )
        self.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        return hello

    def close(self) -> tuple[int, bytes]:
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err
