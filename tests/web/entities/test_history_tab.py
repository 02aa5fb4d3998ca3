"""The tab History: the changes of an entity and of its contents, in a period."""

from datetime import UTC, date, datetime

import pytest

from authzconsole.web.journal import rows
from authzconsole.web.journal.periods import first_of_quarter, recent_periods
from entities.address import parse_address
from grants.models import JournalLine
from grants.stewards.services import add_steward
from tests.support.cast import SETUP
from tests.support.changes import add_grant
from tests.support.pages import page_html

pytestmark = pytest.mark.django_db
SALES, SHOP, ORDERS = "namespace:sales", "application:sales.shop", "dataset:sales.orders"


@pytest.fixture
def changed(cast):
    for address in (SALES, SHOP, ORDERS, "dataset:finance.ledger"):
        add_grant("user:out", address, "READ")


def listed(client, url: str) -> set[str]:
    return {row["line"].entity for row in client.get(url).context["history"]["lines"]}


def test_the_changes_of_the_contents_are_listed_unless_only_the_entity_is_chosen(browse, changed):
    client = browse("aud")
    assert {SALES, SHOP, ORDERS} <= listed(client, f"/entities/{SALES}?tab=history&period=all")
    assert "dataset:finance.ledger" not in listed(client, f"/entities/{SALES}?tab=history&period=all")
    assert listed(client, f"/entities/{SALES}?tab=history&scope=own") == {SALES}
    assert SHOP in listed(client, f"/entities/{SHOP}?tab=history")
    assert ORDERS not in listed(client, f"/entities/{SHOP}?tab=history")
    page = page_html(client.get(f"/entities/{SALES}?tab=history"))
    assert 'id="history-contents"' in page and "granted " in page
    assert (
        f'href="/journal/?entity={SALES}&amp;since={first_of_quarter(date.today())}&amp;contents=yes"' in page
    )
    assert f'href="/journal/differences?of={SALES}&amp;contents=yes&amp;since=1"' in page
    assert 'id="history-contents"' not in page_html(client.get(f"/entities/{ORDERS}?tab=history"))


def test_a_period_limits_the_changes_of_a_namespace_and_evidence(browse, changed):
    client = browse("aud")
    page = page_html(client.get(f"/entities/{SALES}?tab=history&period=last-quarter"))
    assert "No changes in this period" in page
    assert "Create evidence" not in page, "the journal begins after the last quarter"
    assert "Create evidence of the last 30 days" in page_html(
        client.get(f"/entities/{SALES}?tab=history&period=30-days")
    )


@pytest.mark.parametrize(
    ("today", "expected"),
    [
        ("2026-11-28", [("2026-10-01", None), ("2026-07-01", "2026-09-30"), ("2026-10-29", None)]),
        ("2026-01-01", [("2026-01-01", None), ("2025-10-01", "2025-12-31"), ("2025-12-02", None)]),
    ],
)
def test_quarters_are_those_of_the_calendar(monkeypatch, today, expected):
    noon = datetime.fromisoformat(f"{today}T12:00:00+00:00")
    monkeypatch.setattr("authzconsole.web.journal.periods.localtime", lambda: noon)
    assert [
        (str(period.since), str(period.until) if period.until else None) for period in recent_periods()
    ] == expected


def test_the_page_of_a_namespace_runs_the_same_queries_for_any_number_of_changes(
    browse, changed, django_assert_max_num_queries
):
    client = browse("aud")
    url = f"/entities/{SALES}?tab=history"
    client.get(url)
    newest = JournalLine.objects.latest("revision")
    JournalLine.objects.bulk_create(
        JournalLine(
            revision=newest.revision + number,
            at=datetime.now(UTC),
            actor="ada",
            action="grant",
            principal="user:out",
            entity=f"dataset:sales.d{number}",
            hash="0" * 64,
        )
        for number in range(1, 1_500)
    )
    # the session, the account, the head of the page, and the section itself
    with django_assert_max_num_queries(22):
        response = client.get(url)
    assert len(response.context["history"]["lines"]) == rows.LINES_PER_PAGE
    assert "Over 1,000 changes" in page_html(response)
    following = response.context["history"]["page"].next_url
    first = response.context["history"]["lines"][0]["line"].revision
    assert (
        client.get(following).context["history"]["lines"][0]["line"].revision == first - rows.LINES_PER_PAGE
    )


def test_a_steward_reads_the_changes_of_the_namespace_without_links_to_the_journal(browse, changed, cast):
    add_steward(author=SETUP, namespace=parse_address(SALES), principal="user:out")
    page = browse("out").get(f"/entities/{SALES}?tab=history")
    assert {SALES, SHOP, ORDERS} <= {row["line"].entity for row in page.context["history"]["lines"]}
    text = page_html(page)
    assert "View in journal" not in text and "Create evidence" not in text
    assert "history" not in browse("out").get("/entities/dataset:finance.ledger?tab=history").context


def test_an_application_is_searched_in_the_newest_lines_only(browse, changed, monkeypatch):
    monkeypatch.setattr(rows, "MAX_LINES_SEARCHED", 1)
    page = browse("aud").get(f"/entities/{parse_address(SHOP)}?tab=history")
    assert not page.context["history"]["lines"] and "Only the newest 1 lines" in page_html(page)
