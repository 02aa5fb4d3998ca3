"""The figures of the demo's nights are those that the analyses find, and bend where the journal has the reason."""

from datetime import timedelta

import pytest
from django.utils import timezone

from analytics.analyses import ANALYSES, DEFAULT_SINCE_DAYS
from analytics.models import Figure
from analytics.results.database import figures, figures_by_namespace
from analytics.runs.execution import analysis_in_foreground
from analytics.runs.schedules import default_options
from analytics.runs.services import validated_options
from analytics.storage import storage
from authzconsole.demo.history import load_history
from authzconsole.demo.nights import NIGHTS, night_figures
from grants.models import GroupGrant, JournalLine, User, UserGrant
from grants.models.reviews import UsageDay
from grants.usage import first_day_of_use

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


def test_people_use_a_part_of_what_they_hold_and_who_holds_most_the_smallest():
    load_history()
    since = timezone.now().date() - timedelta(days=DEFAULT_SINCE_DAYS)
    assert first_day_of_use() <= since - timedelta(days=NIGHTS - 1), (
        "the records cover the window of each night"
    )
    shares = {}
    for user in User.objects.filter(is_active=True):
        grants = (
            UserGrant.objects.filter(user=user),
            GroupGrant.objects.filter(group__memberships__user=user),
        )
        held = {
            pk
            for rows in grants
            for pk in rows.values_list("content_object", flat=True).filter(content_object__state="live")
        }
        used = set(UsageDay.objects.filter(user=user, day__gte=since).values_list("entity", flat=True))
        if len(held) >= 20:
            shares[len(held), user.username] = len(used & held) / len(held)
    assert not {name: share for name, share in shares.items() if not 0.1 < share < 0.9}
    assert max(shares)[1] == "grace.kim" and shares[max(shares)] == min(shares.values())


@pytest.mark.spark
@pytest.mark.slow
def test_the_last_night_has_the_figures_that_spark_finds(spark, settings, tmp_path, monkeypatch):
    settings.SNAPSHOT_URI = str(tmp_path)
    monkeypatch.setattr("analytics.runs.execution.stop_spark", lambda: None)
    load_history()
    expected = night_figures()
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
