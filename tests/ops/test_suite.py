from itertools import product

import pytest
from _pytest.mark.expression import Expression

from authzconsole.ops.suite import FULL, LANES, QUICK, ROOT, executed_test_count

MARKS = ("spark", "browser", "worker", "slow", "database")

REPORT = '<testsuites><testsuite name="pytest" tests="{tests}" skipped="{skipped}" errors="0" failures="0"/></testsuites>'


@pytest.mark.parametrize("tests, skipped, expected", [(0, 0, 0), (3, 3, 0), (3, 1, 2)])
def test_skipped_tests_are_not_counted(tmp_path, tests, skipped, expected):
    report = tmp_path / "report.xml"
    report.write_text(REPORT.format(tests=tests, skipped=skipped))
    assert executed_test_count(report) == expected


def test_a_missing_report_counts_as_no_tests(tmp_path):
    assert executed_test_count(tmp_path / "missing.xml") == 0


@pytest.mark.parametrize("marked", list(product([False, True], repeat=len(MARKS))))
def test_every_test_belongs_to_a_pass(marked):
    is_marked = dict(zip(MARKS, marked, strict=True))
    assert any(Expression.compile(part.marks).evaluate(is_marked.__getitem__) for part in FULL)


def test_every_pass_belongs_to_a_lane():
    assert [test_pass for lane in LANES for test_pass in lane] == list(FULL)


def test_the_quick_tests_exist():
    assert QUICK[0].paths
    for path in QUICK[0].paths:
        assert (ROOT / path).exists(), path
