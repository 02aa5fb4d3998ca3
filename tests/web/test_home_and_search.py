"""The list of namespaces, the search, the suggestions."""

import pytest

from entities.models import Entity
from grants.models import User


def names(response) -> list[str]:
    return [str(row["place"]) for row in response.context["namespaces"]["rows"]]


def test_everybody_sees_the_namespaces_that_are_theirs_to_see(browse):
    assert {name: names(browse(name).get("/")) for name in ("ada", "aud", "ned", "grp", "out")} == {
        "ada": ["namespace:hr", "namespace:sales"], "aud": ["namespace:hr", "namespace:sales"], "ned": ["namespace:sales"],
        "grp": ["namespace:sales"], "out": [],
    }


def test_a_namespace_says_how_much_is_in_it_and_who_holds_something(browse):
    row = browse("aud").get("/").context["namespaces"]["rows"][1]
    assert row["inside"] == [("artifact", "1 artifact", 1), ("application", "1 application", 1), ("program", "1 program", 1),
                             ("dataset", "2 datasets", 2)]
    assert (row["users"], row["groups"], row["report"]) == (3, 1, None)


def test_namespaces_are_filtered_by_name_and_description(browse, htmx):
    Entity.objects.filter(key="hr").update(description="People and pay")
    client = browse("ada")
    assert names(client.get("/?find=PAY")) == ["namespace:hr"]
    part = client.get("/?find=sal", headers=htmx("namespaces"))
    assert names(part) == ["namespace:sales"] and "<html" not in part.content.decode()
    assert "No namespace matches" in client.get("/?find=zzz").content.decode()


def test_who_sees_nothing_is_told_what_to_do(browse):
    assert "Ask an administrator of the console" in browse("out").get("/").content.decode()


def test_an_empty_console_says_how_to_begin(client, db):
    client.force_login(User.objects.create(username="ada", role="administrator", is_principal=False))
    assert "python manage.py import_tenant FILE" in client.get("/").content.decode()


def test_only_an_administrator_is_offered_to_start_and_register(browse):
    offered = {name: "Check every namespace" in browse(name).get("/").content.decode() for name in ("ada", "aud", "ned")}
    assert offered == {"ada": True, "aud": False, "ned": False}


def test_a_search_finds_what_the_account_may_see(browse):
    found = {name: [str(row["place"]) for row in browse(name).get("/search?q=sales.").context["rows"]]
             for name in ("ada", "dee", "out")}
    assert (len(found["ada"]), found["dee"], found["out"]) == (7, ["dataset:sales.legacy", "dataset:sales.orders"], [])


@pytest.mark.parametrize("few", [0, 1_000])
def test_a_search_finds_the_same_however_many_match_the_text(few, browse, monkeypatch):
    monkeypatch.setattr("authzconsole.web.finding.FEW_MATCHES", few)
    found = {name: [str(row["place"]) for row in browse(name).get("/search?q=sales").context["rows"]] for name in ("dee", "out")}
    assert found["out"] == [] and found["dee"] == ["dataset:sales.legacy", "dataset:sales.orders", "namespace:sales"]


def test_a_search_for_nothing_or_for_bytes_that_are_no_text_finds_nothing(browse):
    for text in ("", "%00", "%FF", "dataset:", "x" * 5_000):
        assert browse("ada").get(f"/search?q={text}").status_code == 200


def test_principals_are_suggested_by_a_part_of_their_name_and_type(browse):
    client = browse("ada")

    def options(query):
        return client.get(f"/suggest/principals?{query}").context["options"]

    assert options("principal=de") == ["user:dee"]
    assert options("subject=group:op") == ["group:operators"]
    assert "group:operators" in options("principal=o") and "user:out" in options("principal=o")
    assert options("deleter=ne") == ["ned"]
    assert options("principal=%25") == [] and options("principal=%00zzz") == []
