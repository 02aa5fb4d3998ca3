"""The figures of the demo's nights are those that the analyses find, and bend where the journal has the reason."""

from datetime import timedelta

import pytest

from analytics.analyses import ANALYSES
from analytics.models import Figure
from analytics.results.database import figures, figures_by_namespace
from analytics.runs.execution import analysis_in_foreground
from analytics.runs.schedules import default_options
from analytics.runs.services import validated_options
from analytics.storage import storage
from authzconsole.demo.history import load_history
from authzconsole.demo.nights import NIGHTS, night_figures
from grants.models import JournalLine

pytestmark = pytest.mark.django_db(transaction=True)


def test_each_of_ninety_nights_has_figures_that_bend_with_the_journal():
    load_history()
    nights = Figure.objects.filter(name="entities_one_user_administers").order_by("finished_at")
    assert NIGHTS - 1 <= len(nights) <= NIGHTS
    assert {row.options["generation"] for row in nights} == {"final"}
    revocation = JournalLine.objects.filter(
        action="revoke", principal="user:rajesh.iyer", entity="application:finance.vat_return"
    ).latest("at")
    before, after = (nights.filter(**{f"finished_at__{when}": revocation.at}) for when in ("lt", "gt"))
    assert before.last().value != after.first().value
    assert after.first().finished_at - revocation.at < timedelta(days=1)
    first = list(Figure.objects.order_by("pk").values_list("name", "value", "subject"))
    Figure.objects.all().delete()
    assert len({name for name, *_ in first}) > 8


@pytest.mark.spark
@pytest.mark.slow
def test_the_last_night_has_the_figures_that_spark_finds(spark, settings, tmp_path, monkeypatch):
    settings.SNAPSHOT_URI = str(tmp_path)
    monkeypatch.setattr("analytics.runs.execution.stop_spark", lambda: None)
    load_history()
    expected = dict(night_figures())
    for name in sorted({analysis for analysis, *_ in expected}):
        analysis = ANALYSES[name]
        options = validated_options(analysis, default_options(analysis))
        with analysis_in_foreground(
            analysis, options, with_detail=False, on_stage=lambda stage: None
        ) as folder:
            places = {
                output.table.name: storage().child(folder).child(output.table.name)
                for output in analysis.outputs
            }
            found = {(figure, ""): value for figure, value in figures(analysis, places).items()}
            found |= figures_by_namespace(analysis, places)
        for (of, figure, namespace), value in expected.items():
            if of == name:
                assert (figure, namespace, found[figure, namespace]) == (figure, namespace, value)
