"""What a search for victims may cost, and what becomes of one that costs more."""

from __future__ import annotations

from typing import Any

import pytest
from kai_cases import cluster, decided, job, node, queue

from pumice.kai.search.solver import COST, SearchBudget, Solver


def reclaims(**budgets: Any) -> dict[str, str]:
    """Two jobs of one queue ask for what another holds."""
    return decided(
        cluster(
            *(node("n1", gpu=2), queue("a"), queue("b", quota=2)),
            *(job(f"held{n}", "a", on=("n1",), minute=n) for n in range(2)),
            *(job(f"asks{n}", "b", minute=n + 5) for n in range(2)),
            actions="reclaim",
            conf={"scenarioSearchBudgets": budgets},
        )
    )


def test_a_job_that_spends_the_budget_of_its_action_is_the_last_of_the_cycle() -> None:
    everybody, first = reclaims(), reclaims(maxActionSearchDuration={"reclaim": "10ms"})
    assert [everybody["asks0-0"], everybody["asks1-0"]] == ["Pipelined n1"] * 2
    assert [first["asks0-0"], first["asks1-0"]] == ["Pipelined n1", "Pending"]


def test_a_job_has_its_least_budget_also_when_the_action_has_none_left() -> None:
    got = reclaims(maxActionSearchDuration={"reclaim": "10ms"}, minJobSearchDuration="1s")
    assert got["asks1-0"] == "Pipelined n1"


def test_other_actions_have_their_own_budgets_and_nothing_is_without_end() -> None:
    assert reclaims(maxActionSearchDuration={"preempt": "1ms"}) == reclaims()
    assert reclaims(maxActionSearchDuration={"default": "1ms"})["asks0-0"] == "Pending"
    assert reclaims(maxActionSearchDuration={"default": "0s"}) == reclaims()


def test_a_generator_that_spent_its_budget_gives_way_to_the_next() -> None:
    budget = SearchBudget("reclaim", {"maxGeneratorSearchDuration": {"NodeLocalGreedy": 2 * COST}})
    assert budget.begin_job()
    budget.begin_generator("kai/sg-nodelocalgreedy")
    budget.spend()
    budget.spend()
    assert (budget.left, budget.over) == (False, False)
    budget.begin_generator("kai/sg-multinodegang")
    assert budget.left


@pytest.mark.parametrize(("quota", "played"), [(8, False), (7, False), (6, True)])
def test_where_others_may_not_lose_enough_and_nothing_is_free_no_scenario_is_played(
    quota: int, played: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every set of victims would be found illegal, one after the other, until the budget is spent."""
    asked: list[int] = []
    simulate = Solver.simulate

    def counting(self: Solver, *args: Any) -> Any:
        asked.append(1)
        return simulate(self, *args)

    monkeypatch.setattr(Solver, "simulate", counting)
    case = cluster(
        *(node("n1", gpu=8), queue("a", quota=quota, weight=0), queue("b", quota=8, weight=0)),
        *(job(f"old{n}", "a", on=("n1",), minute=n) for n in range(8)),
        job("gang", "b", pods=2, minute=20),
        actions="allocate, reclaim",
    )
    assert ("Pending" in decided(case).values()) is not played
    assert bool(asked) is played


def test_a_scenario_that_is_known_to_hold_is_paid_for_as_if_it_were_played_again() -> None:
    """The search is one for a part, which here is all, and one for all: two scenarios, of which one is played."""
    once, twice = (reclaims(maxActionSearchDuration={"reclaim": f"{n * COST}s"}) for n in (1, 2))
    assert [once["asks0-0"], twice["asks0-0"]] == ["Pending", "Pipelined n1"]
