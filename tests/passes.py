"""Decide in which passes of `make test` a test runs.

Add the marks `spark`, `database`, `page`, `interface` and `quick`, and find the passes that select them.
"""

from functools import cache
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

from authzconsole.ops.suite import FULL, INTERFACE_FOLDERS, PAGE_FOLDERS, QUICK_PATHS, Pass

TESTS = Path(__file__).parent
DATABASE_FIXTURES = {"db", "transactional_db", "live_server"}
# Tests that call every page or endpoint, that compare their SQL with a reference, or that need SQLite.
ON_BOTH_DATABASES = (
    "tests/api/test_past.py",
    "tests/api/test_query_counts.py",
    "tests/api/test_scenario.py",
    "tests/api/test_search_complete.py",
    "tests/api/test_tokens.py",
    "tests/rest/test_access.py",
    "tests/web/shared/test_database_busy.py",
    "tests/web/test_access.py",
    "tests/web/test_areas.py",
    "tests/web/test_page_lists.py",
)
NOT_QUICK = ("spark", "browser", "worker", "slow")
TESTS_WITHOUT_PASS: pytest.StashKey[list[str]] = pytest.StashKey()


def add_marks(item: pytest.Item) -> None:
    if "spark" in item.fixturenames:
        item.add_marker("spark")
    if item.get_closest_marker("django_db") or DATABASE_FIXTURES.intersection(item.fixturenames):
        item.add_marker("database")
        if is_about_pages(item.path):
            item.add_marker("page")
        if is_about_interfaces(item.path):
            item.add_marker("interface")
    if _is_below(item.path, QUICK_PATHS) and not any(item.get_closest_marker(name) for name in NOT_QUICK):
        item.add_marker("quick")


def is_about_pages(path: Path) -> bool:
    """Return whether the tests of a file are about pages.

    If they use the database, they run on PostgreSQL only.
    """
    return _is_below(path, PAGE_FOLDERS) and not _is_below(path, ON_BOTH_DATABASES)


def is_about_interfaces(path: Path) -> bool:
    """Return whether the tests of a file are about an interface.

    If they use the database, they run on PostgreSQL only.
    """
    return _is_below(path, INTERFACE_FOLDERS) and not _is_below(path, ON_BOTH_DATABASES)


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
