"""Flags as Go programs take them, for commands that stand in for one: ``--leader-elect=false``, ``-v=3``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pumice.cli.commands import PumiceCommand
from pumice.cli.usage import WrongUsage
from pumice.config.problems import nearest

_TRUE, _FALSE = frozenset(("1", "t", "true")), frozenset(("0", "f", "false"))


def rewrite(
    args: Sequence[str], switches: frozenset[str], values: frozenset[str], idle: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """The arguments as our parser takes them, and warnings.

    *switches* and *values* are our options with their dashes; *idle* are flags that are accepted and change nothing,
    with the reason; they are left out with a warning, and so are their values.

    :raises WrongUsage: a flag that neither list has, or a switch with a value that is neither true nor false.
    """
    out: list[str] = []
    warnings: list[str] = []
    at = 0
    while at < len(args):
        arg = args[at]
        at += 1
        name, equals, value = arg.partition("=")
        if name.startswith("-"):
            name = name.replace("_", "-")  # klog's flags are written either way
        if len(name) > 2 and name[0] == "-" and name[1] != "-" and f"-{name}" in switches | values | set(idle):
            name = f"-{name}"  # Go takes long names with one dash too
        positive = name
        if name.startswith("--no-") and f"--{name[5:]}" in switches:
            positive = f"--{name[5:]}"
        if positive in switches:
            out.append(_switch(name, equals, value))
        elif name in values:
            out.append(name)
            if equals:
                out.append(value)
            elif at < len(args):
                out.append(args[at])
                at += 1
        elif name in ("-h", "--help") or not name.startswith("-"):
            out.append(arg)
        elif name in idle:
            if not equals and at < len(args) and not args[at].startswith("-"):
                at += 1
            warnings.append(f"{name}: {idle[name]}")
        else:
            near = nearest(f"--{name.lstrip('-')}", switches | values | set(idle))
            raise WrongUsage(f"{name}: there is no such flag" + (f"; did you mean {near}?" if near else ""))
    return out, warnings


def _switch(name: str, equals: str, value: str) -> str:
    if not equals or value.lower() in _TRUE:
        return name
    if value.lower() in _FALSE and not name.startswith("--no-"):
        return f"--no-{name[2:]}"
    raise WrongUsage(f"{name}={value}: must be true or false")


_LOG: Final = "the log always goes to stderr"
KLOG: Final = {
    "--logtostderr": _LOG,
    "--alsologtostderr": _LOG,
    "--stderrthreshold": _LOG,
    "--log-dir": _LOG,
    "--log-file": _LOG,
    "--log-file-max-size": _LOG,
    "--one-output": _LOG,
    "--skip-log-headers": _LOG,
    "--skip-headers": "each line has time, level and logger",
    "--add-dir-header": "each line has time, level and logger",
    "--log-backtrace-at": "errors carry their traceback",
    "--vmodule": "-v is for all modules",
    "--leader-elect-resource-lock": "the lock is a Lease",
}
"""Flags that Go's components share, and that are accepted and change nothing."""


class GoFlags(PumiceCommand):
    """A command whose flags may be written as for a Go program."""

    idle: Mapping[str, str] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        switches: set[str] = set()
        values: set[str] = set()
        for parameter in self.params:
            names = [n for n in parameter.opts if n.startswith("-")]
            (switches if getattr(parameter, "is_flag", False) else values).update(names)
        rewritten, warnings = rewrite(args, frozenset(switches - {"--help", "-h"}), frozenset(values), self.idle)
        if warnings:
            from pumice.cli import render

            for text in warnings:
                render.warning(text)
        return super().parse_args(ctx, rewritten)
