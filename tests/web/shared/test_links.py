"""Forms and links of an entity page lead to the same entity, for names with any special characters."""

import re
from html import unescape
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from django.urls import resolve

from entities.address import parse_address
from entities.services import ensure_entities
from grants.models import JournalLine, User
from tests.support.authors import all_grants, entity_states
from tests.support.changes import change_grants

NAMES = ["a#b", "a%b", "a%3Fb", "a/b", "a//b", "a&b", 'a"b', "a'b", "a+b", "a;b", "a\\b", "a#b=c&d;e"]
QUESTION = "subject=user:dee&operation=deploy-app-as&generation=final"
ENTITY_URL_NAMES = ("entity", "grant", "revoke", "lifecycle", "lifecycle-describe")


@pytest.fixture(params=NAMES)
def entity_address(request, cast):
    """Create a kerberos principal of that name, with more holders than one page lists.

    A second kerberos principal has the name that remains if the address is cut at the special character.
    """
    entity_address = parse_address(f"kerberosprincipal:{request.param}")
    ensure_entities(states={entity_address: "live", parse_address("kerberosprincipal:a"): "live"})
    names = [f"user:holder{number:02}" for number in range(25)]
    User.objects.bulk_create(User(username=name.removeprefix("user:")) for name in names)
    change_grants(grant=[(name, entity_address, "READ") for name in names])
    return entity_address


def url_of(view: str, entity_address) -> str:
    escaped = "".join(f"%{byte:02X}" for byte in str(entity_address).encode())
    return {"entity": f"/entities/{escaped}", "describe": f"/describe/{escaped}"}.get(
        view, f"/{view}/{escaped}"
    )


def links(response) -> list[str]:
    # the navigation has the same links on every page
    text = re.sub(r'<ul class="nav-items">.*?</ul>', "", response.content.decode(), flags=re.DOTALL)
    return [unescape(url) for url in re.findall(r'\s(?:action|href|hx-get|hx-post)="([^"]*)"', text)]


def linked_address(url: str) -> str | None:
    """Return the entity address in a URL; None if the URL belongs to no entity."""
    match = resolve(unquote(urlsplit(url).path))
    return match.kwargs["address"] if match.url_name in ENTITY_URL_NAMES else None


def linked_addresses(response) -> dict[str, int]:
    """Return the number of forms and links to each address."""
    counts: dict[str, int] = {}
    for url in links(response):
        # an unescaped `#` ends the path
        if url.startswith("/") and not url.startswith("/static/") and (address := linked_address(url)):
            counts[address] = counts.get(address, 0) + 1
    return counts


PAGES = ["entity", "grant", "revoke", "lifecycle/delete", "describe"]


@pytest.mark.parametrize("page", PAGES)
def test_every_form_and_link_leads_to_the_same_address(page, entity_address, browse):
    query = {"entity": f"?{QUESTION}", "revoke": "?principal=user:holder01&privilege=READ"}.get(page, "")
    response = browse("ada").get(url_of(page, entity_address) + query)
    assert response.status_code == 200
    counts = linked_addresses(response)
    assert set(counts) <= {str(entity_address), "instance:cdap"}
    assert counts[str(entity_address)] >= 2
    if page == "entity":
        pages = response, browse("ada").get(f"{url_of(page, entity_address)}?holders=2")
        pager = [
            url
            for page in pages
            for url in links(page)
            if "holders=" in urlsplit(url).query or url.endswith("#ask")
        ]
        assert len(pager) >= 2 and {linked_address(url) for url in pager if url.startswith("/")} == {
            str(entity_address)
        }
        shared = urlsplit(response.context["ask"]["permalink"])
        assert linked_address(shared.path) == str(entity_address) and parse_qs(shared.query)["operation"] == [
            "deploy-app-as"
        ]


@pytest.mark.parametrize("section", ["holders", "ask", "history"])
def test_every_link_of_a_single_section_leads_to_the_same_address(section, entity_address, browse, htmx):
    counts = linked_addresses(
        browse("ada").get(f"{url_of('entity', entity_address)}?{QUESTION}", headers=htmx(section))
    )
    assert set(counts) == {str(entity_address)}


def form_of(response, verb: str) -> str:
    return next(url for url in links(response) if url.startswith(f"/{verb}/"))


def test_the_forms_change_only_the_entity_of_their_page(entity_address, browse):
    client, before = browse("ada"), entity_states()
    page = client.get(url_of("entity", entity_address))
    client.post(form_of(page, "grant"), {"principal": "user:out", "privilege": "WRITE"})
    assert [entity for who, entity, _ in all_grants() if who == "user:out"] == [str(entity_address)]
    form = client.get(next(url for url in links(page) if url.startswith("/revoke/") and "holder03" in url))
    client.post(form_of(form, "revoke"), {"principal": "user:holder03", "privilege": "READ"})
    assert JournalLine.objects.get(action="revoke").entity == str(entity_address)
    form = client.get(url_of("describe", entity_address))
    assert (
        client.post(form_of(form, "describe"), {"description": "d"}, follow=True).context["entity"].address
        == entity_address
    )
    form = client.get(form_of(client.get(url_of("entity", entity_address)), "lifecycle"))
    client.post(form_of(form, "lifecycle"), {})
    assert entity_states() == before | {str(entity_address): "deleted"}


def test_a_refused_form_links_only_to_its_entity(entity_address, browse, htmx):
    sent = {"principal": "user:nobody", "privilege": "READ"}
    for headers in ({}, htmx("grant-form")):
        response = browse("ada").post(url_of("grant", entity_address), sent, headers=headers)
        assert response.status_code == 400 and str(entity_address) in linked_addresses(response)
        assert set(linked_addresses(response)) <= {str(entity_address)}


def test_the_page_of_an_unregistered_address_links_only_to_that_address(cast, browse):
    for name in NAMES:
        entity_address = parse_address(f"kerberosprincipal:{name}")
        assert set(linked_addresses(browse("ada").get(url_of("entity", entity_address)))) == {
            str(entity_address)
        }
