"""The common parts of commands that play: the files they write, many seeds, rules for CI."""

from __future__ import annotations

import io
import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec
import typer

from pumice.cli import render
from pumice.cli.options import StudyOutput, put_aside
from pumice.config import SchedulerConf, load
from pumice.config.durations import SECOND, parse_duration
from pumice.errors import ConfigError, InvalidInput
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.sim import run as sim
from pumice.sim.bundle import BundledRun, digest_of_runs, other_versions, pack
from pumice.sim.bundle import write as write_bundle
from pumice.sim.report import effects, html_seeds, render_seeds, units
from pumice.sim.results import SeedComparison, Summary, compare_seeds
from pumice.sim.results.gates import Gate, Ruling, judge_seeds, parse_gate
from pumice.sim.results.intervals import ALPHA
from pumice.sim.results.metrics import metric
from pumice.sim.results.seeds import PRIMARY
from pumice.sim.scenario import BUILT_IN, SimScenario, load_conf_file
from pumice.sim.scenario import open_scenario as read_scenario
from pumice.sim.study.running import (
    LOOK_ALPHA,
    LOOKS,
    MOST_SEEDS,
    Look,
    Lost,
    Played,
    Runs,
    StudyRun,
    Sure,
    parse_length,
    parse_seeds,
    parse_sure,
    run_all,
    seeds_from,
)
from pumice.sim.study.sweeping import grid, parse_vary
from pumice.sim.study.workers import LocalExecutor, usable_cores
from pumice.words import counted

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class _Output(io.FileIO):
    """A file that says which option named it when it cannot be written."""

    def __init__(self, option: str, path: Path) -> None:
        self._whose = f"{option} {str(path)!r}"
        try:
            super().__init__(path, "w")
        except OSError as exc:
            raise InvalidInput(f"{self._whose}: {exc.strerror}") from exc

    def write(self, content: ReadableBuffer, /) -> int:
        try:
            return super().write(content)
        except OSError as exc:
            raise InvalidInput(f"{self._whose}: {exc.strerror}") from exc


def open_output(option: str, path: Path) -> io.BufferedWriter:
    """The file of an option, to be written anew.

    :raises InvalidInput: it cannot be written, now or later.
    """
    return io.BufferedWriter(_Output(option, path))


def write_output(option: str, path: Path, content: str | bytes) -> None:
    """Write the file of an option, texts as UTF-8.

    :raises InvalidInput: it cannot be written.
    """
    with open_output(option, path) as stream:
        stream.write(content.encode() if isinstance(content, str) else content)


SHOWN_AFTER_S = 1.0
REFRESHED_EVERY_S = 0.2


def part_done(scenario: SimScenario, state: sim.Progress) -> float:
    """How much of a run is over, from 0 to 1: by time where it has a horizon, else by jobs."""
    horizon = scenario.setting.horizon_s
    if math.isfinite(horizon):
        return min(1.0, state.now / horizon)
    jobs = scenario.expected_jobs
    return min(1.0, state.over / jobs) if jobs else 0.0


@contextmanager
def progress_bar(name: str, scenario: SimScenario) -> Iterator[Callable[[sim.Progress], None]]:
    """A bar with simulated time, speed-up and ETA, for runs that take longer than a second."""
    names = list(scenario.configurations)
    bar = render.Bar(f"{name} ({names.index(name) + 1} of {len(names)})" if len(names) > 1 else name)
    began = time.monotonic()
    shown = 0.0

    def tell(state: sim.Progress) -> None:
        nonlocal shown
        passed = time.monotonic() - began
        if not bar.visible or passed < SHOWN_AFTER_S or passed - shown < REFRESHED_EVERY_S:
            return
        shown = passed
        done = part_done(scenario, state)
        left = units.duration(passed / done - passed) if done > 0 else "?"
        speed = f"{state.now / passed:,.0f} × real time"
        bar.update(done, f"{units.duration(state.now)} simulated, {state.over:,} jobs done, {speed}, {left} left")

    try:
        yield tell
    finally:
        bar.close()


@contextmanager
def study_bar(runs: int | None) -> Iterator[Callable[[], None]]:
    """A bar over the runs of a study, of which each is told as it ends; *runs* is unknown where figures decide."""
    bar = render.Bar("study")
    began = time.monotonic()
    done = 0

    def tell() -> None:
        nonlocal done
        done += 1
        passed = time.monotonic() - began
        if not bar.visible or passed < SHOWN_AFTER_S:
            return
        if runs is None:
            bar.update(0.0, f"{done:,} runs done")
        else:
            left = units.duration(passed / done * (runs - done))
            bar.update(done / runs, f"{done:,} of {runs:,} runs done, {left} left")

    try:
        yield tell
    finally:
        bar.close()


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM end what runs as Ctrl-C does, so that what is done is kept."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def open_scenario(path: Path, plugins_dir: Path | None, data: Path | None, horizon: str | None) -> SimScenario:
    """Read a scenario as the command line says; what it depends on is noted in it."""
    if data is not None and not data.is_dir():
        raise typer.BadParameter(f"{str(data)!r} is not a directory", param_hint="--data")
    put_aside()
    scenario = read_scenario(path, plugins_dir=plugins_dir, data=data)
    for line in scenario.registry.passed_by:
        render.note(line)
    if horizon is None:
        return scenario
    try:
        return scenario.with_horizon(parse_duration(horizon, days=True) / SECOND)
    except InvalidInput as exc:
        raise typer.BadParameter(str(exc), param_hint="--horizon") from exc


def checked(scenario: SimScenario) -> SimScenario:
    """Return a scenario whose configurations can be used.

    :raises ConfigError: a plugin refuses its arguments; better now than in every run.
    """
    for conf in scenario.configurations.values():
        assemble(conf, scenario.registry)
    return scenario


MOST_CONFS = 200
"""Configurations of one study."""


def chosen_confs(scenario: SimScenario, given: list[str]) -> dict[str, SchedulerConf]:
    """Return the configurations of the command line, by name; those of the scenario if none is given.

    Each is a name in the scenario, a file, ``name=file``, ``default`` or ``helm``.
    """
    named = scenario.configurations
    if not given:
        return dict(named)
    said = [(name, file) if eq else ("", text) for text in given for name, eq, file in [text.rpartition("=")]]
    stems = [Path(file).stem for _, file in said]
    chosen: dict[str, SchedulerConf] = {}
    for (name, file), stem in zip(said, stems, strict=True):
        of_scenario = not name and file in named
        name = name or (file if of_scenario else stem if stems.count(stem) == 1 else file.removesuffix(".conf"))
        if name in chosen:
            raise typer.BadParameter(f"{name!r} is there twice; say NAME=FILE", param_hint="--conf")
        chosen[name] = named[file] if of_scenario else _conf_of(file, scenario)
    return chosen


def _conf_of(file: str, scenario: SimScenario) -> SchedulerConf:
    """Return a configuration that the scenario does not name."""
    there = Path(file).exists()
    if file not in BUILT_IN and not there and not Path(file).suffix and "/" not in file:
        names = ", ".join(scenario.configurations)
        raise typer.BadParameter(f"{file!r} is not one of {names}, default, helm, and no file", param_hint="--conf")
    built_in = file in BUILT_IN and not there
    catalogue = catalogue_of(scenario.registry)
    loaded = load(BUILT_IN[file], catalogue, f"<{file}>") if built_in else load_conf_file(Path(file), catalogue)
    for problem in loaded.warnings:
        render.warning(str(problem))
    return loaded.conf


def chosen_conf(scenario: SimScenario, conf: str | None) -> tuple[str, SchedulerConf]:
    """Return one configuration with its name: the one that is given, else the first of the scenario."""
    return next(iter(chosen_confs(scenario, [] if conf is None else [conf]).items()))


def varied_confs(scenario: SimScenario, confs: dict[str, SchedulerConf], vary: list[str]) -> dict[str, SchedulerConf]:
    """Return the one configuration as it is, and with every combination of the values in *vary*."""
    if len(confs) > 1:
        raise typer.BadParameter("varies one configuration, so give one --conf", param_hint="--vary")
    try:
        made = grid(next(iter(confs.values())), [parse_vary(text) for text in vary], catalogue_of(scenario.registry))
        for conf in made.values():
            assemble(conf, scenario.registry)
    except (InvalidInput, ConfigError) as exc:
        raise typer.BadParameter(str(exc), param_hint="--vary") from exc
    if len(made) > MOST_CONFS:
        raise typer.BadParameter(f"gives {len(made):,} configurations, at most {MOST_CONFS}", param_hint="--vary")
    return made


@dataclass(frozen=True, slots=True)
class Files:
    """The outputs of a command, each in its file."""

    report: Path | None = None
    record: Path | None = None
    log: Path | None = None
    save: Path | None = None
    history: Path | None = None
    """A folder."""
    bundle: Path | None = None

    def prepare(self, configurations: int) -> None:
        """Make sure, before a long run, that its results can be written.

        :raises InvalidInput: one of them cannot.
        """
        if self.save is not None and configurations > 1:
            raise InvalidInput(f"--save: saves one configuration of {configurations}; say which with --conf")
        if self.history is not None and configurations > 1:
            raise InvalidInput(f"--history: writes one configuration of {configurations}; say which with --conf")
        for field in fields(self):
            path: Path | None = getattr(self, field.name)
            if path is None:
                continue
            try:
                if path is self.history:
                    path.mkdir(parents=True, exist_ok=True)
                    if any(path.glob("*.jsonl*")):
                        raise InvalidInput(f"--history {str(path)!r}: there is a history in it already")
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("ab"):
                    pass
            except OSError as exc:
                raise InvalidInput(f"--{field.name} {str(path)!r}: {exc.strerror}") from exc


@dataclass(frozen=True, slots=True)
class StudyOptions:
    """The command line's seeds, processes and rules."""

    seed: int | None = None
    seeds: str | None = None
    split: str | None = None
    until_sure: str | None = None
    workers: int | None = None
    fail_if: tuple[str, ...] = ()
    fail_unless: tuple[str, ...] = ()
    primary: str = PRIMARY

    @property
    def many(self) -> bool:
        """Report whether this is a study of many seeds, or of the parts of a trace."""
        return self.seeds is not None or self.split is not None or self.until_sure is not None

    def as_bundled(self) -> dict[str, Any]:
        """The bundle's description of them."""
        names = ("seed", "seeds", "split", "until_sure", "primary")
        return {name: getattr(self, name) for name in names}

    def gates(self) -> list[Gate]:
        """The rules for CI."""
        found = []
        for option, rules, unless in (("--fail-if", self.fail_if, False), ("--fail-unless", self.fail_unless, True)):
            try:
                found += [parse_gate(text, unless=unless) for text in rules]
            except InvalidInput as exc:
                raise typer.BadParameter(str(exc), param_hint=option) from exc
        return found

    def figure(self) -> str:
        """The figure that was declared to judge by."""
        try:
            return metric(self.primary).key
        except InvalidInput as exc:
            raise typer.BadParameter(str(exc), param_hint="--for") from exc

    def numbers(self) -> list[int] | None:
        """The seeds, or nothing where the figures decide how many there are."""
        if self.seed is not None:
            raise typer.BadParameter("say --seed or --seeds, not both", param_hint="--seed")
        try:
            return None if self.seeds is None else parse_seeds(self.seeds)
        except InvalidInput as exc:
            raise typer.BadParameter(str(exc), param_hint="--seeds") from exc

    def cut(self, scenario: SimScenario) -> tuple[SimScenario, list[int] | None]:
        """The scenario with its traces cut into parts if that is asked for, and the seeds or parts to play."""
        if self.split is None:
            return scenario, self.numbers()
        for name in ("seed", "seeds", "until_sure"):
            if getattr(self, name) is not None:
                raise typer.BadParameter(
                    f"plays every part once, so without --{name.replace('_', '-')}", param_hint="--split"
                )
        try:
            scenario = scenario.split_into(parse_length(self.split))
        except InvalidInput as exc:
            raise typer.BadParameter(str(exc).removeprefix("--split: "), param_hint="--split") from exc
        assert scenario.split is not None
        return scenario, list(scenario.split.numbers)

    def sure(self) -> Sure | None:
        """When the figures are sure enough."""
        try:
            return None if self.until_sure is None else parse_sure(self.until_sure, self.figure())
        except InvalidInput as exc:
            raise typer.BadParameter(str(exc), param_hint="--until-sure") from exc


def say_warnings(scenario: SimScenario) -> None:
    """Say what is doubtful about the runs, each thing once."""
    said = {text: None for name in scenario.configurations for text in scenario.setting_of(name).warnings}
    for text in said:
        render.warning(text)


def say_later_warnings(warnings: Iterable[str], scenario: SimScenario, said: Iterable[str]) -> None:
    """Say what turned out to be doubtful while it was played; what was *said* already is left out."""
    before = {*said, *(text for name in scenario.configurations for text in scenario.setting_of(name).warnings)}
    for text in warnings:
        if not text.endswith(tuple(before)):
            render.warning(text)


CANNOT_TELL = 3
"""The exit code of a command of which a rule can be neither kept nor broken."""


def say_gate(ruling: Ruling) -> int:
    """Say what became of a rule, and return the exit code that follows: 0, 1 or `CANNOT_TELL`."""
    option = "--fail-unless" if ruling.gate.unless else "--fail-if"
    text = f"{option} {ruling.gate.text!r}: {effects.ruling(ruling)}"
    if ruling.broken:
        render.error(text)
        return 1
    if not ruling.sound:
        render.error(f"{text}; this cannot be judged")
        return 1
    if ruling.broken is None:
        render.error(f"{text}; cannot tell, play more seeds")
        return CANNOT_TELL
    return 0


def end(failed: bool, codes: Iterable[int] = ()) -> None:
    """End the command with 1 if something failed or a rule is broken, else with 3 if a rule cannot be told."""
    found = {*codes, int(failed)}
    if found - {0}:
        raise typer.Exit(1 if 1 in found else CANNOT_TELL)


def play_study(scenario: SimScenario, files: Files, wanted: StudyOptions, output: StudyOutput) -> None:
    """Play every configuration on many seeds; print and write what they say together."""
    scenario, seeds = wanted.cut(scenario)
    sure, gates, figure = wanted.sure(), wanted.gates(), wanted.figure()
    for name in ("log", "save", "history"):
        if getattr(files, name) is not None:
            raise typer.BadParameter("is for one seed; say --seed", param_hint=f"--{name}")
    files.prepare(1)
    say_warnings(scenario)
    if not scenario.is_drawn:
        render.warning("nothing in this scenario is drawn from the seed: every seed may give the same run")
    first = seeds[0] if seeds else scenario.setting.seed
    processes = min(wanted.workers or usable_cores(), len(seeds or [1] * MOST_SEEDS) * len(scenario.configurations))
    total = None if sure or seeds is None else len(seeds) * len(scenario.configurations)
    with _records(files.record) as write, study_bar(total) as tell, executor_of(processes) as executor:

        def watch(done: Played | Lost) -> None:
            tell()
            write(done)
            say_what_failed(done)

        runs = run_all(
            scenario,
            seeds if seeds is not None else seeds_from(first),
            executor=executor,
            keep=lambda task: files.record is not None or (files.report is not None and task.seed == first),
            watch=watch,
            enough=sure,
            most=len(seeds) if seeds is not None else MOST_SEEDS,
        )
    if files.record is not None:  # as they came while it ran; now in order, so that equal studies write equal files
        packed = (done.packed_record + b"\n" for _, done in _ordered(runs) if not done.failure)
        write_output("--record", files.record, b"".join(packed))
    if not runs.complete_seeds():
        render.error("no seed was played to its end under all configurations")
        raise typer.Exit(1)
    comparison = compare_seeds(
        runs.summaries(), primary=figure, alpha=LOOK_ALPHA if sure is not None and sure.metric.key == figure else ALPHA
    )
    if files.report is not None:
        records = [done.record() for task, done in _ordered(runs) if task.seed == first and done.packed_record]
        write_output("--report", files.report, html_seeds(comparison, records, title=scenario.name))
    data = {
        "runs": [msgspec.to_builtins(done.summary) for _, done in _ordered(runs)],
        "comparison": msgspec.to_builtins(comparison),
    }
    if output is StudyOutput.JSON:
        render.data(data)
    else:
        wide = output is StudyOutput.WIDE
        show_seeds(scenario.name, comparison, next(iter(runs.summaries().values())), whole=wide)
    if files.report is not None:
        render.note(f"The report is in {files.report}")
    never = [text for done in runs.played.values() for text in done.never_fit]
    say_later_warnings(comparison.warnings, scenario, never)
    if runs.interrupted:
        render.error(
            f"interrupted; {effects.seeds(comparison.seeds, comparison.each)} went to the end under all configurations"
        )
    if sure is not None:
        say_look(sure, sure.look(runs.summaries()))
    codes = [say_gate(judge_seeds(gate, comparison)) for gate in gates]
    wrong = any(done.failure or done.never_fit for done in runs.played.values())
    whole = [(task, done) for task, done in _ordered(runs) if not done.failure]
    wrong |= bundled(
        scenario,
        files.bundle,
        wanted,
        [BundledRun(task.configuration, task.seed, done.digest) for task, done in whole],
        data,
    )
    end(runs.interrupted or bool(runs.lost) or wrong, codes)


def bundled(
    scenario: SimScenario, path: Path | None, wanted: StudyOptions, runs: list[BundledRun], data: Mapping[str, Any]
) -> bool:
    """Write the bundle that is asked for, and compare with the one that was played; report whether they differ."""
    again, unlike = (0, []) if scenario.bundle is None else scenario.bundle.unlike(runs)
    if scenario.bundle is not None and unlike:
        others = other_versions(scenario.bundle)
        render.error(
            f"{len(unlike)} of {counted(again, 'run')} gave something else than in the bundle, the first is "
            f"{unlike[0].configuration}, seed {unlike[0].seed}" + (f"; it was made with {others}" if others else "")
        )
    elif again:
        render.note(f"The same results as in the bundle: {counted(again, 'run')}, digest {digest_of_runs(runs)}")
    if path is not None:
        with open_output("--bundle", path) as stream:
            write_bundle(stream, pack(scenario, wanted.as_bundled(), runs, msgspec.json.encode(data)))
        render.note(f"The bundle is in {path}: {counted(len(runs), 'run')}, digest {digest_of_runs(runs)}")
    return bool(unlike)


def say_look(sure: Sure, look: Look) -> None:
    """Say how sure the figure is after the last look, and how many seeds would do if it is not."""
    said, looks = effects.look(look, sure.metric), f"{', '.join(map(str, LOOKS[:-1]))} and {LOOKS[-1]}"
    at = f"looked at {looks} seeds; {100 * (1 - LOOK_ALPHA):.1f} % at each, so 95 % in all"
    if look.sure:
        render.note(f"Sure after {look.seeds} seeds: {said} ({at})")
    else:
        wanted = effects.seeds_wanted(look, sure.part)
        render.warning(f"--until-sure: not sure after {look.seeds} seeds: {said} ({at}){wanted}")


def show_seeds(title: str, comparison: SeedComparison, first: Mapping[int, Summary], *, whole: bool = False) -> None:
    """Print what many seeds say, of two configurations six figures or the *whole*; *first* are the first's runs."""
    one = next(iter(first.values()))
    jobs = counted(sum(first[seed].total.jobs for seed in comparison.seeds), "job")
    runs = f"{jobs} in {counted(len(comparison.seeds), 'run')} of each configuration"
    render.heading(title, f"{units.machines(one)}, {runs} ({effects.seeds(comparison.seeds, comparison.each)})")
    render.show(render_seeds(comparison, whole=whole))


def say_what_failed(done: Played | Lost) -> None:
    """Name a run that was lost or stopped, and the jobs that can never fit."""
    if isinstance(done, Lost):
        render.error(f"{done.task}: lost: {done.why}")
        return
    if done.failure:
        render.error(f"{done.task}: stopped: {done.failure}; it does not count")
    for text in done.never_fit:
        render.error(f"{done.task}: {text}")


def _ordered(runs: Runs) -> list[tuple[StudyRun, Played]]:
    """The runs seed by seed, in the order of configurations."""
    order = {name: at for at, name in enumerate(runs.configurations)}
    return sorted(runs.played.items(), key=lambda item: (item[0].seed, order[item[0].configuration]))


@contextmanager
def executor_of(processes: int) -> Iterator[LocalExecutor | None]:
    """Processes to play in; none where one is enough. Whatever still runs at the end is ended."""
    if processes == 1:
        yield None
        return
    executor = LocalExecutor(processes)
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)


class _Writer:
    """Writes records as runs end, so that whatever happens later keeps them."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._stream = stream

    def __call__(self, done: Played | Lost) -> None:
        if self._stream is not None and isinstance(done, Played) and done.packed_record:
            self._stream.write(done.packed_record + b"\n")
            self._stream.flush()


@contextmanager
def _records(path: Path | None) -> Iterator[_Writer]:
    with open_output("--record", path) if path is not None else nullcontext() as stream:
        yield _Writer(stream)
