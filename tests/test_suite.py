import pytest

from authzconsole.ops.suite import ran_count

REPORT = '<testsuites><testsuite name="pytest" tests="{tests}" skipped="{skipped}" errors="0" failures="0"/></testsuites>'


@pytest.mark.parametrize("tests, skipped, ran", [(0, 0, 0), (3, 3, 0), (3, 1, 2)])
def test_only_tests_that_ran_count(tmp_path, tests, skipped, ran):
    report = tmp_path / "report.xml"
    report.write_text(REPORT.format(tests=tests, skipped=skipped))
    assert ran_count(report) == ran


def test_no_report_means_that_none_ran(tmp_path):
    assert ran_count(tmp_path / "missing.xml") == 0
