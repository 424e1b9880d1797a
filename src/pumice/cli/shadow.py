"""``pumice shadow``: a conf beside a scheduler that runs, and what it would do otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pumice.cli import render
from pumice.cli.options import (
    WATCHED,
    Context,
    Kubeconfig,
    Output,
    OutputOption,
    PluginsDirOption,
    WatchedNames,
    WrongUsage,
    load_conf,
    reading,
    registry_with,
)
from pumice.cli.simulation import SeedOption

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pumice.framework.registry import Registry
    from pumice.scheduler.assembly import Assembly
    from pumice.shadow.report import Difference, Report


def shadow(
    conf: Annotated[Path, typer.Option("--conf", metavar="CONF", help="The candidate.")],
    scenario: Annotated[
        Path | None,
        typer.Argument(metavar="[SCENARIO]", help="A scenario, to be beside a simulated cluster; else the cluster."),
    ] = None,
    plugins_dir: PluginsDirOption = None,
    running: Annotated[
        str | None,
        typer.Option("--running", metavar="NAME", help="The configuration of the scenario that runs; else its first."),
    ] = None,
    seed: SeedOption = None,
    scheduler_name: WatchedNames = None,
    lasting: Annotated[
        str | None,
        typer.Option("--duration", metavar="DURATION", help="End after this time: 90m, 24h; else when stopped."),
    ] = None,
    period: Annotated[str, typer.Option("--period", metavar="DURATION", help="Time between two decisions.")] = "1s",
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write the report: a page, or JSON if FILE ends in .json."),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Compare a candidate conf with the running scheduler. Read-only.

    Differences are printed as they happen, the report at the end and after every day.

    Examples:
        pumice shadow --conf candidate.conf --duration 24h --report week.html
        pumice shadow day.yaml --conf candidate.conf
    """
    from pumice.scheduler.assembly import assemble

    if report is not None and report.suffix not in (".html", ".json"):
        raise WrongUsage(f"--report {str(report)!r}: must end in .html or .json")
    plugins = plugins_dir
    if scenario is not None and plugins is None:
        from pumice.sim.scenario import plugin_directory

        plugins = plugin_directory(scenario)
    registry = registry_with(plugins)
    candidate = assemble(load_conf(conf, registry), registry)
    data = output is Output.JSON
    if scenario is not None:
        if lasting is not None or scheduler_name:
            raise WrongUsage("--duration and --scheduler-name: only beside a cluster, not with SCENARIO")
        when: Callable[[float], str] = _simulated
        found = _beside_simulation(scenario, running, seed, candidate, registry, quiet=data)
    else:
        if running is not None or seed is not None:
            raise WrongUsage("--running and --seed: only with SCENARIO")
        from pumice.cli.options import seconds

        ends = None if lasting is None else _lasting(lasting)
        when = _clock
        found = _beside_cluster(
            candidate,
            scheduler_name or list(WATCHED),
            ends,
            seconds("--period", period),
            (kubeconfig, context),
            daily=lambda account: _daily(account, report, data),
            quiet=data,
        )
    _write(report, found, when)
    if data:
        render.data(found)
    else:
        _show(found, when)
    if report is not None:
        render.note(f"The report is in {report}")


def _lasting(text: str) -> float:
    from pumice.config.durations import SECOND, parse_duration

    with reading(f"--duration {text!r}"):
        return parse_duration(text, days=True) / SECOND


def _beside_simulation(
    scenario: Path, running: str | None, seed: int | None, candidate: Assembly, registry: Registry, *, quiet: bool
) -> Report:
    from pumice.scheduler.assembly import catalogue_of
    from pumice.shadow.follower import beside_simulation
    from pumice.sim.scenario import read_scenario

    read = read_scenario(scenario, catalogue_of(registry))
    if running is not None and running not in read.configurations:
        raise WrongUsage(f"--running {running!r}: is not one of {', '.join(read.configurations)}")
    name = running or next(iter(read.configurations))
    read = read if seed is None else read.with_seed(seed)
    tell = None if quiet else lambda found, now: _tell(found, _simulated)
    return beside_simulation(read, name, candidate, registry, tell)


def _beside_cluster(
    candidate: Assembly,
    names: list[str],
    ends: float | None,
    period: float,
    cluster: tuple[str | None, str | None],
    *,
    daily: Callable[[Report], None],
    quiet: bool,
) -> Report:
    import signal
    import threading

    from pumice.kube.credentials import Credentials
    from pumice.kube.watching import Watching
    from pumice.shadow.follower import follow
    from pumice.state.cluster import ClusterState
    from pumice.words import counted

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return follow(
        Watching(Credentials(*cluster), dialect=candidate.conf.dialect),
        candidate,
        ClusterState(scheduler_names=names),
        beside=" and ".join(names),
        stop=stop,
        period=period,
        ends=ends,
        ready=lambda state: render.note(
            f"{counted(len(state.nodes), 'node')}, {counted(len(state.jobs), 'job')}: the candidate decides from now on"
        ),
        tell=lambda found: None if quiet else _tell(found, _clock),
        daily=daily,
    )


# -- what is said ---------------------------------------------------------------------------------------------------
def _daily(report: Report, file: Path | None, data: bool) -> None:
    _write(file, report, _clock)
    if not data:
        render.heading("A day is over")
        _show(report, _clock)


def _write(file: Path | None, report: Report, when: Callable[[float], str]) -> None:
    if file is None:
        return
    if file.suffix == ".json":
        import msgspec

        file.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2))
        return
    from pumice.shadow.page import shadow_page

    file.write_text(shadow_page(report, when), encoding="utf-8")


def _tell(found: Sequence[Difference], when: Callable[[float], str]) -> None:
    from pumice.shadow.page import in_words
    from pumice.shadow.report import ComparedPlacement, Eviction
    from pumice.words import counted

    for one in found:
        match one:
            case ComparedPlacement():
                why = one.candidate_says
                render.line(f"{when(one.at)}  {one.job}  candidate: {in_words(one)}{f' ({why})' if why else ''}")
            case Eviction(by="candidate"):
                pods = counted(len(one.pods), "pod")
                render.line(f"{when(one.at)}  {one.beneficiary}  candidate: would evict {pods} for it ({one.action})")
            case Eviction():
                pods = counted(len(one.pods), "pod")
                render.line(f"{when(one.at)}  {one.job}  {pods} evicted; candidate: would not")


def _show(report: Report, when: Callable[[float], str]) -> None:
    from pumice.shadow.page import in_words, nodes_in_words
    from pumice.sim.report import units

    total = report.total
    render.line()
    agrees = units.percent(report.agreement) if report.agreement is not None else "–"
    render.heading(f"Beside {report.beside}", f"{when(report.began)} to {when(report.ended)}, {report.cycles:,} cycles")
    render.pairs(
        [
            ("placed", f"{sum(total.jobs.values()):,} times, {sum(total.pods.values()):,} pods"),
            ("agrees", agrees),
            ("other node", f"{total.jobs['elsewhere']:,}"),
            ("sooner", f"{total.jobs['sooner']:,}, by {units.duration(total.sooner_seconds)} in all"),
            ("later", f"{total.jobs['later']:,}"),
            ("still waiting", f"{len(report.waiting):,} that the candidate would have started"),
            ("evictions", f"{total.evicted:,} done, {total.evicted_by_both:,} of them by both"),
            ("would evict", f"{total.would_evict:,} pods more"),
            ("decision cost", f"{1000 * report.cpu_seconds / max(report.cycles, 1):.1f} ms CPU per cycle"),
        ]
    )
    affected = [p for day in report.days for p in (*day.sooner, *day.later)]
    if affected:
        render.line()
        render.line("Most affected", style="bold")
        rows = [(when(p.at), p.job, p.queue, p.pods, in_words(p), p.candidate_says or p.running_says) for p in affected]
        render.table(
            ["PLACED", "JOB", "QUEUE", "PODS", "CANDIDATE", "WHY"],
            rows,
            names=["JOB"],
            wrap=["CANDIDATE", "WHY"],
            spare=["QUEUE", "PODS"],
        )
    if report.waiting:
        render.line()
        render.line("Still waiting", style="bold")
        held = [
            (w.job, w.queue, w.pods, units.duration(w.seconds), nodes_in_words(w.wished)) for w in report.waiting[:5]
        ]
        render.table(
            ["JOB", "QUEUE", "PODS", "SOONER BY", "ON"], held, names=["JOB"], wrap=["ON"], spare=["QUEUE", "PODS"]
        )


def _simulated(at: float) -> str:
    whole = round(at)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def _clock(at: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
