"""Every test belongs to a pass of `make test`.

The pass `sqlite` runs this file, because it collects all tests.
"""

from authzconsole.ops.suite import FULL
from tests.passes import ON_BOTH_DATABASES, TESTS, WITHOUT_ONE_PASS


def test_every_collected_test_belongs_to_a_pass_and_runs_once_on_a_database(request):
    assert request.config.stash[WITHOUT_ONE_PASS] == []


def test_the_pass_that_checks_all_tests_collects_all_of_them(request):
    assert not next(test_pass for test_pass in FULL if test_pass.name == "sqlite").paths
    # in that pass, not in the quick tests, which collect only their own
    assert request.node.get_closest_marker("quick") is None


def test_the_files_and_folders_with_a_place_exist():
    for name in (*ON_BOTH_DATABASES, *(path for test_pass in FULL for path in test_pass.paths)):
        assert (TESTS.parent / name).exists(), name
