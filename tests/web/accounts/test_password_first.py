"""After an administrator sets a password, the user must change it at the next sign-in."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from grants.journal import Author
from grants.models import User
from grants.principals.services import renew_user_password
from tests.support.cast import SETUP
from tests.support.page_urls import page_url_patterns
from tests.support.pages import page_html

NEW = "quite another password"
# URLs that stay available before the change
AVAILABLE = {
    "password",
    "healthz",
    "sign-in",
    "invitation",
    "account_login",
    "sign-out",
    "openid_connect_login",
    "openid_connect_callback",
    "saml-acs",
    "saml-metadata",
    "saml-slo",
    "passkey-sign-in",
    "mfa_authenticate",
    "readyz",
    "metrics",
}


@pytest.fixture
def sign_in_with_reset_password(cast):
    """Return a function that resets the password of a user and signs in with it."""

    def sign_in(name: str) -> tuple[Client, str]:
        client, password = Client(), renew_user_password(author=SETUP, name=name)
        assert client.login(username=name, password=password)
        return client, password

    return sign_in


def change_password(client: Client, old: str, new: str = NEW, **fields):
    return client.post(
        "/password", {"old_password": old, "new_password1": new, "new_password2": new, **fields}
    )


def page_urls() -> dict[str, str]:
    """Return an example of each URL of the pages, by the name of the URL."""
    examples = {"int": 1, "slug": "visibility", "path": "user:dee", "str": "two-admins"}
    routes = list(page_url_patterns())
    arguments = {
        route.name: {name: examples[kind] for kind, name in re.findall(r"<(\w+):(\w+)>", str(route.pattern))}
        for route in routes
    }
    return {name: reverse(name, kwargs=kwargs) for name, kwargs in arguments.items()}


@pytest.mark.parametrize("account", ["ada", "dee"])
def test_every_page_redirects_to_the_password_form(account, sign_in_with_reset_password):
    client, _ = sign_in_with_reset_password(account)
    urls = page_urls()
    assert len(urls) > 50
    for name, url in urls.items():
        if name not in AVAILABLE:
            get, post = client.get(url), client.post(url)
            assert get.status_code == 303 and get["Location"].startswith("/password?next=%2F"), name
            assert (post.status_code, post["Location"]) == (303, "/password"), name
    response = client.get("/search?q=orders")
    assert response["Location"] == "/password?next=%2Fsearch%3Fq%3Dorders"
    assert 'value="/search?q=orders"' in page_html(client.get(response["Location"]))


def test_posts_are_not_performed_before_the_change(sign_in_with_reset_password, cast):
    client, _ = sign_in_with_reset_password("ada")
    response = client.post("/accounts/change/user:dee", {"change": "role", "role": "auditor"})
    assert (response.status_code, response["Location"]) == (303, "/password")
    cast["dee"].refresh_from_db()
    assert cast["dee"].role == "ordinary"


def test_public_pages_and_signing_out_stay_available(sign_in_with_reset_password):
    client, _ = sign_in_with_reset_password("dee")
    assert [client.get(url).status_code for url in ("/healthz", "/api/v1/docs", "/api/v1/openapi.json")] == [
        200,
        200,
        200,
    ]
    assert client.post("/sign-out")["Location"] == "/sign-in"
    assert client.get("/")["Location"].startswith("/sign-in")


def test_htmx_requests_redirect_the_whole_page(sign_in_with_reset_password, htmx):
    response = sign_in_with_reset_password("dee")[0].get(
        "/entities/namespace:sales",
        headers={**htmx("children"), "HX-Current-URL": "http://testserver/entities/namespace:sales"},
    )
    assert response["HX-Redirect"] == "/password?next=%2Fentities%2Fnamespace%3Asales"


def test_the_forced_form_offers_only_the_change_and_sign_out(sign_in_with_reset_password):
    text = page_html(sign_in_with_reset_password("dee")[0].get("/password"))
    assert "your password was set for you" in text and text.count("autofocus") == 1
    assert 'action="/sign-out"' in text and "Cancel" not in text and "<nav" not in text


@pytest.mark.parametrize(
    ("next_page", "expected"), [("/search?q=orders", "/search?q=orders"), ("https://elsewhere.example/", "/")]
)
def test_after_the_change_the_user_continues_to_the_requested_page(
    next_page, expected, sign_in_with_reset_password
):
    client, password = sign_in_with_reset_password("dee")
    response = change_password(client, password, next=next_page)
    assert (response.status_code, response["Location"]) == (302, expected)
    assert client.get("/search?q=orders").status_code == client.get("/").status_code == 200
    new_client = Client()
    assert not new_client.login(username="dee", password=password) and new_client.login(
        username="dee", password=NEW
    )
    assert new_client.get("/").status_code == 200


def test_a_refused_change_keeps_the_pages_locked(sign_in_with_reset_password):
    client, password = sign_in_with_reset_password("dee")
    for new, fault in (
        ("short", "too short"),
        ("dee", "too similar"),
        (password, "This is your current password"),
    ):
        assert fault in page_html(change_password(client, password, new))
        assert client.get("/").status_code == 303


def test_the_attack_a_first_password_is_used_after_it_expired(cast):
    password = renew_user_password(author=SETUP, name="dee")
    form = {"username": "dee", "password": password}
    for hours, is_expired in ((1, False), (-1, True)):
        User.objects.filter(username="dee").update(
            password_expires_at=timezone.now() + timedelta(hours=hours)
        )
        text = page_html(Client().post("/sign-in", form, follow=True))
        assert ("This first password has expired" in text) == is_expired
    assert "has expired" not in page_html(Client().post("/sign-in", form | {"password": "wrong"}))


def test_a_first_password_expires_after_72_hours_and_a_chosen_password_never(sign_in_with_reset_password):
    client, password = sign_in_with_reset_password("dee")
    end = User.objects.get(username="dee").password_expires_at
    assert timedelta(hours=71.9) < end - timezone.now() <= timedelta(hours=72)
    change_password(client, password)
    assert User.objects.get(username="dee").password_expires_at is None


def test_short_and_known_passwords_are_refused(sign_in_with_reset_password):
    client, password = sign_in_with_reset_password("dee")
    passwords = ("eleven-char", "qwerty123456", "123456789012", "elevencharsx")
    assert [change_password(client, password, new).status_code for new in passwords] == [200, 200, 200, 302]


def test_every_reset_requires_another_change(sign_in_with_reset_password, browse):
    client, password = sign_in_with_reset_password("dee")
    change_password(client, password)
    browse("ada").post("/accounts/password/user:dee", {"reason": "forgotten"})
    assert User.objects.get(username="dee").must_change_password
    assert "Must change the password at the next sign-in" in browse("aud").html("/people/user:dee")


def test_impersonating_such_a_user_requires_no_change(browse, cast):
    renew_user_password(author=Author("the tests"), name="dee")
    client = browse("ada")
    client.post("/people/see-as", {"user": "dee"})
    assert client.get("/").status_code == client.get("/password").status_code == 200
    assert "Cancel" in client.html("/password")


def test_the_first_password_is_not_asked_for_again_right_after_the_sign_in(sign_in_with_reset_password):
    client, password = sign_in_with_reset_password("dee")
    assert "old_password" not in page_html(client.get("/password"))
    form = {"new_password1": password, "new_password2": password}
    assert "This is your current password" in page_html(client.post("/password", form))
    session = client.session
    session["authenticated_at"] -= 100_000
    session.save()
    assert 'name="old_password"' in page_html(client.get("/password"))
    assert client.post("/password", {"new_password1": NEW, "new_password2": NEW}).status_code == 200
    session["authenticated_at"] += 100_000
    session.save()
    assert client.post("/password", {"new_password1": NEW, "new_password2": NEW}).status_code == 302
