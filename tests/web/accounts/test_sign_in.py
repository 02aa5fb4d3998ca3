"""Signing in and out, changing the password, and the health check."""

import pytest

from tests.support.cast import PASSWORD
from tests.support.pages import page_html


@pytest.mark.parametrize(
    ("next_page", "expected"), [("/search?q=orders", "/search?q=orders"), ("https://elsewhere.example/", "/")]
)
def test_signing_in_never_leads_to_another_host(browse, next_page, expected):
    response = browse().post("/sign-in", {"username": "ned", "password": PASSWORD, "next": next_page})
    assert (response.status_code, response.headers["Location"]) == (302, expected)


def test_a_wrong_password_says_so_and_keeps_the_name(browse):
    response = browse().post("/sign-in", {"username": "ned", "password": "wrong"})
    text = page_html(response)
    assert response.status_code == 200
    assert "Wrong user name or password." in text and 'value="ned"' in text


def test_an_inactive_account_gets_the_same_answer_as_an_unknown_one(browse):
    unknown, inactive = (
        browse().post("/sign-in", {"username": name, "password": PASSWORD}) for name in ("nobody", "ina")
    )
    assert unknown.context["form"].non_field_errors() == inactive.context["form"].non_field_errors()


def test_signing_out_requires_a_post(browse):
    client = browse("ned")
    assert client.get("/sign-out").status_code == 405
    assert client.post("/sign-out").headers["Location"] == "/sign-in"
    assert client.get("/").status_code == 302


def test_a_post_after_the_session_ended_leads_to_sign_in(browse):
    client = browse()
    response = client.post("/grant/dataset:sales.orders", {"principal": "user:dee", "privilege": "READ"})
    assert (response.status_code, response.headers["Location"]) == (303, "/sign-in")
    assert "Sign in and repeat your last change." in client.html("/sign-in")
    response = client.post("/sign-in", {"username": "ada", "password": PASSWORD}, follow=True)
    assert (response.status_code, response.request["PATH_INFO"]) == (200, "/")


def test_an_htmx_post_returns_to_its_page(browse):
    client, page = browse(), "http://testserver/entities/dataset:sales.orders"
    response = client.post(
        "/grant/dataset:sales.orders",
        follow=True,
        headers={"HX-Request": "true", "HX-Target": "grant-form", "HX-Current-URL": page},
    )
    assert response.headers["HX-Redirect"] == "/sign-in?next=%2Fentities%2Fdataset%3Asales.orders"
    assert "Your session ended" in client.html(response.headers["HX-Redirect"])


def test_signing_out_after_the_session_ended_needs_no_repeat(browse):
    response = browse().post("/sign-out", follow=True)
    assert (response.request["PATH_INFO"], response.request["QUERY_STRING"]) == ("/sign-in", "")
    assert "session expired" not in page_html(response)


def test_the_password_can_be_changed(browse, cast):
    new = "quite another password"
    client = browse("ned")
    response = client.post(
        "/password", {"old_password": PASSWORD, "new_password1": new, "new_password2": new}, follow=True
    )
    assert "Your password was changed." in page_html(response)
    cast["ned"].refresh_from_db()
    assert cast["ned"].check_password(new)


def test_healthz_is_public(client):
    response = client.get("/healthz")
    assert (response.status_code, response.content, response.headers["Content-Type"]) == (
        200,
        b"ok",
        "text/plain",
    )


def test_password_pages_show_no_framework_texts(browse):
    client, url = browse("dee"), "/password"
    text = page_html(client.post(url, {"old_password": "wrong", "new_password1": "x", "new_password2": "y"}))
    assert (
        "This is not your current password." in text
        and "The two new passwords differ." in text
        and "Please" not in text
    )
    assert "Please" not in page_html(browse().post("/sign-in", {"username": "dee", "password": "wrong"}))
