"""A data steward sees everything in the namespace and nothing else; administrators assign stewards on its
page.
"""

import pytest

from entities.address import parse_address
from grants.models import JournalLine, NamespaceSteward
from grants.stewards.services import add_steward, remove_steward
from tests.support.authors import database_state
from tests.support.cast import HR, SALES, SETUP
from tests.support.changes import add_grant, add_group, add_member
from tests.support.pages import page_html

SALES_NAMESPACE = parse_address("namespace:sales")
INSIDE = [*SALES, "dataset:sales.forecast", "dataset:sales.legacy"]
HIDDEN = [*HR, "instance:cdap"]


@pytest.fixture
def steward(cast, browse):
    """Make `out`, a user without grants, a data steward of the namespace `sales`."""
    add_steward(author=SETUP, namespace=SALES_NAMESPACE, principal="user:out")
    return browse("out")


def test_a_steward_opens_every_entity_in_the_namespace_and_no_other(steward, browse):
    assert {address: steward.get(f"/entities/{address}").status_code for address in [*INSIDE, *HIDDEN]} == (
        dict.fromkeys(INSIDE, 200) | dict.fromkeys(HIDDEN, 404)
    )
    remove_steward(author=SETUP, namespace=SALES_NAMESPACE, principal="user:out")
    assert {browse("out").get(f"/entities/{address}").status_code for address in INSIDE} == {404}


def test_a_steward_sees_holders_people_with_access_and_history_without_links_to_other_pages(steward):
    page = steward.get("/entities/dataset:sales.orders?tab=access")
    assert page.context["holders"]["page"].total == 3 and {
        str(row["user"].removeprefix("user:")) for row in page.context["access"]["page"].rows
    } == {"dee", "ned"}
    namespace = steward.get("/entities/namespace:sales?tab=access&contents=yes")
    history = steward.get("/entities/dataset:sales.orders?tab=history")
    assert [row["line"].action for row in history.context["history"]["lines"]].count("grant") == 3
    for response in (page, namespace, history):
        text = page_html(response)
        assert (
            "/people/" not in text
            and "/journal" not in text
            and 'href="/grant/' not in text
            and "/revoke/" not in text
        )
        assert "Show members" not in text or "operators" in text
    assert steward.get("/entities/program:sales.shop.workflow.daily?tab=access").context["access"]["summary"][
        "groups"
    ]


def test_a_steward_does_not_find_the_members_of_groups_that_hold_nothing_in_the_namespace(
    steward, cast, browse
):
    """The filter by group would otherwise tell which people with access in the namespace are in any group."""
    add_group("board")
    for group in ("board", "operators"):
        add_member("dee", group)
    add_grant("group:board", "namespace:hr", "READ")

    def found(client, url: str) -> set[str]:
        response = client.get(url)
        if url.startswith("/api"):
            return {row["user"] for row in response.json()["items"]}
        return {row["user"].removeprefix("user:") for row in response.context["access"]["page"].rows}

    for url in (
        "/entities/dataset:sales.orders?tab=access&via={}",
        "/entities/namespace:sales?tab=access&contents=yes&via={}",
        "/api/v1/who-can?entity=dataset:sales.orders&group={}",
    ):
        assert found(browse("ada"), url.format("board")) == {"dee"}
        assert found(steward, url.format("board")) == found(steward, url.format("none")) == set()
        assert "dee" in found(steward, url.format("operators"))
    add_grant("group:board", "dataset:sales.customers", "READ")
    assert found(steward, "/api/v1/who-can?entity=dataset:sales.orders&group=board") == {"dee"}


def test_a_steward_is_not_told_of_groups_that_hold_nothing_in_the_namespace(steward, browse):
    """No stream is in the namespace, so deleting all of them needs no grant, and every group may do it."""
    add_group("board")
    add_member("dee", "board")
    url = "/entities/namespace:sales?tab=access&can=delete-all-streams"

    def groups(client) -> list[str]:
        return [group.name for group in client.get(url).context["access"]["summary"]["groups"]]

    assert groups(browse("ada")) == ["board", "operators"] and groups(steward) == ["operators"]


def test_a_steward_finds_the_entities_of_the_namespace_in_lists_and_search(steward):
    text = page_html(steward.get("/"))
    assert "namespace:sales" in text and "namespace:hr" not in text
    assert steward.get("/entities/namespace:sales").context["children"]["total"] == 6
    assert "/entities/namespace:sales" in page_html(steward.get("/explorer"))
    tree = steward.get("/explorer/inside?in=namespace:sales&of=dataset")
    assert tree.status_code == 200 and "customers" in page_html(tree)
    assert steward.get("/explorer/inside?in=namespace:hr&of=dataset").status_code == 404
    assert "dataset:sales.customers" in page_html(steward.get("/search?q=customers")).replace("<wbr>", "")
    assert "salaries" not in page_html(steward.get("/search?q=salarie")).replace("salarie&", "").split(
        "<main"
    )[1].replace('value="salarie"', "")


def test_a_steward_changes_nothing(steward):
    before = database_state()
    form = {"principal": "user:out", "privilege": "READ", "description": "x", "verb": "add"}
    for url, status in (
        ("/grant/dataset:sales.orders", 403),
        ("/revoke/dataset:sales.orders", 403),
        ("/lifecycle/delete/dataset:sales.orders", 403),
        ("/describe/dataset:sales.orders", 403),
        ("/stewards/namespace:sales", 404),
        ("/plans/many", 404),
        ("/grant/dataset:hr.salaries", 404),
    ):
        assert steward.post(url, form).status_code == status, url
    assert database_state() == before


def test_pages_about_everything_stay_hidden_from_a_steward(steward):
    for url in (
        "/people/",
        "/people/user:ned",
        "/journal/",
        "/analyses/",
        "/plans/",
        "/forecast/namespace:sales",
        "/status",
        "/suggest/principals?principal=n",
        "/stewards/namespace:sales",
    ):
        assert steward.get(url).status_code == 404, url
    page = page_html(steward.get("/entities/namespace:sales?tab=access"))
    assert ">Stewards<" in page and "Change stewards" not in page


def test_an_administrator_assigns_and_removes_stewards_on_the_page_of_the_namespace(browse):
    ada = browse("ada")
    assert "/stewards/namespace:sales" in page_html(ada.get("/entities/namespace:sales?tab=access"))
    assert "No stewards" in page_html(ada.get("/stewards/namespace:sales"))
    fields = {"principal": "group:operators", "reason": "owns the data"}
    assert (
        ada.post("/stewards/namespace:sales", fields | {"verb": "add"}).headers["Location"]
        == "/stewards/namespace:sales"
    )
    assert "owns the data" in page_html(ada.get("/stewards/namespace:sales"))
    refused = ada.post("/stewards/namespace:sales", {"verb": "add", "principal": "user:nobody"})
    assert refused.status_code == 400 and "user:nobody does not exist" in page_html(refused)
    ada.post("/stewards/namespace:sales", fields | {"verb": "remove"})
    assert not NamespaceSteward.objects.exists()
    lines = JournalLine.objects.filter(action__startswith="steward").order_by("revision")
    assert [(line.action, line.actor, line.reason) for line in lines] == [
        ("steward-add", "ada", "owns the data"),
        ("steward-remove", "ada", "owns the data"),
    ]


def test_other_accounts_see_no_stewards(steward, browse):
    for name in ("ned", "dee", "grp"):
        assert 'id="stewards"' not in page_html(browse(name).get("/entities/namespace:sales?tab=access"))
    assert 'id="stewards"' in page_html(browse("aud").get("/entities/namespace:sales?tab=access"))


def test_a_steward_is_named_without_a_type(browse):
    browse("ada").post("/stewards/namespace:sales", {"principal": "out", "reason": "x"})
    assert NamespaceSteward.objects.get().user.username == "out"
