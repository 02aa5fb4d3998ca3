"""Every analysis of the registry is complete. CONTRIBUTING.md refers to these tests."""

from importlib import import_module
from pathlib import Path

import pytest

from analytics.analyses import ANALYSES, AnalysisName


def test_every_name_has_an_analysis():
    assert list(ANALYSES) == list(AnalysisName)


@pytest.mark.parametrize("analysis", ANALYSES.values(), ids=ANALYSES)
def test_every_output_has_a_function_that_builds_it(analysis):
    for output in analysis.written_outputs:
        module, _, function = output.build.partition(":")
        assert callable(getattr(import_module(module), function)), output.build


@pytest.mark.parametrize("analysis", ANALYSES.values(), ids=ANALYSES)
def test_every_figure_is_computed_from_a_table_of_the_analysis(analysis):
    tables = {output.table.name for output in analysis.outputs}
    assert {table for table, _ in analysis.figures.values()} <= tables and analysis.figures


def test_every_analysis_is_compared_with_a_plain_computation():
    comparisons = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*_agree*.py"))
    assert [name for name in ANALYSES if f'"{name}"' not in comparisons] == []
