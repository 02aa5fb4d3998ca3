"""Patterns on the pages: granting on one, its page, and where it is shown."""

from pytest_django.asserts import assertContains, assertNotContains

from tests.support.authors import all_grants, is_permitted
from tests.support.changes import add_grant, revoke_grant
from tests.support.pages import page_html, post_as_shown, text_of

PATTERN = "dataset:sales.*"
GRANT, PAGE = "/grant/dataset:sales.%2A", "/entities/dataset:sales.%2A"


def test_a_grant_on_a_pattern_shows_its_effect_and_leads_to_the_page_of_the_pattern(browse):
    client = browse("ada")
    assert page_html(client.get(GRANT)).count("dataset:sales.*")
    response = post_as_shown(client, GRANT, {"principal": "user:out", "privilege": "READ"})
    assert response.status_code == 303
    assert ("user:out", PATTERN, "READ") in all_grants()
    assert is_permitted("out", "read", "dataset:sales.orders")
    page = client.get(response.headers["Location"])
    assert page.status_code == 200
    assert [str(row) for row in page.context["matching"]] == [
        "dataset:sales.customers",
        "dataset:sales.forecast",
        "dataset:sales.legacy",
        "dataset:sales.orders",
    ]
    assert "user:out" in page_html(page)


def test_the_effect_of_a_grant_on_a_pattern_names_who_gains_on_what_it_matches(browse, htmx):
    query = "?principal=user:out&privilege=READ"
    text = page_html(browse("ada").get(GRANT + query, headers=htmx("grant-form-effect")))
    assert "user:out" in text and "dataset:sales.orders" in text


def test_a_revocation_of_a_pattern_ends_what_it_gave(browse):
    add_grant("user:out", PATTERN, "READ")
    post_as_shown(browse("ada"), "/revoke/dataset:sales.%2A", {"principal": "user:out", "privilege": "READ"})
    assert not is_permitted("out", "read", "dataset:sales.orders")


def test_the_page_of_an_entity_names_the_patterns_that_give_on_it(browse):
    add_grant("group:operators", PATTERN, "READ")
    text = page_html(browse("ada").get("/entities/dataset:sales.orders?tab=access"))
    assert "By patterns" in text and "gives READ to group:operators" in text
    own = page_html(browse("grp").get("/entities/dataset:sales.orders?tab=access"))
    assert "READ" in own and "By patterns" not in own


def test_a_path_names_the_pattern_unless_another_grant_gives_the_same(browse):
    add_grant("group:operators", PATTERN, "READ")
    by_pattern = "`READ` by `dataset:sales.*` through group operators"
    ada = browse("ada")
    for url in ("/entities/dataset:sales.orders?tab=access", "/people/user:grp", "/people/group:operators"):
        assert by_pattern in text_of(ada.get(url)), url
    add_grant("group:operators", "dataset:sales.orders", "READ")
    text = text_of(ada.get("/entities/dataset:sales.orders?tab=access"))
    assert "`READ` through group operators" in text and by_pattern not in text
    revoke_grant("group:operators", PATTERN, "READ")
    assert "`READ` by" not in text_of(ada.get("/people/user:grp"))


def test_a_path_tells_the_privileges_of_a_pattern_from_those_of_other_grants(browse):
    add_grant("group:operators", PATTERN, "READ")
    add_grant("group:operators", "dataset:sales.orders", "WRITE")
    text = text_of(browse("ada").get("/entities/dataset:sales.orders?tab=access"))
    assert "`WRITE` , `READ` by `dataset:sales.*` through group operators" in text.replace("`,", "` ,")


def test_the_forecast_of_a_registration_names_the_patterns_that_will_give_on_it(browse):
    add_grant("group:operators", PATTERN, "READ")
    text = text_of(browse("ada").get("/lifecycle/register/dataset:sales.fresh?preview=yes"))
    grants = text.partition("1 existing grant will apply:")[2].replace("dataset: ", "dataset:")
    assert grants.strip().startswith("group operators READ by the pattern dataset:sales.*")


def test_the_page_of_a_principal_lists_its_patterns(browse):
    add_grant("user:out", PATTERN, "READ")
    assert PATTERN in page_html(browse("ada").get("/people/user:out"))
    own = browse("out").get("/my-access")
    assert PATTERN in page_html(own)


def test_a_user_sees_a_privilege_by_a_pattern_as_held(browse):
    add_grant("user:out", PATTERN, "READ")
    text = page_html(browse("out").get("/entities/dataset:sales.orders?tab=access"))
    assert "READ held by the pattern dataset:sales.*" in text


def test_the_page_of_a_pattern_says_how_many_more_it_matches(browse, monkeypatch):
    assertNotContains(browse("ada").get("/entities/dataset:*"), "more</li>")
    monkeypatch.setattr("authzconsole.web.entities.page.MAX_MATCHING", 1)
    page = browse("ada").get("/entities/dataset:*")
    assertContains(page, f"and {page.context['total'] - 1} more</li>")


def test_a_pattern_is_no_entity(browse):
    add_grant("user:out", PATTERN, "READ")
    for name in ("out", "dee"):
        response = browse(name).get(PAGE)
        assert response.status_code == 404 and "is a pattern" in page_html(response)
    ada = browse("ada")
    assert "is a pattern" in page_html(ada.get(f"/ask?subject=user:out&operation=read&entity={PATTERN}"))
    assert ada.get("/lifecycle/register/dataset:sales.%2A").status_code == 404
    assert browse("out").get(GRANT).status_code == 404


def test_strange_patterns_have_a_page_or_a_message(browse):
    ada = browse("ada")
    for text in ("dataset:*", "namespace:*", "dataset:a.**%3F", "instance:*", "kerberosprincipal:*"):
        assert ada.get(f"/entities/{text}").status_code == 200
        assert ada.get(f"/grant/{text}").status_code == 200
    response = ada.get("/entities/namespace:a.*")
    assert response.status_code == 404 and "matches nothing" in page_html(response)
