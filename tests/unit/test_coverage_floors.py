"""Coverage may only rise, package by package."""

from __future__ import annotations

from coverage_floors import fallen, per_package, read


def _file(covered: int, statements: int) -> dict[str, dict[str, int]]:
    return {"summary": {"covered_lines": covered, "num_statements": statements}}


def test_lines_count_by_top_package_in_whole_per_cents() -> None:
    report = {
        "files": {
            "src/pumice/engine/choose.py": _file(9, 10),
            "src/pumice/engine/deep/rows.py": _file(90, 100),
            "src/pumice/clock.py": _file(2, 3),
            "src/pumice/empty/__init__.py": _file(0, 0),
        }
    }
    assert per_package(report) == {"clock": 66, "engine": 90}


def test_what_is_below_its_floor_or_gone_is_said() -> None:
    floors = read("engine 91\nclock 66\ngone 5\n")
    assert fallen({"engine": 90, "clock": 66, "new": 1}, floors) == [
        "engine: 90 % of the lines are tested, 91 % were before",
        "gone: 0 % of the lines are tested, 5 % were before",
    ]
