"""A node filter that knows nothing of Pumice: the standard library, the documented JSON, and Volcano's.

Volcano's page documents one form, and its scheduler sends another: the fields of its Go structs.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def custom_filter(task: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """Nodes under maintenance take no task that asks for more than one core."""
    if "labels" in node:
        name, labels, cpu = node["name"], node["labels"], task["resources"].get("cpu", 0)
    else:  # from a real Volcano: TaskInfo and NodeInfo, CPUs in thousandths
        name, labels = node["Name"], node["Node"]["metadata"].get("labels") or {}
        cpu = task["Resreq"]["MilliCPU"] / 1000
    if labels.get("maintenance") == "soon" and cpu > 1:
        return {"code": 2, "errorMessage": f"{name} will be down soon"}
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
