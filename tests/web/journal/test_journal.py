"""The journal as a page: who may read it, what its filters find, its export and its proof."""

import csv
import io
import json
from datetime import timedelta

import pytest
from django.db import connection

from authzconsole.web.journal import page as journal
from entities.services import ensure_entities
from grants.changes.services import change_grants
from grants.journal import Author, current_revision
from grants.models import JournalLine
from grants.plans.apply import apply_plan
from grants.plans.sources.copy import create_plan_from_copy
from tests.support.authors import administrator, at
from tests.support.cast import SETUP
from tests.support.pages import page_html


def revisions(response) -> list[int]:
    return [row["line"].revision for row in response.context["rows"]]


def read(response) -> str:
    return b"".join(response.streaming_content).decode()


@pytest.mark.parametrize("url", ["/journal/", "/journal/proof", "/journal.csv"])
def test_auditors_and_administrators_read_it_and_nobody_else_is_told_of_it(url, browse):
    found = {name: browse(name).get(url).status_code for name in ("ada", "aud", "ned", "dee", "out")}
    assert found == {"ada": 200, "aud": 200, "ned": 404, "dee": 404, "out": 404}


@pytest.mark.parametrize(("query", "where"), [
    ("principal=user:dee", {"principal": "user:dee"}), ("principal=dee", {"principal": "user:dee"}),
    ("principal=group:operators", {"principal": "group:operators"}),
    ("entity=DATASET:sales.orders", {"entity": "dataset:sales.orders"}),
    ("action=register", {"action": "register"}), ("actor=the+tests&action=grant", {"actor": "the tests", "action": "grant"}),
    ("actor=nobody", {"actor": "nobody"}),
])
def test_it_is_filtered_by_whom_it_concerns_who_did_it_and_on_what(query, where, browse):
    expected = list(JournalLine.objects.filter(**where).order_by("-revision").values_list("revision", flat=True))
    assert revisions(browse("aud").get(f"/journal/?{query}")) == expected


def test_a_day_is_part_of_what_it_begins_and_of_what_it_ends(browse):
    first, second = JournalLine.objects.order_by("revision")[:2]
    for line, days in ((first, 5), (second, 3)):
        JournalLine.objects.filter(pk=line.pk).update(at=line.at - timedelta(days=days))
    day = (first.at - timedelta(days=5)).date()
    client = browse("aud")
    assert revisions(client.get(f"/journal/?since={day}&until={day}")) == [first.revision]
    assert revisions(client.get(f"/journal/?until={day + timedelta(days=2)}")) == [second.revision, first.revision]
    assert first.revision not in revisions(client.get(f"/journal/?since={day + timedelta(days=1)}T00:00"))


@pytest.mark.parametrize(("query", "fault"), [
    ("since=yesterday", "<code>yesterday</code> is not a date"), ("until=2026-02-31", "<code>2026-02-31</code> is not a date"),
    ("entity=nonsense", "nonsense"), ("since=0001-01-01T00:00%2B14:00", "is not a date"), ("until=9999-12-31", "is not a date"),
])
def test_what_cannot_be_read_is_said_and_stays_in_its_field(query, fault, browse):
    page = browse("aud").get(f"/journal/?{query}&actor=ada")
    text = page_html(page)
    assert page.status_code == 200 and fault in text and 'value="ada"' in text
    assert revisions(page) == []


def test_pages_follow_one_another_without_gap_or_overlap(browse, monkeypatch):
    monkeypatch.setattr(journal, "LINES_A_PAGE", 4)
    client, seen, url = browse("aud"), [], "/journal/"
    while url:
        page = client.get(url)
        seen += revisions(page)
        back, url = page.context["page"].previous_url, page.context["page"].next_url
    assert seen == list(range(current_revision(), 0, -1))
    assert revisions(client.get(back))[-1] == revisions(page)[0] + 1


def test_the_export_is_what_the_filter_shows_and_a_spreadsheet_computes_none_of_it(browse):
    change_grants(author=Author("the tests", reason="=1+1", request_id="request-7"),
                  grant=[("user:out", at("dataset:sales.orders"), "READ")])
    client = browse("aud")
    rows = list(csv.DictReader(io.StringIO(read(client.get("/journal.csv?principal=user:out")))))
    assert [(row["action"], row["entity"], row["reason"], row["request_id"]) for row in rows] == [
        ("grant", "dataset:sales.orders", "'=1+1", "request-7")]
    lines = [json.loads(line) for line in read(client.get("/journal.jsonl")).splitlines()]
    assert [line["revision"] for line in lines] == list(range(current_revision(), 0, -1))
    assert lines[0]["reason"] == "=1+1" and len(lines[0]["hash"]) == 64
    assert client.get("/journal.xls").status_code == 404
    assert [form for form, _ in client.get("/journal/").context["downloads"]] == ["CSV", "Parquet", "JSON Lines"]


def test_the_proof_says_that_the_chain_holds_and_where_it_is_broken(browse):
    assert f"from line 1 to line {current_revision()}" in page_html(browse("aud").get("/journal/proof"))
    JournalLine.objects.filter(revision=5).update(reason="never said")
    text = page_html(browse("aud").get("/journal/proof"))
    assert "The chain is broken: line 5 was changed after it was written" in text


def test_the_journal_costs_the_same_queries_however_long_it_is(browse, django_assert_max_num_queries):
    client = browse("aud")
    ensure_entities(states={at("dataset:sales.more"): "live"})
    change_grants(author=SETUP, grant=[(f"user:{name}", at("dataset:sales.more"), privilege) for name in ("ned", "dee", "out")
                                       for privilege in ("READ", "WRITE", "ADMIN")])
    client.get("/journal/")
    # PostgreSQL is told in a transaction of its own how to plan
    with django_assert_max_num_queries(5 if connection.vendor == "sqlite" else 8):
        client.get("/journal/?action=grant")


def test_a_line_leads_to_its_plan_wherever_it_is_shown(browse):
    author = administrator()
    plan = create_plan_from_copy(author=author, source="user:ned", target="user:out")
    apply_plan(author=author, plan_id=plan.pk)
    for url in ("/journal/", "/", "/people/user:out", "/entities/dataset:sales.orders"):
        assert f'<a href="/plans/{plan.pk}/">plan {plan.pk}</a>' in page_html(browse("ada").get(url)), url


def test_what_somebody_wrote_is_no_plan(browse):
    browse("ada").post("/describe/dataset:sales.orders", {"description": "plan 1: all orders"})
    assert "/plans/1/" not in page_html(browse("ada").get("/journal/"))
