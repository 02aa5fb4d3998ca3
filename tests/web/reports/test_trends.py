"""The page of trends, its files, and the pages of alerts."""

import csv
import io
import re
from datetime import time, timedelta

import pytest
from django.utils import timezone

from analytics.models import Figure, FigureAlert, Schedule
from grants.models import Role, User
from tests.support.pages import page_html, text_of

OPTIONS = {"generation": "final", "namespace": ""}
ALERT = {
    "figure": "stranded/entities_nobody_administers",
    "when": "above",
    "value": "4",
    "recipients": "ann@example.com\nbo@example.com",
}


def add_nights(
    values, *, analysis="delete-readiness", name="namespaces_nobody_can_delete", subject="", first=0
):
    """Store a figure of the last nights, the newest first."""
    Figure.objects.bulk_create(
        Figure(
            analysis=analysis,
            options=OPTIONS,
            finished_at=timezone.now() - timedelta(days=first + days),
            name=name,
            subject=subject,
            value=value,
        )
        for days, value in enumerate(values)
    )


def charts(page):
    return {trend["name"]: trend for trend in page.context["trends"]}


@pytest.mark.parametrize(
    ("query", "points"), [("", 89), ("?days=30", 30), ("?days=nonsense", 89), ("?days=365", 18)]
)
def test_the_page_shows_the_nights_of_a_period(browse, query, points):
    add_nights(range(120))
    page = browse("aud").get(f"/trends{query}")
    line = charts(page)["namespaces_nobody_can_delete"]["lines"][0]
    assert abs(len(line["points"]) - points) <= 1
    assert line["points"][-1]["row"].value == 0
    assert len(page.context["trend_days"]) == len(line["points"])


def test_each_line_of_the_exposure_ends_with_its_namespace_and_no_texts_overlap(browse):
    for number in range(8):
        add_nights(
            [number + 1, 1],
            analysis="blast-radius",
            name="users_who_can_change_something",
            subject=f"ns{number}",
        )
    page = browse("aud").get("/trends")
    chart = charts(page)["users_who_can_change_something"]
    assert [line["label"] for line in chart["lines"]] == ["ns7", "ns6", "ns5", "ns4", "ns3"]
    heights = [line["text_y"] for line in chart["lines"]]
    assert all(second - first >= 14 for first, second in zip(heights, heights[1:], strict=False))
    text = page_html(page)
    assert "8 ns7" in text and '<th scope="col" class="number">ns7</th>' in text


def test_each_chart_says_from_when_its_last_figure_is(browse):
    add_nights([3, 2], first=4)
    add_nights([5, 5], analysis="guardrails", name="guardrail_violations", first=2)
    add_nights([1_200, 2_400], analysis="redundant", name="redundant_grants")
    text = text_of(browse("aud").get("/trends"))
    assert re.search(r"Namespaces nobody can delete: 3 \+1 since .{5,6}, as of 4 days ago", text)
    assert re.search(
        r"Guardrail violations, with accepted ones: 5 unchanged since .{5,6}, as of 2 days ago", text
    )
    assert re.search(r"Redundant grants: 1,200 \N{MINUS SIGN}1,200 since", text)


def test_the_title_of_a_chart_leads_to_the_findings_that_it_counts(browse):
    add_nights([3, 2])
    add_nights([3, 9], analysis="ghost-grants", name="grants_on_deleted_addresses")
    add_nights([3, 3], analysis="blast-radius", name="most_changeable")
    page = page_html(browse("aud").get("/trends"))
    urls = ["/findings/?kind=undeletable", "/findings/?kind=leftover-grants"]
    assert re.findall(r'figcaption>\s*<a href="([^"]*)"', page) == urls
    assert ">−6 since" in page
    operator = browse("out")
    User.objects.filter(username="out").update(role=Role.OPERATOR)
    assert "/findings/?kind" not in page_html(operator.get("/trends"))


def test_only_points_with_a_run_are_links(browse):
    add_nights([3, 2, 1])
    text = browse("aud").html("/trends?days=30")
    assert text.count("<circle") == 1 and "<polyline" in text


def test_the_list_of_runs_leads_to_the_trends(browse):
    assert 'href="/trends"' in browse("aud").html("/analyses/")


def test_the_number_of_queries_does_not_grow(browse, django_assert_max_num_queries):
    client = browse("aud")
    add_nights(range(3))
    client.get("/trends")
    add_nights(range(300), name="namespaces_nobody_can_delete", first=3)
    with django_assert_max_num_queries(12):
        client.get("/trends?days=365")


def test_without_nights_the_page_says_when_the_first_one_arrives(browse):
    client = browse("aud")
    assert "No analysis runs every night" in client.html("/trends")
    Schedule.objects.create(analysis="stranded", is_on=True, at=time(2, 30))
    assert "The next night is on" in client.html("/trends")
    add_nights([3])
    assert "A line needs two nights" in client.html("/trends")


def test_the_file_has_the_figures_of_the_period(browse):
    add_nights([5, 6], first=0)
    add_nights([7], first=100)
    add_nights([2], analysis="blast-radius", name="users_who_can_change_something", subject="sales")
    client = browse("aud")
    answer = client.get("/trends.csv?days=90")
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    assert sorted((row["namespace"], row["value"]) for row in rows) == [("", "5"), ("", "6"), ("sales", "2")]
    assert {row["run"] for row in rows} == {""}


def test_administrators_add_and_delete_alerts(browse):
    client = browse("ada")
    assert client.post("/trends/alerts/new", ALERT).status_code == 303
    alert = FigureAlert.objects.get()
    assert (alert.value, alert.is_above, alert.recipients) == (4, True, ["ann@example.com", "bo@example.com"])
    text = client.html("/trends")
    assert "Stranded entities: entities without an ADMIN holder" in text and "within the limit" in text
    assert client.post(f"/trends/alerts/{alert.pk}/delete").status_code == 303
    assert not FigureAlert.objects.exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"value": "many"}, "Enter a number without a sign"),
        ({"value": ""}, "value"),
        ({"figure": "stranded/nothing"}, "is not one of"),
        ({"when": "below", "value": "0"}, "from 1 to"),
        ({"recipients": "ann"}, "is not an email address"),
    ],
)
def test_an_invalid_alert_is_shown_again_with_its_values(browse, fields, message):
    answer = browse("ada").post("/trends/alerts/new", ALERT | fields)
    assert answer.status_code == 400
    text = page_html(answer)
    assert message in text and (fields.get("recipients") or "bo@example.com") in text
    assert not FigureAlert.objects.exists()


def test_accounts_that_read_reports_see_alerts_but_cannot_change_them(browse):
    browse("ada").post("/trends/alerts/new", ALERT)
    client = browse("aud")
    text = client.html("/trends")
    assert "entities without an ADMIN holder" in text and "New alert" not in text
    alert = FigureAlert.objects.get()
    assert client.post("/trends/alerts/new", ALERT).status_code == 403
    assert client.post(f"/trends/alerts/{alert.pk}/delete").status_code == 403
    assert FigureAlert.objects.count() == 1
