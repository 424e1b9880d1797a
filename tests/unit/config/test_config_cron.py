"""Times as cron writes them: what is read, and when they were last; tried against every minute of some years."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pumice.config.cron import CronSchedule
from pumice.errors import InvalidInput

THURSDAY = datetime(2026, 1, 1, 12, 30, 45, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("* * * * *", "2026-01-01T12:30"),
        ("0 * * * *", "2026-01-01T12:00"),
        ("@hourly", "2026-01-01T12:00"),
        ("31 12 * * *", "2025-12-31T12:31"),
        ("*/20 9-17 * * *", "2026-01-01T12:20"),
        ("45/5 * * * *", "2026-01-01T11:55"),
        ("0 0 * * 0", "2025-12-28T00:00"),
        ("@weekly", "2025-12-28T00:00"),
        ("0 0 * * mon-fri", "2026-01-01T00:00"),
        ("0 22 * * MON,wed", "2025-12-31T22:00"),
        ("@daily", "2026-01-01T00:00"),
        ("@monthly", "2026-01-01T00:00"),
        ("0 13 1 * *", "2025-12-01T13:00"),
        ("0 0 29 feb *", "2024-02-29T00:00"),
        ("@yearly", "2026-01-01T00:00"),
        ("0 0 13 * fri", "2025-12-26T00:00"),
        ("0 0 13 * *", "2025-12-13T00:00"),
        ("0 0 */10 * fri", "2026-01-01T00:00"),
        ("0 0 ? * tue", "2025-12-30T00:00"),
    ],
)
def test_the_last_time_is_the_latest_that_is_not_after_now(text: str, last: str) -> None:
    found = CronSchedule.parse(text).last(THURSDAY.timestamp())
    assert found is not None
    assert datetime.fromtimestamp(found, UTC).strftime("%Y-%m-%dT%H:%M") == last


@pytest.mark.parametrize("text", ["7 3,15 * * *", "*/17 */5 10-20/3 * *", "0 6 1,15 * sat", "59 23 31 * *"])
@pytest.mark.part(4)
def test_no_minute_between_the_last_time_and_now_is_meant(text: str) -> None:
    """The slow way: minute by minute, for moments of two months."""
    schedule = CronSchedule.parse(text)
    meant = None
    moment = datetime(2025, 10, 1, tzinfo=UTC)
    for _ in range(60 * 24 * 62):
        by_number, by_name = moment.day in schedule.days, moment.isoweekday() % 7 in schedule.weekdays
        day = by_number or by_name if schedule.either else by_number and by_name
        if day and moment.hour in schedule.hours and moment.minute in schedule.minutes:
            meant = moment.timestamp()
        if meant is not None and moment.minute % 13 == 0:
            assert schedule.last(moment.timestamp() + 59) == meant
        moment += timedelta(minutes=1)
    assert meant is not None


@pytest.mark.parametrize(
    "text",
    [
        *("", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 7", "@often"),
        *(
            "5-1 * * * *",
            "*/0 * * * *",
            "*/x * * * *",
            "a * * * *",
            "* * * mon *",
            "-1 * * * *",
            "1- * * * *",
            "\u0661 * * * *",
        ),
        *("1,,2 * * * *", "0 0 31 2 *", "1e3 * * * *"),
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        CronSchedule.parse(text)
