"""The field At of the page Ask: the time that the question is about, in the time zone of the reader."""

from urllib.parse import quote

import pytest

from grants.validity import Validity
from tests.support.changes import add_grant
from tests.support.pages import page_html

ORDERS = "dataset:sales.orders"
ASK = f"/ask?subject=user:out&operation=read&entity={ORDERS}"
PERIOD = Validity.parse("2126-12-04T08:00:00Z", "2126-12-04T23:00:00Z")


@pytest.fixture(autouse=True)
def limited_grant(cast):
    add_grant("user:out", ORDERS, "READ", PERIOD)


@pytest.fixture
def berlin(browse):
    client = browse("aud")
    client.cookies["time_zone"] = "Europe/Berlin"
    return client


@pytest.mark.parametrize(
    ("at", "is_permitted"),
    [
        ("2126-12-04T08:59", False),
        ("2126-12-04T09:00", True),
        ("2126-12-04 23:59:59", True),
        ("2126-12-05", False),
        ("2126-12-04T08:30:00Z", True),
        ("2126-12-04T08:30:00%2B01:00", False),
        ("2126-12-04", False),
        ("1970-01-01", False),
    ],
)
def test_the_time_is_one_of_the_reader_unless_it_names_a_zone(berlin, at, is_permitted):
    response = berlin.get(f"{ASK}&at={at}")
    assert response.context["ask"]["answer"].is_permitted is is_permitted
    text = page_html(response)
    assert "Grants and memberships that are valid at" in text and "A date or a time in Europe/Berlin" in text
    # a reader in another time zone gets the same answer from the link
    link = response.context["ask"]["permalink"].partition("/ask")[2]
    assert "Z" in link.partition("&at=")[2]
    berlin.cookies["time_zone"] = "Asia/Tokyo"
    assert berlin.get(f"/ask{link}").context["ask"]["answer"].is_permitted is is_permitted


@pytest.mark.parametrize("at", ["Friday", "2126-02-30", "2126-12-04T25:00", "0001-01-01T00:00+14:00", "9"])
def test_an_invalid_time_is_reported_above_the_answer_for_now(browse, at):
    response = browse("aud").get(f"{ASK}&at={quote(at)}")
    text = page_html(response)
    assert (
        response.status_code == 200
        and "This page shows the state now." in text
        and "valid at <strong>" not in text
    )
    assert not response.context["ask"]["answer"].is_permitted


def test_ordinary_accounts_ask_about_now(browse):
    text = page_html(browse("out").get(f"/ask?operation=read&entity={ORDERS}&at=2126-12-04T12:00"))
    assert "Only administrators and auditors can ask about other times." in text and 'name="at"' not in text


def test_a_denial_shows_when_the_grant_begins_and_ended(berlin):
    for url in (
        ASK,
        f"{ASK}&generation=final",
        f"/entities/{ORDERS}?tab=ask&subject=user:out&operation=read",
    ):
        text = " ".join(page_html(berlin.get(url)).replace("<wbr>", "").split())
        assert "begins on 4 December 2126, 09:00 CET." in text, url
    assert "ended on 5 December 2126, 00:00 CET." in page_html(berlin.get(f"{ASK}&at=2126-12-05")).replace(
        "<wbr>", ""
    )
