"""Pages of errors: invalid addresses, missing and hidden pages, and methods that a page does not have."""

import pytest

from tests.support.pages import without_tokens

SALARIES, NOWHERE = "/entities/dataset:hr.salaries", "/entities/dataset:sales.nothing"


@pytest.mark.parametrize("who", ["ada", "out"])
@pytest.mark.parametrize(
    ("address", "fault"),
    [
        ("dataset:x", "`dataset:x` lacks a part"),
        ("widget:x", "`widget` is not a kind of entity"),
        ("namespace:a-b", "the name `a-b` contains a character"),
        ("program:a.b.c.d", "`c` is not a type of program"),
    ],
)
def test_an_invalid_address_is_refused_with_the_invalid_part(browse, who, address, fault):
    answer = browse(who).get(f"/entities/{address}")
    assert answer.status_code == 404 and fault in answer.content.decode().replace("&#x27;", "'")


def test_a_404_page_does_not_reveal_whether_a_valid_address_exists(browse):
    # the page repeats the address of the request, and nothing else about it
    unseen, nowhere = (
        without_tokens(browse("out").get(url)).replace(url.removeprefix("/entities/"), "ADDRESS")
        for url in (SALARIES, NOWHERE)
    )
    assert unseen == nowhere


@pytest.mark.parametrize(
    ("url", "area"),
    [
        ("/analyses/start", "Analyses"),
        ("/plans/copy", "Plans"),
        ("/plans/9/apply", "Plans"),
        ("/plans/ghosts", "Plans"),
        ("/plans/9/undo", "Plans"),
        ("/people/see-as", "Users and groups"),
    ],
)
def test_a_post_only_url_explains_itself_and_links_to_its_area(url, area, browse):
    response = browse("ada").get(url)
    text = response.content.decode()
    assert (response.status_code, response["Allow"], "no-store" in response["Cache-Control"]) == (
        405,
        "POST",
        True,
    )
    assert "This address only accepts a form" in text and f"Go to {area}" in text and 'id="search"' in text
    assert "Go to Overview" in browse("dee").html(url)


@pytest.mark.parametrize(
    "url",
    [
        "/",
        "/nowhere",
        NOWHERE,
        "/password",
        "/ask",
        "/api/v1/docs",
        "/api/v1/redoc",
        "/journal.csv",
        "/api/v1/openapi.json",
        "/api/v1/nowhere",
        "/access/nowhere",
        "/explorer/",
        "/journal.xls",
    ],
)
def test_no_response_to_a_signed_in_account_is_cached(url, browse):
    assert "no-store" in browse("ada").get(url)["Cache-Control"]


def test_error_pages_are_not_cached(browse):
    client = browse("ada")
    client.handler.enforce_csrf_checks = True
    response = client.post("/password")
    assert response.status_code == 403 and "no-store" in response["Cache-Control"]


def test_a_read_only_page_refuses_a_post(browse):
    response = browse("ada").post("/journal/")
    assert response.status_code == 405 and "does not accept forms" in response.content.decode()


@pytest.mark.parametrize("url", ["/access/v1/evaluation", "/api/v1/grants"])
def test_apis_keep_their_own_405_response(url, browse):
    response = browse("ada").delete(url)
    assert (
        "html" not in response["Content-Type"] and b"This address only accepts a form" not in response.content
    )


def test_error_pages_keep_navigation_and_search_for_signed_in_accounts(browse):
    for url, name in ((NOWHERE, "dee"), ("/nowhere", "dee"), ("/plans/many", "aud")):
        text = browse(name).html(url)
        assert 'id="search"' in text and "Sign out" in text
    assert 'id="search"' not in browse().html("/nowhere")
