"""Forecasts that are kept: one play for all who ask, told with its age, made anew beside them, never told for long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from answer_desks import desk, proven

from pumice.answers.service import Answers
from pumice.answers.when import forecast
from pumice.answers.when.answer import WhenAnswer
from pumice.answers.when.forecast import FRESH, KEPT, Forecasts
from pumice.answers.when.forward import NO_SCENE
from pumice.model.events import Gone, Seen
from pumice.testing import job, node

NAMES = ("first", "second", "third")


def crowd() -> Answers:
    """A full node, and who waits for it."""
    waiting = (job(name, tasks=4, cpu=2) for name in NAMES)
    return desk(node("n1", cpu=8), job("runs", tasks=4, cpu=2, on="n1"), *waiting, learned=proven())


@pytest.fixture
def plays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The instants that were played for everybody."""
    made: list[float] = []
    play = forecast.when_all

    def counted(scene: Any, learned: Any, only: str = "") -> Mapping[str, WhenAnswer]:
        if not only:
            made.append(scene.now)
        return play(scene, learned, only)

    monkeypatch.setattr(forecast, "when_all", counted)
    return made


def test_one_play_answers_all_who_ask_and_as_a_play_for_each_would(plays: list[float]) -> None:
    alone = crowd()
    asked = replace(crowd(), forecasts=Forecasts())
    for name in (*NAMES, *NAMES):
        answer = asked.when(name).answer()
        assert answer == alone.when(name).answer()
        assert answer.verdict == "range"
        assert answer.age == 0
    assert plays == [1000.0]


def test_what_runs_or_never_fits_needs_no_play(plays: list[float]) -> None:
    asked = replace(crowd(), forecasts=Forecasts())
    asked.state.apply_all(Seen(obj) for obj in job("large", tasks=1, cpu=99))
    for name, verdict in (("runs", "runs"), ("large", "never")):
        question = asked.when(name)
        assert question.answer().verdict == verdict
        assert question.scene is NO_SCENE
    assert plays == []


@pytest.mark.parametrize(
    ("age", "told", "played"),
    [(FRESH, FRESH, False), (FRESH + 1, FRESH + 1, True), (KEPT, KEPT, True), (KEPT + 1, 0.0, True)],
    ids=["young: told", "older: told, and made anew", "as old as it gets", "too old: waited for"],
)
def test_a_forecast_is_told_with_its_age_and_made_anew(
    plays: list[float], age: float, told: float, played: bool
) -> None:
    asked = replace(crowd(), forecasts=Forecasts())
    before = asked.when("third").answer()
    asked.state.now += age
    question = asked.when("third")
    answer = question.answer()
    if asked.forecasts is not None and asked.forecasts._refreshing is not None:
        asked.forecasts._refreshing.join()
    assert (answer.age, answer.now) == (told, asked.state.now)
    assert plays == [1000.0, 1000.0 + age][: 1 + played]
    if told:
        assert before.high is not None
        assert answer.high == max(before.high - told, 0.0)
        assert f"{told:.0f} s ago" in answer.assumes[-1]
    else:
        assert answer.assumes == before.assumes
    again = asked.when("third").answer()
    assert again.age == (told if not played else 0.0)
    assert len(plays) == 1 + played


def test_a_job_that_came_since_is_played_and_one_that_left_is_not_told_of(plays: list[float]) -> None:
    asked = replace(crowd(), forecasts=Forecasts())
    asked.when("third").answer()
    new = job("new", tasks=4, cpu=2)
    asked.state.apply_all(Seen(obj) for obj in new)
    answer = asked.when("new").answer()
    assert (answer.verdict, answer.age) == ("range", 0.0)
    assert len(plays) == 2
    asked.state.apply_all(Gone(obj.kind_name, obj.key) for obj in job("runs", tasks=4, cpu=2, on="n1"))
    assert asked.when("first").answer().verdict == "now"


def test_a_play_that_fails_beside_is_logged_and_the_next_question_tries_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = replace(crowd(), forecasts=Forecasts())
    asked.when("third").answer()
    asked.state.now += FRESH + 1
    with monkeypatch.context() as broken:
        broken.setattr(forecast, "when_all", lambda *_: 1 / 0)
        assert asked.when("third").answer().age == FRESH + 1
        assert asked.forecasts is not None
        assert asked.forecasts._refreshing is not None
        asked.forecasts._refreshing.join()
    assert "could not play forward" in caplog.text
    asked.when("third").answer()
    asked.forecasts._refreshing.join()
    assert asked.when("third").answer().age == 0.0
