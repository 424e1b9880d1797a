"""What is written reads back the same."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.errors import InvalidInput
from pumice.sim.traces import TraceError, TraceJob, TracePod, read, write

TEXT = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="|"), min_size=1, max_size=8)
PODS = st.builds(
    lambda count, cpu, memory, gpu, models: TracePod(count, cpu, memory, gpu[0], gpu[1], tuple(models)),
    st.integers(1, 1_000_000),
    st.integers(0, 10**9),
    st.integers(0, 2**56 - 1),
    st.one_of(st.just((0, 0)), st.tuples(st.integers(1, 1000), st.integers(1, 16))),
    st.lists(TEXT, max_size=2),
)
SECONDS = st.floats(0, 1e9, allow_nan=False)


@st.composite
def jobs(draw: st.DrawFn) -> list[TraceJob]:
    made = []
    for name in draw(st.lists(TEXT.filter(lambda text: not text.startswith("#")), unique=True, max_size=4)):
        pods = tuple(draw(st.lists(PODS, min_size=1, max_size=3)))
        made.append(
            TraceJob(
                name,
                draw(SECONDS),
                draw(st.one_of(SECONDS, st.just(float("inf")))),
                pods,
                draw(st.integers(1, sum(pod.count for pod in pods))),
                draw(TEXT),
                draw(st.one_of(TEXT, st.just(""))),
                draw(st.integers(-(2**31), 2**31 - 1)),
                draw(st.one_of(SECONDS, st.none())),
            )
        )
    return sorted(made, key=lambda job: job.submit_s)


@given(jobs())
def test_what_is_written_reads_back_the_same(tmp_path_factory: pytest.TempPathFactory, trace: list[TraceJob]) -> None:
    stream = io.StringIO()
    write(trace, stream)
    path: Path = tmp_path_factory.getbasetemp() / "written.csv"
    path.write_text(stream.getvalue(), encoding="utf-8", newline="")
    assert list(read(path)) == trace


def test_text_that_the_format_cannot_carry_is_refused() -> None:
    job = TraceJob("a\nb", 0.0, 1.0, (TracePod(1),), 1)
    with pytest.raises(InvalidInput, match="text must have no blanks around it and no line break"):
        write([job], io.StringIO())


@pytest.mark.parametrize("text", ["Gi", "1 Gi", "1KI", "1gi", "1K", "--1", "-1", "1e", "1e999", "0x10", "١", "8Ei"])
@pytest.mark.parametrize("column", ["cpu", "memory"])
def test_what_is_no_quantity_of_a_pod_is_refused(tmp_path: Path, column: str, text: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"job,submit_s,duration_s,{column}\nj,0,1,{text}\n")
    with pytest.raises(TraceError, match=f"{column}: must be"):
        list(read(path))
