"""What is KAI's way with ``compat: kai``, and the right one without."""

from __future__ import annotations

import pytest
from kai_cases import cluster, decided, job, node, queue
from kai_plans import fraction_evicted_beside_promises, twice_evicted, undone_move

LEVELS = {"metadata": {"name": "net"}, "spec": {"levels": [{"nodeLabel": "zone"}, {"nodeLabel": "host"}]}}
IN_A_ZONE = {"topologyConstraint": {"topology": "net", "requiredTopologyLevel": "zone"}}


@pytest.mark.parametrize(("compat", "does"), [(None, "Pipelined n1"), ("kai", "Pending")])
def test_a_required_level_is_met_although_one_node_alone_may_get_room(compat: str | None, does: str) -> None:
    case = cluster(
        *(node("n1", gpu=2, zone="a", host="n1"), node("n2", zone="a", host="n2"), LEVELS, queue("q", quota=4)),
        job("low", "q", on=("n1", "n1"), pods=2, priority="low"),
        job("high", "q", pods=2, minute=1, spec=IN_A_ZONE),
    )
    got = decided(case, compat)
    assert {got["high-0"], got["high-1"]} == {does}


@pytest.mark.parametrize(("compat", "lands"), [(None, "n2"), ("kai", "n1")])
def test_a_victim_that_would_return_before_it_got_away_is_promised_the_place_that_was_found(
    compat: str | None, lands: str
) -> None:
    assert twice_evicted(compat) == lands


@pytest.mark.parametrize(("compat", "counts"), [(None, (1, 1)), ("kai", (0, 1))])
def test_promises_on_a_node_do_not_take_a_gpu_from_it(compat: str | None, counts: tuple[int, int]) -> None:
    assert fraction_evicted_beside_promises(compat) == counts


@pytest.mark.parametrize(("compat", "used"), [(None, 0.5), ("kai", 1.0)])
def test_a_move_between_gpus_that_is_taken_back_leaves_nothing_behind(compat: str | None, used: float) -> None:
    assert undone_move(compat) == used
