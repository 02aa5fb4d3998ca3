"""The page of the journal: access, filters, downloads and verification."""

import csv
import io
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from authzconsole.web.journal import page as journal
from authzconsole.web.journal.rows import journal_rows
from entities.address import parse_address
from entities.services import ensure_entities
from entities.vocabulary import KINDS
from grants.change_set import Join
from grants.journal import Author, JournalEntry, append_to_journal, current_revision, lock_journal
from grants.models import JournalHead, JournalLine
from grants.plans.sources.copy import copy_plan
from tests.support.authors import administrator
from tests.support.changes import (
    add_grant,
    add_member,
    apply_plan,
    change_grants,
    create_plan_from_changes,
    remove_member,
)
from tests.support.guardrails import add_guardrail
from tests.support.pages import page_html


def revisions(response) -> list[int]:
    return [row["line"].revision for row in response.context["rows"]]


def streamed_text(response) -> str:
    return b"".join(response.streaming_content).decode()


@pytest.mark.parametrize(
    ("query", "conditions"),
    [
        ("principal=user:dee", {"principal": "user:dee"}),
        ("principal=dee", {"principal": "user:dee"}),
        ("principal=group:operators", {"principal": "group:operators"}),
        ("entity=DATASET:sales.orders", {"entity": "dataset:sales.orders"}),
        ("action=register", {"action": "register"}),
        ("actor=the+tests&action=grant", {"actor": "the tests", "action": "grant"}),
        ("actor=nobody", {"actor": "nobody"}),
    ],
)
def test_lines_are_filtered_by_principal_actor_entity_and_action(query, conditions, browse):
    expected = list(
        JournalLine.objects.filter(**conditions).order_by("-revision").values_list("revision", flat=True)
    )
    assert revisions(browse("aud").get(f"/journal/?{query}")) == expected


def test_date_filters_include_their_days(browse):
    first, second = JournalLine.objects.order_by("revision")[:2]
    for line, days in ((first, 5), (second, 3)):
        JournalLine.objects.filter(pk=line.pk).update(at=line.at - timedelta(days=days))
    day = (first.at - timedelta(days=5)).date()
    client = browse("aud")
    assert revisions(client.get(f"/journal/?since={day}&until={day}")) == [first.revision]
    assert revisions(client.get(f"/journal/?until={day + timedelta(days=2)}")) == [
        second.revision,
        first.revision,
    ]
    assert first.revision not in revisions(client.get(f"/journal/?since={day + timedelta(days=1)}T00:00"))


def test_dates_and_times_are_those_of_the_reader(browse):
    line = JournalLine.objects.order_by("revision").first()
    JournalLine.objects.filter(pk=line.pk).update(at=datetime(2025, 12, 4, 23, 30, tzinfo=UTC))
    client = browse("aud")
    for zone, day in (
        ("Europe/Berlin", "2025-12-05"),
        ("UTC", "2025-12-04"),
        ("America/New_York", "2025-12-04"),
    ):
        client.cookies["time_zone"] = zone
        page = client.get(f"/journal/?since={day}&until={day}")
        assert revisions(page) == [line.revision] and f"Since ({zone})" in page_html(page)
    client.cookies["time_zone"] = "Europe/Berlin"
    for since, is_found in (
        ("2025-12-05T00:30", True),
        ("2025-12-05T00:31", False),
        ("2025-12-04T23:30Z", True),
    ):
        assert bool(revisions(client.get("/journal/", {"since": since, "until": "2025-12-06"}))) is is_found
    content = b"".join(client.get("/journal.jsonl?since=2025-12-05&until=2025-12-05").streaming_content)
    assert [json.loads(row)["revision"] for row in content.splitlines()] == [line.revision]


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("since=yesterday", "<code>yesterday</code> is not a date"),
        ("until=2026-02-31", "<code>2026-02-31</code> is not a date"),
        ("entity=nonsense", "nonsense"),
        ("since=0001-01-01T00:00%2B14:00", "is not a date"),
        ("until=9999-12-31", "is not a date"),
    ],
)
def test_invalid_filters_are_explained_and_kept(query, fault, browse):
    page = browse("aud").get(f"/journal/?{query}&actor=ada")
    text = page_html(page)
    assert page.status_code == 200 and fault in text and 'value="ada"' in text
    assert revisions(page) == []


def test_pages_have_no_gaps_or_overlaps(browse, monkeypatch):
    monkeypatch.setattr(journal.JournalPage, "rows_per_page", 4)
    client, listed, url = browse("aud"), [], "/journal/"
    while url:
        page = client.get(url)
        listed += revisions(page)
        previous_url, url = page.context["page"].previous_url, page.context["page"].next_url
    assert listed == list(range(current_revision(), 0, -1))
    assert revisions(client.get(previous_url))[-1] == revisions(page)[0] + 1


def test_the_download_has_the_filtered_lines_and_no_formulas(browse):
    add_grant(
        "user:out",
        "dataset:sales.orders",
        "READ",
        author=Author("the tests", reason="=1+1", request_id="request-7"),
    )
    client = browse("aud")
    rows = list(csv.DictReader(io.StringIO(streamed_text(client.get("/journal.csv?principal=user:out")))))
    assert [(row["action"], row["entity"], row["reason"], row["request_id"]) for row in rows] == [
        ("grant", "dataset:sales.orders", "'=1+1", "request-7")
    ]
    lines = [json.loads(line) for line in streamed_text(client.get("/journal.jsonl")).splitlines()]
    assert [line["revision"] for line in lines] == list(range(current_revision(), 0, -1))
    assert lines[0]["reason"] == "=1+1" and len(lines[0]["hash"]) == 64
    assert client.get("/journal.xls").status_code == 404
    assert [form for form, _ in client.get("/journal/").context["downloads"]] == [
        "CSV",
        "Parquet",
        "JSON Lines",
    ]


def test_verification_reports_an_intact_and_a_broken_chain(browse):
    assert f"from revision 1 to {current_revision()}" in page_html(browse("aud").get("/journal/proof"))
    JournalLine.objects.filter(revision=5).update(reason="changed")
    text = page_html(browse("aud").get("/journal/proof"))
    assert "The chain is broken: line 5 was changed after it was written" in text


def test_the_number_of_queries_does_not_grow_with_the_journal(browse, django_assert_max_num_queries):
    client = browse("aud")
    ensure_entities(states={parse_address("dataset:sales.more"): "live"})
    change_grants(
        grant=[
            (f"user:{name}", "dataset:sales.more", privilege)
            for name in ("ned", "dee", "out")
            for privilege in ("READ", "WRITE", "ADMIN")
        ]
    )
    client.get("/journal/")
    # on PostgreSQL, a separate transaction sets options of the query planner
    with django_assert_max_num_queries(5 if connection.vendor == "sqlite" else 8):
        client.get("/journal/?action=grant")


def test_lines_link_to_their_plan_on_every_page(browse):
    author = administrator()
    plan = copy_plan.create(author=author, source="user:ned", target="user:out")
    apply_plan(plan, author=author)
    for url in ("/journal/", "/", "/people/user:out", "/entities/dataset:sales.orders?tab=history"):
        assert f'<a href="/plans/{plan.pk}/">plan {plan.pk}</a>' in page_html(browse("ada").get(url)), url


def test_a_line_separates_its_plan_from_the_period(browse):
    author, period = administrator(), (None, f"{timezone.now() + timedelta(days=9):%Y-%m-%dT%H:%M:%SZ}")
    plan = copy_plan.create(author=author, source="user:ned", target="user:out", period=period)
    apply_plan(plan, author=author)
    (row,) = journal_rows(JournalLine.objects.filter(action="grant").order_by("-revision")[:1])
    assert row["plan"] == f"plan {plan.pk}" and row["detail"].startswith(", until ")


def test_lines_about_memberships_link_to_the_plan_that_the_same_request_applied(
    browse, django_assert_num_queries
):
    """Their detail is the group, so the plan is that of the next line about an applied plan with the same
    request id.
    """
    author = administrator()
    numbers = []
    for user in ("out", "dee"):
        plan = create_plan_from_changes(author=author, join=[Join(user, "operators")])
        # one request applies both plans
        apply_plan(plan, author=replace(author, request_id="r1"))
        numbers.append(plan.pk)
    add_member("ned", "operators", author=replace(author, request_id="r1"))
    remove_member("ned", "operators", author=replace(author, request_id="r2"))
    # commands have no request id
    by_command = create_plan_from_changes(author=author, join=[Join("ina", "operators")])
    apply_plan(by_command, author=replace(author, request_id=""))
    for user, number in zip(("out", "dee"), numbers, strict=True):
        link = f'<a href="/plans/{number}/">plan {number}</a>, group:operators'
        for url in ("/journal/?action=member-add", f"/people/user:{user}"):
            assert link in page_html(browse("ada").get(url)), (user, url)
    lines = {
        (line.principal, line.action): line
        for line in JournalLine.objects.filter(action__startswith="member-")
    }
    with django_assert_num_queries(1):
        rows = journal_rows(lines.values())
    assert {(row["line"].principal, row["line"].action): row["plan"] for row in rows} == {
        ("user:out", "member-add"): f"plan {numbers[0]}",
        ("user:dee", "member-add"): f"plan {numbers[1]}",
        ("user:ned", "member-add"): "",
        ("user:ned", "member-remove"): "",
        ("user:ina", "member-add"): "",
    }


def test_free_text_is_not_linked_as_a_plan(browse):
    browse("ada").post("/describe/dataset:sales.orders", {"description": "plan 1: all orders"})
    assert "/plans/1/" not in page_html(browse("ada").get("/journal/"))


def applied_plan(size: int) -> int:
    """Apply a plan with this number of changes and return its number."""
    author = administrator()
    ensure_entities(states={parse_address(f"dataset:sales.n{number}"): "live" for number in range(size)})
    plan = create_plan_from_changes(
        author=author, grant=[("user:out", f"dataset:sales.n{number}", "READ") for number in range(size)]
    )
    apply_plan(plan, author=author)
    return plan.pk


def test_the_changes_of_a_plan_fold_under_its_line(browse, django_assert_num_queries):
    before, number = current_revision(), applied_plan(23)
    client = browse("aud")
    page = client.get("/journal/")
    assert revisions(page) == [before + 25, before + 1, *range(before, 0, -1)]
    folded = page.context["rows"][0]["folded"]
    assert (folded["total"], len(folded["rows"])) == (23, 20) and "Show all 23 changes" in page_html(page)
    assert [row["line"].revision for row in folded["rows"]] == list(range(before + 24, before + 4, -1))
    text = page_html(page)
    assert (
        "<summary>23 changes</summary>" in text
        and f'<a href="/plans/{number}/">Show all 23 changes</a>' in text
    )
    assert revisions(client.get("/journal/?lines=all")) == list(range(before + 25, 0, -1))
    assert len(revisions(client.get("/journal/?principal=user:out"))) == 23
    applied_plan(2)
    with django_assert_num_queries(6):
        client.get("/journal/")


def test_text_is_found_in_details_and_reasons(browse):
    add_grant(
        "user:out", "dataset:sales.orders", "READ", author=Author("the tests", reason="the Yearly close")
    )
    browse("ada").post("/describe/dataset:sales.orders", {"description": "all orders of the year: 100%"})
    newest, client = current_revision(), browse("aud")
    assert revisions(client.get("/journal/?text=year")) == [newest, newest - 1]
    assert revisions(client.get("/journal/?text=YEARLY")) == [newest - 1]
    assert revisions(client.get("/journal/?text=100%25")) == [newest]
    assert revisions(client.get("/journal/?text=year&principal=user:out")) == [newest - 1]
    assert revisions(client.get("/journal/?text=no+such+text")) == []
    assert len(streamed_text(client.get("/journal.jsonl?text=year")).splitlines()) == 2


def test_a_search_reads_a_limited_number_of_lines(browse, monkeypatch):
    monkeypatch.setattr(journal, "MAX_LINES_SEARCHED", 4)
    JournalLine.objects.filter(revision=1).update(reason="a needle")
    newest, client = current_revision(), browse("aud")
    url, searched = "/journal/?text=needle", []
    while url:
        page = client.get(url)
        searched.append((page.context["search"].first, page.context["search"].last))
        assert all(searched[-1][0] <= revision <= searched[-1][1] for revision in revisions(page))
        found, url = revisions(page), page.context["page"].next_url
        if page.context["has_older"]:
            url = f"/journal/?text=needle&before={page.context['search'].first}"
    assert searched[0] == (newest - 3, newest) and searched[-1][0] == 1 and found[-1] == 1
    assert [last for _, last in searched[1:]] == [first - 1 for first, _ in searched[:-1]]


def test_dates_have_pickers(browse):
    client = browse("aud")
    for value, kind in (
        ("", "date"),
        ("2026-02-28", "date"),
        ("2026-02-28T13:30", "datetime-local"),
        ("yesterday", "text"),
        ("2026-02-28T13:30Z", "text"),
    ):
        assert client.get("/journal/", {"since": value}).context["form"].time_inputs == {
            "since": kind,
            "until": "date",
        }
    text = page_html(client.get("/journal/?since=2026-02-28"))
    assert '<input type="date" id="lines-since" name="since" value="2026-02-28"' in text


def test_the_hash_of_the_head_is_shown_on_the_page_and_after_a_complete_verification(browse, monkeypatch):
    head = JournalHead.objects.get()
    for url in ("/journal/", "/journal/proof"):
        text = page_html(browse("aud").get(url))
        assert f"Hash of revision {head.revision}" in text and f'data-copy="{head.hash}"' in text
    JournalLine.objects.filter(revision=5).update(reason="changed")
    assert head.hash not in page_html(browse("aud").get("/journal/proof"))


@pytest.mark.parametrize(
    ("address", "starts", "is_searched"),
    [
        (
            "namespace:sales",
            ("dataset:sales.", "application:sales.", "program:sales.", "artifact:sales."),
            False,
        ),
        ("application:sales.shop", ("program:sales.shop.",), True),
        ("dataset:sales.orders", (), False),
        ("instance:cdap", tuple(f"{kind}:" for kind in KINDS), True),
    ],
)
def test_lines_about_the_contents_of_an_entity_are_shown_with_its_own(address, starts, is_searched, browse):
    """An index finds those of a namespace. Those of an application and of the instance are searched."""
    expected = [
        line.revision
        for line in JournalLine.objects.order_by("-revision")
        if line.entity == address or line.entity.startswith(starts or "-")
    ]
    page = browse("aud").get(f"/journal/?entity={address}&contents=yes")
    assert revisions(page) == expected[:50] and len(expected) > 1
    assert ("Searched lines 1 to" in page_html(page)) == is_searched


def test_a_namespace_does_not_contain_entities_that_only_share_the_start_of_its_name(browse):
    others = (
        "dataset:sales_eu.orders",
        "namespace:sales_eu",
        "former_kind:sales.fast",
        "dataset:eu.sales.orders",
    )
    with transaction.atomic():
        append_to_journal(
            lock_journal(),
            [JournalEntry("register", entity=text) for text in others],
            author=Author("a test"),
        )
    page = browse("aud").get("/journal/?entity=namespace:sales&contents=yes")
    assert not {row["line"].entity for row in page.context["rows"]} & {*others}


def test_details_are_sentences_with_local_times_and_without_counts_of_nothing(browse):
    append_line("review-finish", "review 1: keep 0, revoke 2, shorten 0, open 3")
    append_line("review-start", "review 1: `final`; deadline 2026-12-08T01:46:47Z")
    rows = browse("aud").get("/journal/").context["rows"]
    assert [row["detail"] for row in rows[:2]] == [
        "review 1: `final`; deadline 8 December 2026, 01:46:47 UTC",
        "review 1: revoke 2, open 3",
    ]
    assert "<code>final</code>" in page_html(browse("aud").get("/journal/"))


def append_line(action: str, detail: str) -> None:
    with transaction.atomic():
        append_to_journal(lock_journal(), [JournalEntry(action, detail=detail)], author=Author("a test"))


def test_a_period_without_changes_is_named_and_the_last_days_are_one_click(browse):
    page = browse("aud").get("/journal/?since=2001-01-01&until=2001-01-02")
    assert "No changes in this period" in page_html(page)
    week = timezone.localtime().date() - timedelta(days=7)
    assert f'href="/journal/?since={week}"' in page_html(browse("aud").get("/journal/"))


def test_the_line_of_an_expected_decision_is_a_sentence(browse):
    expected = {
        "subject": {"type": "user", "id": "dee"},
        "action": {"name": "READ"},
        "resource": {"type": "namespace", "id": "hr"},
    }
    add_guardrail("salaries", {"expect": expected, "decision": False})
    row = browse("aud").get("/journal/").context["rows"][0]
    assert row["detail"] == "`salaries` expects that user:dee is denied `READ` on namespace:hr"


def test_details_show_no_raw_data(browse):
    """Of a hash, the first digits are enough; the line of a guardrail is a sentence instead of JSON."""
    append_line("seal", f"seal 1: content {'ab' * 32}")
    add_guardrail("writers", {"forbid": {"privileges": ["ADMIN"], "within": "namespace:sales"}})
    add_guardrail(
        "operators",
        {"forbid": {"members_of": "group:operators", "privileges": ["READ"], "within": "namespace:hr"}},
    )
    append_line("guardrail-set", "odd: {nothing")
    details = [row["detail"] for row in browse("aud").get("/journal/").context["rows"][:4]]
    assert details == [
        "odd: {nothing",
        "`operators` forbids members of group:operators READ within namespace:hr",
        "`writers` forbids everybody ADMIN within namespace:sales",
        "seal 1: content abababababab…",
    ]
