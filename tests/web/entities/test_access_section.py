"""Test the section with the people who can access an entity."""

import re

import pytest

from entities.address import parse_address
from entities.models import Entity
from grants.journal import current_revision
from grants.models import User
from tests.support.changes import add_grant, add_user, change_grants, revoke_grant
from tests.support.pages import page_html

pytestmark = pytest.mark.django_db

URL = "/entities/dataset:sales.orders?tab=access"


def section(client, url: str) -> dict:
    return client.get(url).context["access"]


def users_of(access: dict) -> list[str]:
    return [row["user"].removeprefix("user:") for row in access["page"].rows]


def test_people_are_listed_with_operations_and_paths(browse):
    client = browse("aud")
    access = section(client, URL)
    assert access["summary"]["people_total"] == len(access["page"].rows) and not access["page"].next_url
    dee = next(row for row in access["page"].rows if row["user"].removeprefix("user:") == "dee")
    holders = [holder for way in dee["ways"] for holder in way["holders"]]
    assert all(
        holder["own"] == [{"privileges": "READ", "pattern": ""}]
        and not holder["group"]
        and not holder["elsewhere"]
        and holder["is_only"]
        for holder in holders
    )
    assert {operation for way in dee["ways"] for operation in way["operations"]} >= {"read", "get", "list"}
    read = next(total for total in access["summary"]["totals"] if "read" in total["operations"])
    assert read["rule"] == "READ on the entity" and read["total"] >= 1
    page = page_html(client.get(URL))
    assert "Who can access" in page and "READ on the entity" in page


def test_groups_lead_to_their_members(browse):
    client = browse("ada")
    access = section(client, "/entities/program:sales.shop.workflow.daily?tab=access")
    group = access["summary"]["groups"][0]
    assert (group.name, group.members) == ("operators", 1)
    members = section(client, "/entities/program:sales.shop.workflow.daily?tab=access&via=operators")
    assert users_of(members) == ["grp"]
    assert members["page"].rows[0]["ways"][0]["holders"][0]["group"] == "group:operators"


def test_filters_and_downloads(browse):
    client = browse("ada")
    assert users_of(section(client, f"{URL}&who=DE")) == ["dee"]
    assert section(client, f"{URL}&can=drop&who=dee")["page"].rows == []
    assert "No matching people" in page_html(client.get(f"{URL}&can=drop&who=dee"))
    assert "dee" in users_of(section(client, f"{URL}&holding=READ"))
    names = users_of(section(client, f"{URL}&order-by=-name"))
    assert names == sorted(names, reverse=True)
    for _, url in section(client, f"{URL}&who=dee&path=direct")["downloads"]:
        assert b"dee" in client.get(url).getvalue()


def test_a_container_is_listed_with_its_contents(browse):
    client = browse("ada")
    access = section(client, "/entities/namespace:sales?tab=access&contents=1&of=dataset")
    assert {row["entity"].kind for row in access["page"].rows} == {"dataset"}
    assert (
        access["entity_total"]
        == Entity.objects.filter(kind="dataset", namespace__key="sales", state="live").count()
    )
    assert section(client, "/entities/instance:cdap?tab=access")["page"].rows


def test_a_switch_leads_from_an_entity_to_everything_in_it_and_the_tab_shows_the_date(browse):
    client = browse("ada")
    for url, current in (
        ("?tab=access", "access-own"),
        ("?tab=access&contents=1&of=dataset&who=dee", "access-contents"),
    ):
        text = page_html(client.get(f"/entities/namespace:sales{url}"))
        assert "This namespace</a>" in text and "Everything in it</a>" in text
        (link,) = (
            link
            for link in re.findall(r"<a[^>]*>", text)
            if 'aria-current="true"' in link and "access-" in link
        )
        assert f'id="{current}"' in link
        assert 'id="access-as-of" name="as_of"' in text
    own = re.search(r'id="access-own" href="([^"]*)"', text)[1]
    assert "contents" not in own and "of=" not in own and "who=dee" in own
    dataset = page_html(client.get(URL))
    assert "Everything in it" not in dataset and 'id="access-as-of"' in dataset


def test_pages_follow_each_other(browse, monkeypatch):
    users = User.objects.bulk_create(User(username=f"reader{n}") for n in range(5))
    orders = parse_address("dataset:sales.orders")
    change_grants(grant=[(f"user:{user.username}", orders, "READ") for user in users])
    client = browse("ada")
    expected = users_of(section(client, URL))
    monkeypatch.setattr("authzconsole.web.entities.access.ROWS_PER_PAGE", 2)
    url, names = URL, []
    while url:
        access = section(client, url)
        names += users_of(access)
        url = access["page"].next_url
    assert names == expected and len(names) > 5


def test_the_page_of_an_earlier_state_shows_who_had_access(browse):
    add_user("zed")
    orders = parse_address("dataset:sales.orders")
    add_grant("user:zed", orders, "READ")
    revision = current_revision()
    revoke_grant("user:zed", orders, "READ")
    client = browse("aud")
    assert "zed" not in users_of(section(client, URL))
    access = section(client, f"{URL}&as_of={revision}")
    assert "zed" in users_of(access)
    assert all(b"zed" in client.get(url).getvalue() for _, url in access["downloads"])
    person = client.get(f"/people/user:zed?as_of={revision}")
    assert "dataset:sales.orders" in {str(row["entity"]) for row in person.context["access"]["rows"]}
    assert f'name="as_of" value="{revision}"' in page_html(person)


def test_an_ordinary_account_learns_nothing_about_others(browse):
    answer = browse("dee").get(URL)
    assert answer.context["access"] is None and "Who can access" not in page_html(answer)
    assert browse("dee").get(URL, headers={"HX-Request": "true", "HX-Target": "access"}).status_code == 404


def test_people_with_access_to_a_large_container_are_counted_on_demand(browse, monkeypatch):
    client, url = browse("ada"), "/entities/namespace:sales?tab=access"
    expected = section(client, url)
    monkeypatch.setattr("grants.access.who_can.MAX_INSIDE", 1)
    access = section(client, url)
    assert access["summary"] is None and not access["is_counted_later"]
    assert users_of(access) == users_of(expected)
    counted = section(client, f"{url}&count=1")
    assert (counted["summary"]["people_total"], counted["summary"]["totals"]) == (
        expected["summary"]["people_total"],
        expected["summary"]["totals"],
    )


def test_the_totals_of_a_container_with_many_entities_are_loaded_after_the_page(browse, monkeypatch, htmx):
    client, url = browse("ada"), "/entities/namespace:sales?tab=access"
    expected = section(client, url)
    monkeypatch.setattr("grants.access.who_can.MAX_INSIDE_COUNTED_AT_ONCE", 1)
    page = client.get(url)
    access = page.context["access"]
    assert access["summary"] is None and access["is_counted_later"]
    assert 'id="totals"' in page_html(page) and 'hx-trigger="load"' in page_html(page)
    assert users_of(access) == users_of(expected)
    totals = client.get(url, headers=htmx("totals"))
    assert totals.context["totals"] == expected["summary"] and "<html" not in page_html(totals)
    # without scripts
    assert section(client, f"{url}&count=1")["summary"]["totals"] == expected["summary"]["totals"]
    assert browse("dee").get(url, headers=htmx("totals")).status_code == 404


def test_a_section_that_is_loaded_alone_names_the_generation(browse, htmx):
    section = page_html(browse("aud").get(f"{URL}&can=read", headers=htmx("access")))
    assert "active users, in generation" in section and "<code>final</code>" in section
