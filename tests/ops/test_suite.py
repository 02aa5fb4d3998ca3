import pytest

from authzconsole.ops.suite import QUICK_PATHS, ROOT, executed_test_count

REPORT = '<testsuites><testsuite name="pytest" tests="{tests}" skipped="{skipped}" errors="0" failures="0"/></testsuites>'


@pytest.mark.parametrize("tests, skipped, expected", [(0, 0, 0), (3, 3, 0), (3, 1, 2)])
def test_skipped_tests_are_not_counted(tmp_path, tests, skipped, expected):
    report = tmp_path / "report.xml"
    report.write_text(REPORT.format(tests=tests, skipped=skipped))
    assert executed_test_count(report) == expected


def test_a_missing_report_counts_as_no_tests(tmp_path):
    assert executed_test_count(tmp_path / "missing.xml") == 0


def test_the_quick_tests_exist():
    for path in QUICK_PATHS:
        assert (ROOT / path).exists(), path
