"""Every form and link leads to the address that it was made for, whatever characters a name holds."""

import re
from html import unescape
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from django.urls import resolve

from entities.address import parse_address
from entities.services import ensure_entities
from grants.changes.services import change_grants
from grants.models import JournalLine, User
from tests.support.authors import all_grants, entity_states
from tests.support.cast import SETUP

NAMES = ["a?b", "a#b", "a%b", "a%3Fb", "a/b", "a//b", "a&b", 'a"b', "a'b", "a+b", "a;b", "a\\b", "a?b=c&d#e"]
ASKED = "subject=user:dee&operation=deploy-app-as&generation=final"
ADDRESSED = ("entity", "grant", "revoke", "lifecycle", "lifecycle-describe")


@pytest.fixture(params=NAMES)
def place(request, cast):
    """A kerberos principal of that name, with more holders than a page shows, beside one that a cut address would hit."""
    place = parse_address(f"kerberosprincipal:{request.param}")
    ensure_entities(states={place: "live", parse_address("kerberosprincipal:a"): "live"})
    names = [f"user:holder{number:02}" for number in range(25)]
    User.objects.bulk_create(User(username=name.removeprefix("user:")) for name in names)
    change_grants(author=SETUP, grant=[(name, place, "READ") for name in names])
    return place


def url_of(view: str, place) -> str:
    escaped = "".join(f"%{byte:02X}" for byte in str(place).encode())
    return {"entity": f"/entities/{escaped}", "describe": f"/describe/{escaped}"}.get(view, f"/{view}/{escaped}")


def links(response) -> list[str]:
    # the navigation leads from every page to the same places
    text = re.sub(r'<ul class="nav-items">.*?</ul>', "", response.content.decode(), flags=re.DOTALL)
    return [unescape(url) for url in re.findall(r'\s(?:action|href|hx-get|hx-post)="([^"]*)"', text)]


def addressed(url: str) -> str | None:
    """The address that a browser which follows `url` arrives at; None where the page is of no entity."""
    match = resolve(unquote(urlsplit(url).path))
    return match.kwargs["address"] if match.url_name in ADDRESSED else None


def led_to(response) -> dict[str, int]:
    """How many forms and links of the page lead to each address."""
    found: dict[str, int] = {}
    for url in links(response):
        # `?` and `#` must not be of the name
        if url.startswith("/") and not url.startswith("/static/") and (address := addressed(url)):
            found[address] = found.get(address, 0) + 1
    return found


PAGES = ["entity", "grant", "revoke", "lifecycle/delete", "describe"]


@pytest.mark.parametrize("page", PAGES)
def test_every_form_and_link_leads_to_the_same_address(page, place, browse):
    query = {"entity": f"?{ASKED}&holders=2", "revoke": "?principal=user:holder01&privilege=READ"}.get(page, "")
    response = browse("ada").get(url_of(page, place) + query)
    assert response.status_code == 200
    found = led_to(response)
    assert set(found) <= {str(place), "instance:cdap"}
    assert found[str(place)] >= 2
    if page == "entity":
        pager = [url for url in links(response) if "holders=" in urlsplit(url).query or url.endswith("#ask")]
        assert pager and {addressed(url) for url in pager if url.startswith("/")} == {str(place)}
        shared = urlsplit(response.context["ask"]["permalink"])
        assert addressed(shared.path) == str(place) and parse_qs(shared.query)["operation"] == ["deploy-app-as"]


@pytest.mark.parametrize("part", ["holders", "ask", "history"])
def test_every_link_of_a_single_section_leads_to_the_same_address(part, place, browse, htmx):
    found = led_to(browse("ada").get(f"{url_of('entity', place)}?{ASKED}", headers=htmx(part)))
    assert set(found) == {str(place)}


def form_of(response, verb: str) -> str:
    return next(url for url in links(response) if url.startswith(f"/{verb}/"))


def test_the_forms_change_only_the_entity_of_their_page(place, browse):
    client, before = browse("ada"), entity_states()
    page = client.get(url_of("entity", place))
    client.post(form_of(page, "grant"), {"principal": "user:out", "privilege": "WRITE"})
    assert [entity for who, entity, _ in all_grants() if who == "user:out"] == [str(place)]
    form = client.get(next(url for url in links(page) if url.startswith("/revoke/") and "holder03" in url))
    client.post(form_of(form, "revoke"), {"principal": "user:holder03", "privilege": "READ"})
    assert JournalLine.objects.get(action="revoke").entity == str(place)
    form = client.get(url_of("describe", place))
    assert client.post(form_of(form, "describe"), {"description": "d"}, follow=True).context["entity"].address == place
    form = client.get(form_of(client.get(url_of("entity", place)), "lifecycle"))
    client.post(form_of(form, "lifecycle"), {})
    assert entity_states() == before | {str(place): "deleted"}


def test_a_refused_form_links_only_to_its_entity(place, browse, htmx):
    sent = {"principal": "user:nobody", "privilege": "READ"}
    for headers in ({}, htmx("grant-form")):
        response = browse("ada").post(url_of("grant", place), sent, headers=headers)
        assert response.status_code == 400 and str(place) in led_to(response)
        assert set(led_to(response)) <= {str(place)}


def test_the_page_of_an_unregistered_address_links_only_to_that_address(cast, browse):
    for name in NAMES:
        place = parse_address(f"kerberosprincipal:{name}")
        assert set(led_to(browse("ada").get(url_of("entity", place)))) == {str(place)}
