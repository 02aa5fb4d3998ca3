"""Decide in which passes of `make test` a test runs.

Add the marks `spark`, `database`, `sqlite` and `quick`, and find the passes that select them.
"""

from functools import cache
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from authzconsole.ops.suite import FULL, QUICK_PATHS, Pass

TESTS = Path(__file__).parent
DATABASE_FIXTURES = {"db", "transactional_db", "live_server"}
# Tests that use the database on PostgreSQL and on SQLite: they compare the SQL of the rules with a reference, or
# need SQLite.
ON_BOTH_DATABASES = (
    "tests/analytics/runs/test_bad_storage.py",
    "tests/analytics/runs/test_database_faults.py",
    "tests/api/test_tokens.py",
    "tests/grants/access",
    "tests/grants/evaluation",
    "tests/grants/test_querysets.py",
    "tests/ops/test_database_role.py",
    "tests/server",
    "tests/web/shared/test_database_busy.py",
)
NOT_QUICK = ("spark", "browser", "worker", "slow")
WITHOUT_ONE_PASS: pytest.StashKey[list[str]] = pytest.StashKey()


def add_marks(item: pytest.Item) -> None:
    if "spark" in item.fixturenames:
        item.add_marker("spark")
    if item.get_closest_marker("django_db") or DATABASE_FIXTURES.intersection(item.fixturenames):
        item.add_marker("database")
        if _is_below(item.path, ON_BOTH_DATABASES):
            item.add_marker("sqlite")
    if _is_below(item.path, QUICK_PATHS) and not any(item.get_closest_marker(name) for name in NOT_QUICK):
        item.add_marker("quick")


def has_one_pass(item: pytest.Item) -> bool:
    """Return whether a test runs, and at most once on each database. Call `add_marks` first."""
    databases = [test_pass.database for test_pass in passes_of(item)]
    return bool(databases) and len(databases) == len(set(databases))


def passes_of(item: pytest.Item) -> list[Pass]:
    """Return the passes of `make test` that run a test. Call `add_marks` first."""
    names = {mark.name for mark in item.iter_markers()}
    return [
        test_pass
        for test_pass in FULL
        if is_selected(test_pass, names.__contains__)
        and (not test_pass.paths or _is_below(item.path, test_pass.paths))
    ]


def is_selected(test_pass: Pass, has_mark) -> bool:
    return _compiled(test_pass.marks).evaluate(has_mark)


_compiled = cache(Expression.compile)


@cache
def _is_below(path: Path, places: tuple[str, ...]) -> bool:
    """Return whether the file is one of the places, or in one of them."""
    name = path.relative_to(TESTS.parent).as_posix()
    return any(name == place or name.startswith(f"{place}/") for place in places)
