"""Every test belongs to a pass of `make test`.

The pass `sqlite` runs this file, because it collects all tests.
"""

from itertools import product

from authzconsole.ops.suite import FULL, INTERFACE_FOLDERS, PAGE_FOLDERS
from tests.passes import (
    NOT_QUICK,
    ON_BOTH_DATABASES,
    TESTS,
    TESTS_WITHOUT_PASS,
    is_about_interfaces,
    is_about_pages,
    is_selected,
)

MARKS = ("spark", "browser", "worker", "slow", "database", "page", "interface", "quick")
# tests/passes.py marks only tests that use the database `page` or `interface`, and no slow test and none that
# starts programs `quick`
MARKED = [
    marked
    for values in product([False, True], repeat=len(MARKS))
    if (marked := dict(zip(MARKS, values, strict=True)))
    and marked["page"] + marked["interface"] <= marked["database"]
    and not (marked["quick"] and any(marked[name] for name in NOT_QUICK))
]


def test_every_collected_test_belongs_to_a_pass(request):
    assert request.config.stash[TESTS_WITHOUT_PASS] == []


def test_every_combination_of_marks_belongs_to_a_pass_and_runs_once_on_a_database():
    for is_marked in MARKED:
        databases = [
            test_pass.database for test_pass in FULL if is_selected(test_pass, is_marked.__getitem__)
        ]
        assert databases and len(databases) == len(set(databases)), is_marked


def test_the_pass_that_checks_all_tests_collects_all_of_them(request):
    assert not next(test_pass for test_pass in FULL if test_pass.name == "sqlite").paths
    # in that pass, not in the quick tests, which collect only their own
    assert request.node.get_closest_marker("quick") is None


def test_the_files_and_folders_with_a_place_exist():
    for name in (*PAGE_FOLDERS, *INTERFACE_FOLDERS, *ON_BOTH_DATABASES):
        assert (TESTS.parent / name).exists(), name


def test_no_test_that_needs_sqlite_runs_on_postgresql_only():
    files = [path for path in TESTS.rglob("test_*.py") if is_about_pages(path) or is_about_interfaces(path)]
    assert files
    for path in files:
        assert "vendor != 'sqlite'" not in path.read_text().replace('"', "'"), path
