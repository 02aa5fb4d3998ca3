"""Who was given a password by somebody else chooses another before anything else, and may always leave."""

import re

import pytest
from django.test import Client
from django.urls import URLPattern, get_resolver, reverse

from grants.journal import Author
from grants.models import User
from grants.principals.services import renew_user_password
from tests.support.cast import PASSWORD, SETUP
from tests.support.pages import page_html

NEW = "quite another password"
# the password's own page, and what nobody signs in for
OPEN = {"password", "healthz", "sign-in", "sign-out"}


@pytest.fixture
def given(cast):
    """A client of somebody with a given password, and that password."""
    def signed_in(name: str) -> tuple[Client, str]:
        client, password = Client(), renew_user_password(author=SETUP, name=name)
        assert client.login(username=name, password=password)
        return client, password

    return signed_in


def changed(client: Client, old: str, new: str = NEW, **more):
    return client.post("/password", {"old_password": old, "new_password1": new, "new_password2": new, **more})


def for_people() -> dict[str, str]:
    """An example of each URL that answers people, by its name."""
    examples = {"int": 1, "slug": "visibility", "path": "user:dee"}
    routes = [part for part in get_resolver().url_patterns if isinstance(part, URLPattern)]
    given = {part.name: {name: examples[kind] for kind, name in re.findall(r"<(\w+):(\w+)>", str(part.pattern))}
             for part in routes}
    return {name: reverse(name, kwargs=kwargs) for name, kwargs in given.items()}


@pytest.mark.parametrize("who", ["ada", "dee"])
def test_every_page_leads_to_the_password_and_back_again(who, given):
    client, _ = given(who)
    urls = for_people()
    assert len(urls) > 50
    for name, url in urls.items():
        if name not in OPEN:
            answer, told = client.get(url), client.post(url)
            assert answer.status_code == 303 and answer["Location"].startswith("/password?next=%2F"), name
            assert (told.status_code, told["Location"]) == (303, "/password"), name
    answer = client.get("/search?q=orders")
    assert answer["Location"] == "/password?next=%2Fsearch%3Fq%3Dorders"
    assert 'value="/search?q=orders"' in page_html(client.get(answer["Location"]))


def test_what_takes_a_post_is_not_done_and_not_come_back_to(given, cast):
    client, _ = given("ada")
    answer = client.post("/accounts/change/user:dee", {"change": "role", "role": "auditor"})
    assert (answer.status_code, answer["Location"]) == (303, "/password")
    cast["dee"].refresh_from_db()
    assert cast["dee"].role == "ordinary"


def test_what_is_open_to_everybody_stays_open(given):
    client, _ = given("dee")
    assert [client.get(url).status_code for url in ("/healthz", "/api/v1/docs", "/api/v1/openapi.json")] == [200, 200, 200]


def test_a_part_of_a_page_sends_the_whole_page_to_the_password(given, htmx):
    answer = given("dee")[0].get("/entities/namespace:sales", headers={
        **htmx("children"), "HX-Current-URL": "http://testserver/entities/namespace:sales"})
    assert answer["HX-Redirect"] == "/password?next=%2Fentities%2Fnamespace%3Asales"


def test_the_page_says_why_and_offers_nothing_but_the_change_and_the_way_out(given):
    text = page_html(given("dee")[0].get("/password"))
    assert "your password was set by an administrator" in text
    assert 'action="/sign-out"' in text and "Cancel" not in text and "Rooms" not in text


def test_signing_out_stays_possible(given):
    client, _ = given("dee")
    assert client.post("/sign-out")["Location"] == "/sign-in"
    assert client.get("/")["Location"].startswith("/sign-in")


def test_after_the_change_everything_opens_and_leads_to_where_one_was_going(given):
    client, password = given("dee")
    answer = changed(client, password, next="/search?q=orders")
    assert (answer.status_code, answer["Location"]) == (302, "/search?q=orders")
    assert client.get("/search?q=orders").status_code == client.get("/").status_code == 200
    again = Client()
    assert not again.login(username="dee", password=password) and again.login(username="dee", password=NEW)
    assert again.get("/").status_code == 200


def test_the_way_on_never_leads_to_another_host(given):
    client, password = given("dee")
    assert changed(client, password, next="https://elsewhere.example/")["Location"] == "/"


@pytest.mark.parametrize("new", ["short", "dee"])
def test_a_refused_change_opens_nothing(given, new):
    client, password = given("dee")
    assert changed(client, password, new).status_code == 200
    assert client.get("/").status_code == 303


def test_the_same_password_again_is_no_change(given):
    client, password = given("dee")
    assert "This is your current password" in page_html(changed(client, password, password))
    assert client.get("/").status_code == 303


def test_who_chose_the_password_is_not_asked_for_another(browse):
    client = browse("dee")
    assert client.get("/").status_code == 200
    assert "Cancel" in page_html(client.get("/password"))
    assert changed(client, PASSWORD)["Location"] == "/"
    assert not User.objects.get(username="dee").must_change_password


def test_each_time_that_somebody_else_sets_it_it_is_asked_for_again(given, browse):
    client, password = given("dee")
    changed(client, password)
    browse("ada").post("/accounts/password/user:dee", {"reason": "forgotten"})
    assert User.objects.get(username="dee").must_change_password
    assert "must change the password at the next sign-in" in page_html(browse("aud").get("/accounts/user:dee"))


def test_who_sees_the_console_as_such_a_person_is_not_held_up(browse, cast):
    renew_user_password(author=Author("the tests"), name="dee")
    client = browse("ada")
    client.post("/people/see-as", {"user": "dee"})
    assert client.get("/").status_code == client.get("/password").status_code == 200
    assert "Cancel" in page_html(client.get("/password"))
