"""Sessions that end or change while a page is open."""

from urllib.parse import parse_qsl, urlsplit

import pytest
from django.test import Client

from authzconsole.models import AccountSession
from tests.support.cast import PASSWORD
from tests.support.pages import page_html

ORDERS = "http://testserver/entities/dataset:sales.orders?kind=program"
FORM = {"principal": "user:dee", "privilege": "READ"}


def test_a_form_sent_after_the_session_ended_returns_to_its_page(browse):
    response = browse().post("/grant/dataset:sales.orders", FORM, headers={"Referer": ORDERS})
    assert (
        response.headers["Location"] == "/sign-in?next=%2Fentities%2Fdataset%3Asales.orders%3Fkind%3Dprogram"
    )


@pytest.mark.parametrize("url", ["/journal.csv", "/analyses/1/tables/rows.csv"])
def test_a_download_after_the_session_ended_returns_to_its_page(url, browse):
    response = browse().get(url, headers={"Referer": "http://testserver/journal/?q=dee"})
    assert response.headers["Location"] == "/sign-in?next=%2Fjournal%2F%3Fq%3Ddee"
    assert browse().get(url).headers["Location"] == f"/sign-in?next={url}"


@pytest.mark.parametrize(
    "page",
    [
        "http://[",
        "nonsense",
        "http://testserver",
        "http://testserver//elsewhere.example/",
        "https://elsewhere.example/page",
    ],
)
def test_a_forged_referer_leads_to_no_other_host(page, browse, cast):
    client = browse()
    location = client.post("/grant/dataset:sales.orders", FORM, headers={"Referer": page}).headers["Location"]
    client.get(location)
    response = client.post(
        location,
        {
            "username": "ada",
            "password": PASSWORD,
            "next": dict(parse_qsl(urlsplit(location).query)).get("next", ""),
        },
    )
    assert response.status_code == 302 and response.headers["Location"] == "/"


def test_signing_in_on_a_second_page_continues_from_it(cast):
    client = Client(enforce_csrf_checks=True)
    client.get("/sign-in")
    client.force_login(cast["ada"])
    form = {"username": "ada", "password": PASSWORD, "next": "/journal/", "csrfmiddlewaretoken": "outdated"}
    response = client.post("/sign-in", form, follow=True)
    assert (response.status_code, response.request["PATH_INFO"]) == (200, "/journal/")
    assert "You are already signed in as ada." in page_html(response)


def test_a_form_from_before_sign_in_is_refused(cast):
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast["ada"])
    response = client.post("/grant/dataset:sales.orders", FORM | {"csrfmiddlewaretoken": "x"})
    assert response.status_code == 403 and "Nothing was changed" in page_html(response)


def test_the_sign_in_page_says_why_the_session_ended(browse, settings):
    settings.SESSION_IDLE_SECONDS, settings.SESSION_ABSOLUTE_SECONDS = 1_800, 36_000
    assert "Your session ended" not in browse().get("/journal/", follow=True).content.decode()
    client = browse("ada")
    AccountSession.objects.all().delete()
    text = page_html(client.get("/journal/", follow=True))
    assert "A session lasts at most 30 minutes without use, and 10 hours in all. Sign in to continue." in text


def test_two_sections_of_a_page_say_once_that_the_session_ended(browse):
    client = browse("ada")
    AccountSession.objects.all().delete()
    client.get("/requests/count")
    client.post("/grant/dataset:sales.orders", FORM)
    text = page_html(client.get("/sign-in"))
    assert text.count("Your session ended.") == 1 and "Sign in and repeat your last change." in text
