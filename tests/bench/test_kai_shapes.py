"""KAI's benchmarks, small: each has the answer that it says is right, and a search that must fail is not begun."""

from collections.abc import Callable

import pytest
from pumice_bench import kai_shapes
from pumice_bench.run import conf_of, measure
from pumice_bench.shape import Shape

from pumice.config import from_data
from pumice.framework.registry import default_registry
from pumice.framework.session.runtime import Runtime
from pumice.model.events import Seen
from pumice.scheduler.assembly import assemble, catalogue_of
from pumice.scheduler.cycle import run_cycle
from pumice.scheduler.report import CycleReport
from pumice.state.cluster import ClusterState

SMALL: dict[str, Callable[[], Shape]] = {
    "kai-allocate": lambda: kai_shapes.allocate(4, 20),
    "kai-reclaim-idle": lambda: kai_shapes.reclaim_idle(4, 16),
    "kai-preempt": lambda: kai_shapes.preempt(4, 16),
    "kai-consolidation-half": lambda: kai_shapes.consolidation_half(4, 16),
    "kai-fill": lambda: kai_shapes.fill(4),
    "kai-fill-beside": lambda: kai_shapes.fill_beside(4, 6),
    "kai-topology": lambda: kai_shapes.spread(1, near=True),
    "kai-topology-anywhere": lambda: kai_shapes.spread(1),
    "kai-reclaim": lambda: kai_shapes.reclaim(20),
    "kai-reclaim-in-vain": lambda: kai_shapes.reclaim_in_vain(20),
    "kai-reclaim-half": lambda: kai_shapes.reclaim_half(6),
    "kai-reclaim-last": lambda: kai_shapes.reclaim_last(4, 2),
    "kai-reclaim-singles": lambda: kai_shapes.reclaim_singles(3),
    "kai-reclaim-gangs": lambda: kai_shapes.reclaim_gangs(20),
    "kai-reclaim-full": lambda: kai_shapes.reclaim_full(6),
    "kai-consolidation": lambda: kai_shapes.consolidation(50),
    "kai-idle": lambda: kai_shapes.idle(20),
    "kai-steady": lambda: kai_shapes.idle(20, gangs=3, cycles=3),
}


def decided(shape: Shape) -> tuple[CycleReport, ClusterState]:
    registry = default_registry()
    assembly = assemble(from_data(conf_of(shape, registry), catalogue_of(registry)).conf, registry)
    state = ClusterState()
    state.now = 1_800_000_000.0
    state.apply_all(Seen(obj) for obj in [*shape.objects, *shape.cycles[0][0]])
    return run_cycle(state, assembly, Runtime()), state


def test_every_shape_is_tried() -> None:
    assert SMALL.keys() == kai_shapes.KAI_SHAPES.keys()


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.part(5)
def test_the_answer_is_right(name: str) -> None:
    assert measure(SMALL[name]()).wrong == []


def test_a_gang_that_likes_to_be_in_one_rack_is_in_one_zone_where_no_less_holds_it() -> None:
    report, state = decided(kai_shapes.spread(1, near=True))
    zones = {state.nodes[node].labels["zone"] for node in report.binds.values()}
    assert (len(report.binds), len(zones)) == (256, 1)


@pytest.mark.parametrize("short", range(9))
@pytest.mark.parametrize("each", [1, 2, 4, 8])
@pytest.mark.part(16)
def test_a_gang_is_helped_if_the_last_job_goes_while_its_queue_is_above_its_quota(each: int, short: int) -> None:
    assert measure(kai_shapes.reclaim_last(4, 2, each, short)).wrong == []
