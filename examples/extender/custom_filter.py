"""A node filter that knows nothing of Pumice: the standard library, and the documented JSON."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def custom_filter(task: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """Nodes under maintenance take no task that asks for more than one core."""
    if node["labels"].get("maintenance") == "soon" and task["resources"].get("cpu", 0) > 1:
        return {"code": 2, "errorMessage": f"{node['name']} will be down soon"}
    return {"code": 0, "errorMessage": ""}


class Handler(BaseHTTPRequestHandler):
    """Answers POST /scheduler/customFilter."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps(custom_filter(question["task"], question["node"])).encode()
        self.send_response(200 if self.path == "/scheduler/customFilter" else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        """Quiet."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
