"""A broken trace is told by file, line, column, value and rule; nothing is skipped in silence."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.sim.traces import Format, TraceError, read, read_nodes

OPENB = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time,scheduled_time\n"
PHILLY = "job_id,submit_s,duration_s,num_gpus,vc\n"
NATIVE = "job,submit_s,duration_s,tasks,min_available,cpu,memory,gpu,gpu_fraction,priority\n"
SWF = "; header\n"
QUANTITY = "must be a Kubernetes quantity of at least 0, such as 500m, 2 or 4Gi"
FRACTION = "must be a multiple of 0.001 above 0 and up to 1"
CELLS = ["0", "1", "-1", "5", "1e400", "inf", "nan", "9" * 30, "", "x", '"', "0.5", "2Gi", "²"]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (PHILLY + "0,0,9,1,a\n1,x,9,1,a\n", 3, "submit_s: must be a number of seconds of at least 0, got 'x'"),
        (PHILLY + "0,0,-9,1,a\n", 2, "duration_s: must be a number of seconds of at least 0, got '-9'"),
        (PHILLY + "0,0,nan,1,a\n", 2, "duration_s: must be a number of seconds of at least 0, got 'nan'"),
        (PHILLY + "0,1_0,9,1,a\n", 2, "submit_s: must be a number of seconds of at least 0, got '1_0'"),
        (PHILLY + "0,0,9,0,a\n", 2, "num_gpus: must be a whole number from 1 to 1000000000000, got '0'"),
        (PHILLY + "0,0,9,1.5,a\n", 2, "num_gpus: must be a whole number from 1 to 1000000000000, got '1.5'"),
        (PHILLY + "0,0,9,1,\n", 2, "vc: must not be empty, got ''"),
        (PHILLY + "0,0,9,1,a\n0,0,9,1,a\n", 3, "job_id: must be unique, got '0'"),
        (PHILLY + "0,0,9,1,a\n\n1,0,9,1\n", 4, "must have 5 values as the header, has 4"),
        (PHILLY + '0,0,9,1,"a\n', 2, "must be one CSV record on one line (unexpected end of data)"),
        ("job_id,submit_s,duration_s,num_gpus,vc,vc\n", 1, "vc: the header names this column twice"),
        (OPENB + "p,1,1,2,0,,LS,0,9,0\n", 2, "gpu_milli: must be 0 exactly where num_gpu is 0 (num_gpu is 2), got '0'"),
        (
            OPENB + "p,1,1,1,1001,,LS,0,9,0\n",
            2,
            "gpu_milli: must be at most 1000, thousandths of each device, got '1001'",
        ),
        (OPENB + "p,1,1,0,0,,LS,10,9,\n", 2, "deletion_time: must not be before creation_time (10), got '9'"),
        (
            OPENB + "p,1,1,0,0,,LS,1,9,10\n",
            2,
            "scheduled_time: must be between creation_time (1) and deletion_time (9), got '10'",
        ),
        (OPENB + "p,1,1,0,0,,LS,1,9,2\np,1,1,0,0,,LS,1,9,2\n", 3, "name: must be unique, got 'p'"),
        (SWF + "1 0 -1 5 1\n", 2, "must have 18 numbers, has 5"),
        (SWF + "1 0 -1 five" + " 1" * 14 + "\n", 2, "run time: must be a number, got 'five'"),
        (SWF + "1 0 -1 5 1.5" + " 1" * 13 + "\n", 2, "allocated processors: must be a whole number, got '1.5'"),
        (SWF + "1 -7 -1 5 1" + " 1" * 13 + "\n", 2, "submit time: must be at least 0, got '-7'"),
        (SWF + ("1 7 -1 5 1" + " 1" * 13 + "\n") * 2, 3, "job number: must be unique, got '1'"),
        (NATIVE + "a,0,soon,1,,,,,,\n", 2, "duration_s: must be a number of seconds of at least 0, got 'soon'"),
        (NATIVE + "a,0,1,0,,,,,,\n", 2, "tasks: must be a whole number from 1 to 1000000, got '0'"),
        (NATIVE + "a,0,1,2,3,,,,,\n", 2, "min_available: must be at most the number of tasks (2), got '3'"),
        (NATIVE + "a,0,1,1,,2x,,,,\n", 2, f"cpu: {QUANTITY}, got '2x'"),
        (NATIVE + "a,0,1,1,,,-1Gi,,,\n", 2, f"memory: {QUANTITY}, got '-1Gi'"),
        (NATIVE + "a,0,1,1,,,9000Ei,,,\n", 2, f"memory: {QUANTITY}, got '9000Ei'"),
        (NATIVE + "a,0,1,1,,,,0,0.5,\n", 2, "gpu: must be at least 1, or empty, where gpu_fraction is given, got '0'"),
        (NATIVE + "a,0,1,1,,,,,1.5,\n", 2, f"gpu_fraction: {FRACTION}, got '1.5'"),
        (NATIVE + "a,0,1,1,,,,,0.0005,\n", 2, f"gpu_fraction: {FRACTION}, got '0.0005'"),
        (NATIVE + "a,0,1,1,,,,,1/2,\n", 2, f"gpu_fraction: {FRACTION}, got '1/2'"),
        (
            NATIVE + "a,0,1,1,,,,,,high\n",
            2,
            "priority: must be a whole number from -2147483648 to 2147483647, got 'high'",
        ),
        (
            NATIVE + "a,0,1,1,,,,,,\nb,0,1,1,,,,,,\na,0,1,1,,,,,,\n",
            4,
            "job: must be unique; the lines of one job must follow each other, got 'a'",
        ),
        (
            NATIVE + "a,0,1,1,,,,,,\na,2,,1,,,,,,\n",
            3,
            "submit_s: must be empty or as in the job's first line (0.0), got '2'",
        ),
        (
            "job,submit_s,duration_s,taks\n",
            1,
            "taks: no column of this format; the columns are job, submit_s, duration_s, tasks, min_available, cpu, "
            "memory, gpu, gpu_fraction, gpu_models, queue, user, priority, declared_s",
        ),
    ],
)
def test_a_broken_line_is_named_with_its_place_and_rule(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TraceError) as caught:
        read(path)
    assert str(caught.value) == f"{path}:{line}: {message}"
    assert (caught.value.file, caught.value.line) == (path, line)


def test_a_broken_line_outside_the_window_is_found_too(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(PHILLY + "0,0,9,1,a\n1,5,nine,1,a\n", encoding="utf-8")
    with pytest.raises(TraceError, match=":3: duration_s:"):
        read(path, window=(0, 1), limit=1)


def test_a_header_without_a_needed_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("job_id,submit_s\n1,2\n", encoding="utf-8")
    with pytest.raises(TraceError) as caught:
        read(path, "philly")
    assert str(caught.value) == f"{path}:1: duration_s: the header has no such column"
    assert caught.value.column == "duration_s"


def test_a_file_of_no_known_format_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("hello world\n", encoding="utf-8")
    with pytest.raises(TraceError, match=":1: the format is not recognised; known are openb, philly, swf, native"):
        read(path)


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_an_empty_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TraceError, match="is empty"):
        read(path)
    with pytest.raises(TraceError, match="is empty; must start with a header that names job, submit_s, duration_s"):
        read(path, "native")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"cannot be read \(No such file or directory\)"):
        read(tmp_path / "nowhere.csv")
    with pytest.raises(TraceError, match=r"cannot be read \(Is a directory\)"):
        read(tmp_path)


def test_a_line_that_is_not_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(PHILLY.encode() + b"0,0,9,1,\xff\n")
    with pytest.raises(TraceError, match=":2: must be UTF-8 text"):
        read(path)


def test_a_packed_file_that_was_cut_off_is_named_with_the_line_reached(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    packed = gzip.compress((PHILLY + "".join(f"{n},{n * 7919 % 9973},9,1,a\n" for n in range(5000))).encode())
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(TraceError, match="the gzip file is damaged or cut off") as caught:
        read(path)
    assert caught.value.line is not None
    assert caught.value.line > 2


def test_a_broken_node_list_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "nodes.csv"
    path.write_text("sn,cpu_milli,memory_mib,gpu,model\nn0,1,1,1,T4\nn0,1,1,1,T4\n", encoding="utf-8")
    with pytest.raises(TraceError, match=":3: sn: must be unique, got 'n0'"):
        read_nodes(path)


def test_a_long_value_is_shortened_in_the_message(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(PHILLY + f"0,{'x' * 10_000},9,1,a\n", encoding="utf-8")
    with pytest.raises(TraceError) as caught:
        read(path)
    assert len(str(caught.value)) < len(str(path)) + 200


@given(st.binary(max_size=200), st.sampled_from(["openb", "philly", "swf", "native", None]))
def test_no_content_whatsoever_raises_anything_but_a_trace_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, kind: Format | None
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.dat"
    path.write_bytes(content)
    try:
        read(path, kind)
    except TraceError as error:
        assert error.file == path


@given(st.lists(st.lists(st.sampled_from(CELLS), min_size=10, max_size=10), max_size=4))
def test_no_cells_whatsoever_raise_anything_but_a_trace_error(
    tmp_path_factory: pytest.TempPathFactory, lines: list[list[str]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "cells.csv"
    for header in (NATIVE, OPENB):
        path.write_text(header + "".join(",".join(line) + "\n" for line in lines), encoding="utf-8")
        try:
            read(path)
        except TraceError as error:
            assert error.line is not None
