"""Figures of runs and alerts over REST."""

from datetime import timedelta

import pytest
from django.utils import timezone

from analytics.models import Figure
from grants.journal import current_revision
from tests.rest.conftest import problem
from tests.support.authors import lines_after

pytestmark = pytest.mark.django_db
ALERT = {"analysis": "stranded", "figure": "entities_nobody_administers", "value": 4}


def test_figures_are_listed_in_pages_newest_first_and_filtered(ada):
    for days in (3, 2, 1):
        for analysis in ("stranded", "redundant"):
            Figure.objects.create(
                analysis=analysis,
                options={"generation": "final"},
                finished_at=timezone.now() - timedelta(days=days),
                name="figure",
                value=days,
            )
    page = ada.get("/figures?analysis=stranded&limit=2").json()
    assert [row["value"] for row in page["items"]] == [1, 2]
    rest = ada.get(f"/figures?analysis=stranded&limit=2&cursor={page['next']}").json()
    assert ([row["value"] for row in rest["items"]], rest["next"]) == ([3], None)
    since = (timezone.now() - timedelta(days=2.5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert len(ada.get(f"/figures?since={since}").json()["items"]) == 4


def test_an_alert_is_added_read_and_deleted(ada):
    before = current_revision()
    created = ada.post("/alerts", ALERT | {"recipients": ["ann@example.com"], "reason": "audit"})
    alert = created.json()
    assert (created.status_code, created["Location"]) == (201, f"/api/v1/alerts/{alert['number']}")
    assert (alert["above"], alert["value"], alert["crossed"]) == (True, 4, False)
    assert ada.get(f"/alerts/{alert['number']}").json() == alert
    assert ada.get("/alerts").json() == {"items": [alert]}
    assert ada.delete(f"/alerts/{alert['number']}?reason=done").json()["changed"]
    problem(ada.get(f"/alerts/{alert['number']}"), 404)
    assert [line[0] for line in lines_after(before)] == ["alert-add", "alert-delete"]


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"figure": "pairs"}, "figure"),
        ({"value": -1}, "value"),
        ({"value": 0, "above": False}, "value"),
        ({"recipients": ["ann"]}, "recipients"),
    ],
)
def test_an_invalid_alert_names_its_member(ada, members, field):
    refused = ada.post("/alerts", ALERT | members)
    assert problem(refused, 400)["errors"][0]["field"] == field
