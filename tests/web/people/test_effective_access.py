"""Test the section with the effective access of a person or group, and the page "My access"."""

from datetime import timedelta

import pytest
from django.utils import timezone

from grants.models import UserGrant
from grants.validity import Validity
from tests.support.changes import add_grant, change_grants
from tests.support.pages import page_html

pytestmark = pytest.mark.django_db


def section(client, url: str) -> dict:
    return client.get(url).context["access"]


def operations(row: dict) -> set[str]:
    return {operation for way in row["ways"] for operation in way["operations"]}


def test_a_person_page_shows_entities_with_operations_and_paths(browse):
    client = browse("aud")
    access = section(client, "/people/user:dee")
    rows = {str(row["entity"]): row for row in access["rows"]}
    assert {"namespace:sales", "dataset:sales.orders"} <= set(rows) and "read" in operations(
        rows["dataset:sales.orders"]
    )
    holder = next(way for way in rows["namespace:sales"]["ways"] if "list" in way["operations"])["holders"][0]
    # a grant on a deleted dataset counts too, so neither is the only one
    assert {
        (grant["held"][0]["privileges"], str(grant["entity"]), grant["is_only"])
        for grant in holder["elsewhere"]
    } == {
        ("READ", "dataset:sales.orders", False),
        ("WRITE", "dataset:sales.legacy", False),
    }
    assert (holder["group"], holder["own"], holder["total"]) == ("", [], "2 grants inside")
    assert access["counts"]["dataset"] == 1 and sum(access["counts"].values()) == len(rows)
    # deleting all streams of a namespace without streams needs no grant
    assert [] in [way["holders"] for way in rows["namespace:hr"]["ways"]]
    page = page_html(client.get("/people/user:dee"))
    assert "Effective access" in page and "What you can do" not in page


def test_a_level_of_which_an_operation_is_denied_is_marked(browse):
    def partial_levels(url: str) -> dict:
        rows = {str(row["entity"]): row for row in section(browse("aud"), url)["rows"]}
        return {
            address: {(level["name"], level["is_partial"]) for way in row["ways"] for level in way["levels"]}
            for address, row in rows.items()
        }

    levels = partial_levels("/people/user:dee")
    # deleting all streams of a namespace without streams needs no grant
    assert levels["namespace:hr"] == {("administers", True)}
    assert levels["dataset:sales.orders"] == {("reads", False), ("sees", False)}
    # a filter asks about no other operation
    assert partial_levels("/people/user:dee?may=delete-all-streams")["namespace:hr"] == {
        ("administers", False)
    }


def test_a_second_path_is_not_the_only_one(browse):
    change_grants(
        grant=[
            ("group:operators", "dataset:sales.orders", "READ"),
            ("user:grp", "dataset:sales.orders", "READ"),
        ]
    )
    rows = section(browse("ada"), "/people/user:grp?of=dataset")["rows"]
    holders = rows[0]["ways"][0]["holders"]
    assert [(holder["group"], holder["is_only"]) for holder in holders] == [
        ("", False),
        ("group:operators", False),
    ]


def test_a_group_page_shows_what_the_group_can_do(browse):
    access = section(browse("ada"), "/people/group:operators?of=program")
    assert [str(row["entity"]) for row in access["rows"]] == ["program:sales.shop.workflow.daily"]
    assert "start" in operations(access["rows"][0])


def test_filters_pages_and_downloads(browse, monkeypatch):
    client, url = browse("ada"), "/people/user:ned"
    for query, matches in (
        ("of=dataset", "dataset:"),
        ("namespace=sales", "sales"),
        ("what=orders", "orders"),
    ):
        rows = section(client, f"{url}?{query}")["rows"]
        assert rows and all(matches in str(row["entity"]) for row in rows)
    assert all("drop" in operations(row) for row in section(client, f"{url}?may=drop")["rows"])
    assert "No matching entities" in page_html(client.get(f"{url}?what=nothing"))
    expected = [str(row["entity"]) for row in section(client, url)["rows"]]
    monkeypatch.setattr("authzconsole.web.people.access.ROWS_PER_PAGE", 2)
    names, next_url = [], url
    while next_url:
        access = section(client, next_url)
        names += [str(row["entity"]) for row in access["rows"]]
        next_url = access["page"].next_url
    assert names[: len(expected)] == expected and len(names) > 2
    for _, download in access["downloads"]:
        assert b"dataset:sales.orders" in client.get(download).getvalue()


def test_entities_of_a_principal_with_many_grants_are_counted_on_demand(browse, monkeypatch):
    for limit in ("MAX_GRANTS_TO_COUNT_AT_ONCE", "MAX_GRANTS_TO_COUNT", "FEW_GRANTS"):
        monkeypatch.setattr(f"grants.access.what_can.{limit}", 0)
    client = browse("ada")
    expected = section(client, "/people/user:dee")["counts"]
    # if all entities are on the page, they are counted
    monkeypatch.setattr("authzconsole.web.people.access.ROWS_PER_PAGE", 1)
    access = section(client, "/people/user:dee")
    assert access["counts"] is None and access["rows"]
    assert section(client, "/people/user:dee?count=1")["counts"] == expected


def test_my_access_says_in_words_what_one_can_do(browse):
    client = browse("dee")
    page = page_html(client.get("/my-access"))
    assert "What you can do" in page and "You read 1 dataset in sales." in page
    assert "You have access to 1 namespace and 1 dataset." in page
    rows = section(client, "/my-access")["rows"]
    assert [str(row["entity"]) for row in rows] == ["namespace:sales", "dataset:sales.orders"]
    nothing = page_html(browse("out").get("/my-access"))
    assert "You have no access to data yet." in nothing


def test_my_access_and_its_downloads_have_only_entities_that_the_account_sees(browse):
    add_grant("group:operators", "dataset:sales.orders", "READ")
    client = browse("grp")
    rows = section(client, "/my-access")["rows"]
    assert rows and all(row["is_linked"] for row in rows)
    assert "/people/group:operators" not in page_html(client.get("/my-access"))
    for _, download in section(client, "/my-access")["downloads"]:
        content = client.get(download).getvalue()
        assert b"dataset:sales.orders" in content and b"namespace:hr" not in content


def test_own_access_is_given_back_on_a_page_that_confirms_it(browse):
    dee = browse("dee")
    text = page_html(dee.get("/my-access"))
    url = "/my-access/give-back?entity=dataset%3Asales.orders&privilege=READ"
    assert f'href="{url.replace("&", "&amp;")}"' in text
    assert "You no longer hold" in page_html(dee.get(url))
    answer = dee.post(url, {"reason": "done"}, follow=True)
    assert "Revoked" in page_html(answer) or "revoked" in page_html(answer)
    assert not UserGrant.objects.filter(user__username="dee", content_object__key="sales.orders").exists()
    assert browse("grp").get("/my-access/give-back?group=operators").status_code == 200


def test_the_entities_of_a_person_with_many_grants_are_counted_after_the_page(browse, monkeypatch, htmx):
    client, url = browse("aud"), "/people/user:dee"
    expected = section(client, url)
    monkeypatch.setattr("grants.access.what_can.MAX_GRANTS_TO_COUNT_AT_ONCE", 1)
    monkeypatch.setattr("authzconsole.web.people.access.ROWS_PER_PAGE", 1)
    page = client.get(url)
    access = page.context["access"]
    assert access["counts"] is None and access["is_counted_later"] and access["rows"]
    assert "The entities are being counted." in page_html(page) and 'hx-trigger="load"' in page_html(page)
    # also without scripts
    counted = client.get(f"{url}?count=1", headers=htmx("access"))
    assert (counted.context["access"]["counts"], counted.context["access"]["sentences"]) == (
        expected["counts"],
        expected["sentences"],
    )


def test_access_that_begins_later_is_named(browse):
    later = Validity(valid_from=timezone.now() + timedelta(days=2))
    assert "begins later" not in browse("aud").html("/people/user:out")
    add_grant("user:out", "dataset:sales.orders", "READ", later)
    page = browse("aud").get("/people/user:out")
    assert "1 grant or membership begins later" in page_html(page)
    listed = browse("aud").html(page.context["access"]["later"]["url"])
    assert "dataset:sales.orders" in listed.replace("<wbr>", "") and listed.count('<th scope="row">') == 1
    own = browse("out").html("/my-access")
    assert "1 grant or membership begins later" in own and "/limited" not in own
