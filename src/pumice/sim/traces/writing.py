"""A trace on file, and the scenario that plays it."""

from __future__ import annotations

import gzip
import io
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from pumice.sim.traces.from_history import RecordedRun
from pumice.sim.traces.model import TraceJob
from pumice.sim.traces.native import write


def write_trace(jobs: Iterable[TraceJob], path: Path) -> None:
    """Write a trace in our own format, packed if the name ends in ``.gz``. Equal traces give equal bytes.

    :raises InvalidInput: a name that the format does not carry.
    """
    text = io.StringIO()
    write(jobs, text)
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def scenario_path(trace: Path) -> Path:
    """The path of a trace's scenario: beside it."""
    return trace.with_name(f"{trace.name.removesuffix('.gz').removesuffix('.csv')}.yaml")


def scenario_text(found: RecordedRun, trace: str, name: str) -> str:
    """The scenario that plays a recorded trace: its nodes, queues, faults and conf."""
    data: dict[str, Any] = {
        "name": name,
        "horizon": math.ceil(found.span_s) + 1,
        "cluster": {"nodes": found.nodes},
        "queues": found.queues,
        "workload": {"trace": {"file": trace}},
    }
    if found.planned:
        data["faults"] = {"planned": found.planned}
    data["delays"] = {"eviction": found.eviction_s}
    if found.conf is not None:
        data["configurations"] = {"recorded": found.conf}
    body = yaml.safe_dump(data, sort_keys=False, width=120, default_flow_style=None, allow_unicode=True)
    said = "".join(f"# {note}\n" for note in found.notes)
    return f"# Made of a history. Run times count from the moment that a job got its places.\n{said}{body}"
