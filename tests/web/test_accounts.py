"""Signing in and out, the password, and being alive."""

from tests.cast import PASSWORD


def test_signing_in_leads_to_where_one_wanted_to_go(browse):
    response = browse().post("/sign-in", {"username": "ned", "password": PASSWORD, "next": "/search?q=orders"})
    assert (response.status_code, response.headers["Location"]) == (302, "/search?q=orders")


def test_signing_in_never_leads_to_another_host(browse):
    response = browse().post("/sign-in", {"username": "ned", "password": PASSWORD, "next": "https://elsewhere.example/"})
    assert response.headers["Location"] == "/"


def test_a_wrong_password_says_so_and_keeps_the_name(browse):
    response = browse().post("/sign-in", {"username": "ned", "password": "wrong"})
    text = response.content.decode()
    assert response.status_code == 200
    assert "enter a correct" in text.lower() and 'value="ned"' in text


def test_an_inactive_account_is_told_nothing_more_than_a_stranger(browse):
    stranger, inactive = (browse().post("/sign-in", {"username": name, "password": PASSWORD}) for name in ("nobody", "ina"))
    assert stranger.context["form"].non_field_errors() == inactive.context["form"].non_field_errors()


def test_signing_out_takes_a_post(browse):
    client = browse("ned")
    assert client.get("/sign-out").status_code == 405
    assert client.post("/sign-out").headers["Location"] == "/sign-in"
    assert client.get("/").status_code == 302


def test_a_part_that_is_asked_for_after_the_session_ended_sends_the_whole_page_to_the_sign_in(browse):
    response = browse().get("/sign-in?next=/", headers={
        "HX-Request": "true", "HX-Target": "holders", "HX-Current-URL": "http://testserver/entities/namespace:sales"})
    assert response.headers["HX-Redirect"] == "/sign-in?next=%2Fentities%2Fnamespace%3Asales"


def test_the_password_can_be_changed(browse, cast):
    new = "quite another password"
    client = browse("ned")
    response = client.post("/password", {"old_password": PASSWORD, "new_password1": new, "new_password2": new}, follow=True)
    assert "Your password is changed." in response.content.decode()
    cast["ned"].refresh_from_db()
    assert cast["ned"].check_password(new)


def test_a_password_that_is_too_simple_is_refused_beside_its_field(browse, cast):
    sent = {"old_password": PASSWORD, "new_password1": "ned", "new_password2": "ned"}
    text = browse("ned").post("/password", sent).content.decode()
    assert "too short" in text
    cast["ned"].refresh_from_db()
    assert cast["ned"].check_password(PASSWORD)


def test_healthz_answers_everybody(client):
    response = client.get("/healthz")
    assert (response.status_code, response.content, response.headers["Content-Type"]) == (200, b"ok", "text/plain")
