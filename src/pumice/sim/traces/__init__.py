"""Job traces: files of others (openb, Philly, SWF) and our own CSV, read into one shape.

A reader module knows one format and nothing of the simulator. ``read`` opens a file, recognises its format and
returns a ``Trace``; ``read_nodes`` reads a list of nodes. Nothing here schedules, and nothing here guesses: what a
format does not say is an option of its reader, or the documented default in ``docs/traces.md``.
"""

from pumice.sim.traces.logs import OpenbOptions, PhillyOptions, SwfOptions, read_nodes
from pumice.sim.traces.model import Trace, TraceError, TraceJob, TraceNode, TracePod
from pumice.sim.traces.native import read_table, write
from pumice.sim.traces.recognising import FORMATS, Format, read, recognise

__all__ = [
    "FORMATS",
    "Format",
    "OpenbOptions",
    "PhillyOptions",
    "SwfOptions",
    "Trace",
    "TraceError",
    "TraceJob",
    "TraceNode",
    "TracePod",
    "read",
    "read_nodes",
    "read_table",
    "recognise",
    "write",
]
