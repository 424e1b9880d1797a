"""Each reader gives the jobs that its format describes."""

from __future__ import annotations

import gzip
import math
import re
from pathlib import Path

import pytest

from pumice.errors import InvalidInput
from pumice.sim.traces import (
    OpenbOptions,
    PhillyOptions,
    SwfOptions,
    TraceError,
    TraceJob,
    TraceNode,
    TracePod,
    read,
    read_nodes,
    recognise,
)

OPENB = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
pod-b,6000,12288,1,460,V100M16|T4,LS,Running,100,900,130
pod-a,12000,16384,8,1000,,BE,Pending,40,90,
pod-c,1000,64,0,0,,Burstable,Failed,200,200,200
"""
PHILLY = """job_id,submit_s,duration_s,num_gpus,vc
0,0,10,1,aaa
1,5,20,20,bbb
2,9,30,16,aaa
"""
SWF = """; Version: 2
; MaxProcs: 128
    1        0     -1   1451  128     -1    -1   -1     -1    -1 -1   1   1  -1 -1 -1 -1 -1
    2     1460     -1     -1   64     -1    -1   -1     -1    -1 -1   1   1  -1 -1 -1 -1 -1
    3     2001     12   30.5   -1     -1    -1    4    100    -1 -1   7   2  -1  1 -1 -1 -1
"""


def file(tmp_path: Path, text: str, name: str = "trace") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_an_openb_pod_runs_from_its_start_to_its_deletion(tmp_path: Path) -> None:
    trace = read(file(tmp_path, OPENB))
    gib = 1024**3
    assert trace.format == "openb"
    assert [job.name for job in trace] == ["pod-a", "pod-b", "pod-c"]
    assert trace.jobs[1] == TraceJob(
        "pod-b", 100.0, 770.0, (TracePod(1, 6000, 12 * gib, 460, 1, ("V100M16", "T4")),), min_available=1
    )
    assert trace.jobs[0].duration_s == 50.0, "never started: runs for as long as it waited"
    assert trace.jobs[2].duration_s == 1.0, "shorter than the clock of the log"
    assert trace.notes == (
        "pods that never started in the log, which run for as long as they waited there: 1",
        "pods that ran for less than a second, which run for one: 1",
    )


def test_openb_pods_without_times_arrive_in_order_and_never_end(tmp_path: Path) -> None:
    five = "\n".join(",".join(line.split(",")[:5]) for line in OPENB.splitlines())
    without = read(file(tmp_path, five))
    ignored = read(file(tmp_path, OPENB), options=OpenbOptions(times=False))
    for trace in (without, ignored):
        assert [(job.name, job.submit_s, job.duration_s) for job in trace] == [
            ("pod-b", 0.0, math.inf),
            ("pod-a", 1.0, math.inf),
            ("pod-c", 2.0, math.inf),
        ]
    assert without.notes == ("pods without times, which arrive one second apart and never end: 3",)
    assert ignored.notes == ()


def test_openb_qos_classes_can_be_queues(tmp_path: Path) -> None:
    trace = read(file(tmp_path, OPENB), options=OpenbOptions(queue_by_qos=True))
    assert {job.name: job.queue for job in trace} == {"pod-a": "be", "pod-b": "ls", "pod-c": "burstable"}


def test_an_openb_node_list_gives_nodes(tmp_path: Path) -> None:
    path = file(tmp_path, "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,32000,1024,0,\n")
    assert read_nodes(path) == (
        TraceNode("n0", 64000, 256 * 1024**3, 2, "P100"),
        TraceNode("n1", 32000, 1024**3, 0, ""),
    )


def test_a_node_list_is_not_taken_for_a_trace(tmp_path: Path) -> None:
    path = file(tmp_path, "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\n")
    with pytest.raises(TraceError, match="is a list of nodes, not of jobs"):
        read(path)


@pytest.mark.parametrize(
    ("gpus", "pods"),
    [(1, [(1, 1)]), (8, [(1, 8)]), (12, [(1, 8), (1, 4)]), (20, [(2, 8), (1, 4)]), (128, [(16, 8)])],
)
def test_a_philly_job_is_a_gang_of_full_pods_and_a_rest(tmp_path: Path, gpus: int, pods: list[tuple[int, int]]) -> None:
    trace = read(file(tmp_path, f"job_id,submit_s,duration_s,num_gpus,vc\n7,3,60,{gpus},abc\n"))
    (job,) = trace.jobs
    assert [(pod.count, pod.gpu_devices) for pod in job.pods] == pods
    assert all(pod.gpu_milli == 1000 for pod in job.pods)
    assert job.min_available == job.tasks == sum(count for count, _ in pods)
    assert job.gpus == gpus
    assert (job.name, job.submit_s, job.duration_s, job.queue) == ("philly-000007", 3.0, 60.0, "abc")


def test_philly_options_say_what_the_table_does_not(tmp_path: Path) -> None:
    options = PhillyOptions(gpus_per_pod=4, cpu_milli_per_gpu=6000, memory_bytes_per_gpu=2**30)
    trace = read(file(tmp_path, PHILLY), options=options)
    assert trace.jobs[0].pods == (TracePod(1, 6000, 2**30, 1000, 1),)
    assert trace.jobs[1].pods == (TracePod(5, 24000, 4 * 2**30, 1000, 4),)


def test_an_swf_job_is_a_gang_of_one_pod_per_processor(tmp_path: Path) -> None:
    trace = read(file(tmp_path, SWF))
    assert trace.jobs == (
        TraceJob("swf-000001", 0.0, 1451.0, (TracePod(128, 1000),), 128, user="user-1"),
        TraceJob("swf-000003", 2001.0, 30.5, (TracePod(4, 1000),), 4, user="user-7", run_time_declared_s=100.0),
    )
    assert trace.notes == ("jobs without a positive run time and size, left out: 1",)


@pytest.mark.parametrize(
    ("queue_by", "queues"),
    [("queue", ["default", "queue-1"]), ("group", ["group-1", "group-2"]), ("none", ["default"] * 2)],
)
def test_swf_queues_come_from_the_field_that_was_named(tmp_path: Path, queue_by: str, queues: list[str]) -> None:
    trace = read(file(tmp_path, SWF), options=SwfOptions(queue_by=queue_by))  # type: ignore[arg-type]
    assert [job.queue for job in trace] == queues


def test_the_documented_example_reads_as_documented(tmp_path: Path) -> None:
    docs = Path(__file__).parents[4] / "docs" / "traces.md"
    example = re.search(r"```csv\n(.*?)```", docs.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    gib = 1024**3
    assert read(file(tmp_path, example[1])).jobs == (
        TraceJob(
            "train-1", 0.0, 7200.0, (TracePod(4, 32000, 256 * gib, 1000, 8, ("A100", "H100")),), 4, "research", "ada",
            100, 10800.0,
        ),
        TraceJob("sweep", 30.5, 600.0, (TracePod(6, 4000, 16 * gib, 1000, 1),), 2, "research", "ada"),
        TraceJob("notebook", 60.0, 3600.0, (TracePod(1, 2000, 8 * gib, 500, 1),), 1, "default", "grace"),
        TraceJob(
            "spark", 90.0, 1800.0, (TracePod(1, 1000, 2 * gib), TracePod(8, 4000, 16 * gib)), 9, "batch", "linus"
        ),
    )  # fmt: skip


def test_every_column_of_the_documentation_is_a_column_of_the_reader() -> None:
    from pumice.sim.traces.native import COLUMNS

    docs = (Path(__file__).parents[4] / "docs" / "traces.md").read_text(encoding="utf-8")
    table = docs.split("## Our own format")[1].split("A job with several kinds")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == COLUMNS


@pytest.mark.parametrize(
    ("text", "format_"),
    [
        (OPENB, "openb"),
        (PHILLY, "philly"),
        (SWF, "swf"),
        (SWF.splitlines()[2], "swf"),
        ("job,submit_s,duration_s\n", "native"),
        ("\ufeff# ours\n\njob,submit_s,duration_s\n", "native"),
    ],
)
def test_a_format_is_recognised_by_its_first_line(tmp_path: Path, text: str, format_: str) -> None:
    assert recognise(file(tmp_path, text, "any.dat")) == format_


def test_a_packed_file_reads_as_the_plain_one_whatever_its_name(tmp_path: Path) -> None:
    plain = read(file(tmp_path, PHILLY))
    packed = tmp_path / "packed.csv"
    packed.write_bytes(gzip.compress(PHILLY.encode()))
    assert read(packed).jobs == plain.jobs


def test_a_window_takes_its_start_and_not_its_end(tmp_path: Path) -> None:
    path = file(tmp_path, PHILLY)
    assert [job.submit_s for job in read(path, window=(5, 9))] == [5.0]
    assert [job.submit_s for job in read(path, window=(0, 10), limit=2)] == [0.0, 5.0]


def test_times_are_compressed_to_whole_seconds_then_rebased(tmp_path: Path) -> None:
    path = file(tmp_path, PHILLY)
    assert [job.submit_s for job in read(path, compress=2)] == [0.0, 2.0, 4.0]
    assert [job.submit_s for job in read(path, window=(5, 99), compress=2, rebase=True)] == [0.0, 2.0]


def test_declared_run_times_are_the_traces_or_exact_or_none(tmp_path: Path) -> None:
    path = file(tmp_path, SWF)
    assert [job.run_time_declared_s for job in read(path)] == [None, 100.0]
    assert [job.run_time_declared_s for job in read(path, estimates="exact")] == [1451.0, 30.5]
    assert [job.run_time_declared_s for job in read(path, estimates="none")] == [None, None]


def test_a_job_that_never_ends_declares_no_run_time(tmp_path: Path) -> None:
    trace = read(file(tmp_path, OPENB), options=OpenbOptions(times=False), estimates="exact")
    assert [job.run_time_declared_s for job in trace] == [None] * 3


def test_jobs_submitted_together_keep_the_order_of_the_file(tmp_path: Path) -> None:
    path = file(tmp_path, "job,submit_s,duration_s\nz,5,1\na,5,1\nm,1,1\nb,5,1\n")
    assert [job.name for job in read(path)] == ["m", "z", "a", "b"]


def test_wrong_arguments_are_refused_by_name(tmp_path: Path) -> None:
    path = file(tmp_path, PHILLY)
    with pytest.raises(InvalidInput, match="window: the start must be before the end, got 9 to 5"):
        read(path, window=(9, 5))
    with pytest.raises(InvalidInput, match="limit: must be at least 0, got -1"):
        read(path, limit=-1)
    with pytest.raises(InvalidInput, match="compress: must be a number above 0, got 0"):
        read(path, compress=0)
    with pytest.raises(InvalidInput, match="SwfOptions are not those of format 'philly'"):
        read(path, options=SwfOptions())
    with pytest.raises(InvalidInput, match="format: must be one of openb, philly, swf, native, got 'csv'"):
        read(path, "csv")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="gpus_per_pod: must be at least 1, got 0"):
        PhillyOptions(gpus_per_pod=0)
    with pytest.raises(InvalidInput, match="cpu_milli: must be at least 1, got 0"):
        SwfOptions(cpu_milli=0)
