"""The differences between two dates, on the page and over REST."""

import csv
import io
import json

import pytest

from entities.address import parse_address
from entities.vocabulary import Privilege
from grants.history import Span
from grants.journal import Author, current_revision
from grants.principals.services import add_group, add_user
from grants.tenant.import_document import import_tenant
from tests.support.changes import add_member, change_grants, delete_entity, register_entity, remove_member
from tests.support.pages import page_html

pytestmark = pytest.mark.django_db
OPERATOR = Author("the tests", reason="month end")
ORDERS = parse_address("dataset:lab.orders")


@pytest.fixture
def before(cast):
    """Return the revision before these changes: nina joins `readers`, which holds READ, omar leaves, nina
    gets WRITE, and ADMIN is granted and revoked."""
    for name in ("nina", "omar"):
        add_user(author=OPERATOR, name=name)
    add_group(author=OPERATOR, name="readers")
    add_member(author=OPERATOR, user="omar", group="readers")
    for address in (parse_address("namespace:lab"), ORDERS):
        register_entity(author=OPERATOR, address=address)
    change_grants(
        author=OPERATOR,
        grant=[("group:readers", ORDERS, Privilege.READ), ("user:omar", ORDERS, Privilege.EXECUTE)],
    )
    revision = current_revision()
    add_member(author=OPERATOR, user="nina", group="readers")
    remove_member(author=OPERATOR, user="omar", group="readers")
    change_grants(
        author=OPERATOR,
        grant=[("user:nina", ORDERS, Privilege.WRITE), ("user:omar", ORDERS, Privilege.ADMIN)],
    )
    change_grants(
        author=OPERATOR,
        revoke=[("user:omar", ORDERS, Privilege.ADMIN), ("user:omar", ORDERS, Privilege.EXECUTE)],
    )
    return revision


def rows_over_rest(client, query: str) -> set[tuple]:
    items, cursor = [], ""
    while cursor is not None:
        page = client.get(f"/api/v1/differences?limit=2&cursor={cursor}&{query}").json()
        items += page["items"]
        cursor = page["next"]
    return {(item["change"], item["what"], item["principal"], item["value"]) for item in items}


def test_an_entity_gains_and_loses_grants_and_members_of_its_groups(browse, before):
    expected = {
        ("gained", "membership", "user:nina", "group:readers"),
        ("lost", "membership", "user:omar", "group:readers"),
        ("gained", "grant", "user:nina", "WRITE"),
        ("lost", "grant", "user:omar", "EXECUTE"),
    }
    client, query = browse("aud"), f"entity=dataset:lab.orders&since={before}"
    assert rows_over_rest(client, query) == expected
    assert rows_over_rest(client, f"entity=namespace:lab&contents=true&since={before}") == expected
    assert rows_over_rest(client, f"entity=namespace:lab&since={before}") == set()
    lines = client.get(f"/api/v1/differences.jsonl?{query}").getvalue().decode().splitlines()
    assert {
        (row["change"], row["what"], row["principal"], row["value"]) for row in map(json.loads, lines)
    } == expected
    table = list(
        csv.DictReader(io.StringIO(client.get(f"/api/v1/differences.csv?{query}").getvalue().decode()))
    )
    assert {(row["change"], row["what"], row["principal"], row["value"]) for row in table} == expected


def test_a_person_gains_memberships_and_the_grants_of_groups(browse, before):
    change_grants(author=OPERATOR, grant=[("group:readers", ORDERS, Privilege.ADMIN)])
    assert rows_over_rest(browse("ada"), f"principal=user:nina&since={before}") == {
        ("gained", "membership", "user:nina", "group:readers"),
        ("gained", "grant", "user:nina", "WRITE"),
        ("gained", "grant", "group:readers", "ADMIN"),
    }
    assert ("gained", "grant", "group:readers", "ADMIN") in rows_over_rest(
        browse("ada"), f"principal=group:readers&since={before}&until={current_revision()}"
    )
    assert rows_over_rest(browse("ada"), f"principal=user:nina&since={before}&until={before}") == set()


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("since=1", "entity"),
        ("entity=dataset:lab.orders&principal=user:nina&since=1", "entity"),
        ("entity=dataset:lab.orders", "since"),
        ("entity=dataset:lab.orders&since=3&until=2", "since"),
        ("entity=dataset:lab.orders&since=99999", "since"),
        ("entity=table:x&since=1", "entity"),
    ],
)
def test_a_malformed_request_names_its_parameter(browse, before, query, field):
    answer = browse("ada").get(f"/api/v1/differences?{query}")
    assert answer.status_code == 400 and field in {error["field"] for error in answer.json()["errors"]}


def page(client, query):
    response = client.get(f"/journal/differences?{query}")
    assert response.status_code == 200
    return response, " ".join(page_html(response).split())


def test_the_page_lists_the_differences_with_their_authors(browse, before, monkeypatch):
    response, text = page(browse("aud"), f"of=dataset:lab.orders&since={before}")
    rows = [(row.change, row.what, row.principal) for row in response.context["rows"]]
    assert len(rows) == 4 and ("gained", "grant", "user:nina") in rows and "the tests: month end" in text
    assert (
        f"/api/v1/differences.csv?entity=dataset:lab.orders&amp;since={before}&amp;until={current_revision()}"
        in text
    )
    monkeypatch.setattr("authzconsole.web.journal.differences.ROWS_PER_PAGE", 3)
    first, _ = page(browse("aud"), f"of=dataset:lab.orders&since={before}")
    second, _ = page(
        browse("aud"), f"of=dataset:lab.orders&since={before}&after={first.context['next_position']}"
    )
    assert [len(part.context["rows"]) for part in (first, second)] == [3, 1] and not second.context[
        "next_position"
    ]


def test_the_page_reports_invalid_fields_and_unknown_earlier_states(browse, before):
    for query, message in (
        ("of=&since=1", "Enter an entity"),
        ("of=lab&since=1", "is not an address"),
        ("of=user:nina&since=3&until=2", "after the second"),
        ("of=user:nina&since=2001-01-01", "before the first journal line"),
        ("of=user:nina&since=x", "neither"),
    ):
        assert message in page(browse("ada"), query)[1]
    assert "No differences" in page(browse("ada"), f"of=user:nina&since={current_revision()}")[1]
    assert "No differences" in page(browse("ada"), "of=dataset:never.seen&since=1&after=x-y")[1]
    import_tenant(
        stream=io.BytesIO(b'{"type":"entity","id":"dataset:hr.pay"}\n'), author=Author("import_tenant")
    )
    assert "Its earlier state is unknown" in page(browse("ada"), "of=dataset:hr.pay&since=1")[1]
    delete_entity(author=OPERATOR, address=parse_address("dataset:hr.pay"))
    assert "State: deleted" in page(browse("ada"), f"of=dataset:hr.pay&since={current_revision() - 1}")[1]


def test_the_pages_of_entities_and_people_link_to_their_differences(browse, before):
    assert "/journal/differences?of=dataset:lab.orders" in page_html(
        browse("aud").get(f"/entities/{ORDERS}?tab=history")
    )
    assert "/journal/differences?of=user:nina" in page_html(browse("aud").get("/people/user:nina"))


def test_a_link_to_the_page_opens_the_form_without_an_error(browse):
    response, text = page(browse("ada"), "of=dataset:lab.orders")
    assert 'value="dataset:lab.orders"' in text and 'role="alert"' not in text


def test_a_button_of_a_period_shows_its_differences(browse, before):
    response, text = page(browse("aud"), "of=namespace:lab&contents=on&since=&until=&period=quarter")
    # the journal begins in this quarter
    assert response.context["span"] == Span(1, current_revision())
    assert response.context["rows"] and 'value="1"' in text
    assert 'name="contents" checked' in page(browse("aud"), "")[1]
