"""Count the code of each package, and the functions that a gang, an idle cycle and an unschedulable job pass.

    python tools/size.py                 # src/pumice, as Markdown tables
    python tools/size.py DIR -o json     # another checkout's src/pumice, for programs

A token is a name, number, string or operator as Python reads it; comments, docstrings and line ends are none, so that
longer lines and lost docstrings gain nothing. The walks run the code that is installed, under the default
configuration, on 200 nodes.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Annotated, Final

import typer
from command_line import run_tool

import pumice
from pumice.cli import render
from pumice.cli.commands import Commands
from pumice.cli.options import Output, OutputOption, WrongUsage
from pumice.config import DEFAULT_CONF, load
from pumice.errors import PumiceError
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.api import AnyObject
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState
from pumice.testing import job, node, queue

SOURCE: Final = Path(pumice.__file__).parent
_NO_CODE: Final = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
    | {tokenize.ENDMARKER}
)
_NODES: Final = 200
_GANG: Final = 10


# -- code ----------------------------------------------------------------------------------------------------------
@dataclass
class Size:
    """How much code a package has."""

    package: str
    modules: int = 0
    lines: int = 0
    tokens: int = 0


def tokens_of(source: str) -> int:
    """Count the tokens of a module without comments, docstrings and line ends."""
    docstrings = {
        (statement.lineno, statement.col_offset)
        for statement in ast.walk(ast.parse(source))
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    }
    found = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE and not (token.type == tokenize.STRING and token.start in docstrings):
            found += 1
    return found


def code_lines_of(sources: Iterable[str]) -> int:
    """Count the lines of modules that hold code: without blank lines, comments, docstrings and imports."""
    total = 0
    for source in sources:
        tree, lines = ast.parse(source), set[int]()
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type not in _NO_CODE:
                lines.update(range(token.start[0], token.end[0] + 1))
        for statement in ast.walk(tree):
            constant = statement.value if isinstance(statement, ast.Expr) else None
            text = isinstance(constant, ast.Constant) and isinstance(constant.value, str)
            if isinstance(statement, (ast.Import, ast.ImportFrom)) or (isinstance(statement, ast.Expr) and text):
                lines.difference_update(range(statement.lineno, (statement.end_lineno or 0) + 1))
        total += len(lines)
    return total


def plugin_sources(name: str) -> list[str]:
    """The modules of a built-in plugin: one module, or a package of them."""
    folder = SOURCE / "plugins" / name
    paths = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    return [path.read_text(encoding="utf-8") for path in paths]


def sizes_of(root: Path) -> list[Size]:
    """Count the code of each package of a source tree, and of the modules beside them."""
    found: dict[str, Size] = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        package = parts[0] if len(parts) > 1 else "(modules)"
        size = found.setdefault(package, Size(package))
        source = path.read_text(encoding="utf-8")
        size.modules += 1
        size.lines += source.count("\n")
        size.tokens += tokens_of(source)
    return list(found.values())


def total_of(sizes: Iterable[Size]) -> Size:
    """Add sizes up."""
    total = Size("sum")
    for size in sizes:
        total.modules += size.modules
        total.lines += size.lines
        total.tokens += size.tokens
    return total


# -- walks ---------------------------------------------------------------------------------------------------------
@dataclass
class Walk:
    """What one cycle passes of our code."""

    cycle: str
    calls: int
    functions: int
    modules: int


class Cluster:
    """Nodes under the default configuration. Tasks that are bound stay assumed."""

    def __init__(self) -> None:
        registry = default_registry()
        self._assembly = assemble(load(DEFAULT_CONF, catalogue_of(registry)).conf, registry)
        self._state, self._runtime = ClusterState(), Runtime()
        self._state.now = 1_800_000_000.0
        nodes = [node(f"node-{n:03}", cpu=32, memory="256Gi", gpu=8) for n in range(_NODES)]
        self.add([queue("default"), *nodes])

    def add(self, objects: Iterable[AnyObject]) -> None:
        """Let objects come."""
        self._state.apply_all(Seen(obj) for obj in objects)

    def cycle(self) -> CycleReport:
        """Run one cycle."""
        self._state.now += 1.0
        return run_cycle(self._state, self._assembly, self._runtime)


def traced(run: Callable[[], object]) -> tuple[int, set[CodeType]]:
    """Run a function; return how many calls of our functions it made, and the functions."""
    calls, functions, ours = 0, set[CodeType](), str(SOURCE)

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        if event == "call" and frame.f_code.co_filename.startswith(ours):
            calls += 1
            functions.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(before)
    return calls, functions


def walks() -> list[Walk]:
    """Trace one cycle of each kind, without the events before it."""
    found: list[Walk] = []
    cluster = Cluster()

    def walk(cycle: str, objects: Iterable[AnyObject], binds: int) -> None:
        cluster.add(objects)
        reports: list[CycleReport] = []
        calls, functions = traced(lambda: reports.append(cluster.cycle()))
        if len(reports[0].binds) != binds:
            raise PumiceError(f"{cycle}: {len(reports[0].binds)} pods were bound, right is {binds}")
        found.append(Walk(cycle, calls, len(functions), len({code.co_filename for code in functions})))

    cluster.add(job("first", tasks=_GANG))
    cluster.cycle()
    walk(f"gang of {_GANG}", job("second", tasks=_GANG), _GANG)
    walk("job of one task", job("alone"), 1)
    walk("unschedulable job, first cycle", job("wide", tasks=_GANG, cpu=64), 0)
    for _ in range(3):
        cluster.cycle()
    walk("idle cycle", (), 0)
    return found


# -- command line --------------------------------------------------------------------------------------------------
def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; all columns but the first are numbers."""
    lines = [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    lines += [f"| {' | '.join(f'{x:,}' if isinstance(x, int) else str(x) for x in row)} |" for row in rows]
    return "\n".join(lines)


def size(
    root: Annotated[Path, typer.Argument(metavar="[DIR]", help="A source tree; its packages are counted.")] = SOURCE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Count the code of each package, and what single cycles pass of it.

    Examples:
        python tools/size.py
        python tools/size.py ../other/src/pumice -o json
    """
    if not root.is_dir():
        raise WrongUsage(f"{root}: is not a directory")
    sizes = sizes_of(root)
    rows = [asdict(each) for each in (*sizes, total_of(sizes))]
    passed = [asdict(each) for each in walks()]
    if output is Output.JSON:
        render.data({"packages": rows, "cycles": passed})
        return
    print(table(("package", "modules", "lines", "tokens"), [tuple(row.values()) for row in rows]), end="\n\n")
    print(table(("cycle", "calls", "functions", "modules"), [tuple(row.values()) for row in passed]))


app = Commands(add_completion=False, rich_markup_mode=None)
app.command()(size)

if __name__ == "__main__":
    run_tool(app)
