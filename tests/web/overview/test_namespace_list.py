"""The list of namespaces on the first page."""

from entities.models import Entity
from grants.models import User
from tests.support.pages import page_html


def names(response) -> list[str]:
    return [str(row["entity"]) for row in response.context["namespaces"]["rows"]]


def test_each_account_sees_only_visible_namespaces(browse):
    assert {name: names(browse(name).get("/")) for name in ("ada", "aud", "ned", "grp", "out")} == {
        "ada": ["namespace:hr", "namespace:sales"],
        "aud": ["namespace:hr", "namespace:sales"],
        "ned": ["namespace:sales"],
        "grp": ["namespace:sales"],
        "out": [],
    }


def test_a_namespace_row_counts_contents_and_holders(browse):
    row = browse("aud").get("/").context["namespaces"]["rows"][1]
    assert row["inside"] == [
        ("artifact", "1 artifact", 1),
        ("application", "1 application", 1),
        ("program", "1 program", 1),
        ("dataset", "2 datasets", 2),
    ]
    assert (row["users"], row["groups"], row["report"]) == (3, 1, None)


def test_namespaces_are_filtered_by_name_and_description(browse, htmx):
    Entity.objects.filter(key="hr").update(description="People and pay")
    client = browse("ada")
    assert names(client.get("/?find=PAY")) == ["namespace:hr"]
    part = client.get("/?find=sal", headers=htmx("namespaces"))
    assert names(part) == ["namespace:sales"] and "<html" not in page_html(part)
    assert "No matching namespaces" in client.html("/?find=zzz")


def test_an_account_without_grants_gets_a_link_to_request_access(browse):
    assert 'href="/requests/new"' in browse("out").html("/")


def test_an_empty_console_says_how_to_import_data(client, db):
    client.force_login(User.objects.create(username="ada", role="administrator", is_principal=False))
    text = page_html(client.get("/"))
    # an installation has no `python manage.py`, but its documentation says how to run manage.py
    assert "<code>manage.py import_tenant FILE</code>" in text


def test_only_administrators_can_start_analyses_and_register(browse):
    has_form = {name: "Analyze deletability" in browse(name).html("/") for name in ("ada", "aud", "ned")}
    assert has_form == {"ada": True, "aud": False, "ned": False}
