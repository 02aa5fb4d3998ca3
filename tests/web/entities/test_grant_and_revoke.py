"""Granting and revoking through the pages, with and without htmx."""

import json
import re
from html import unescape

import pytest
from django.contrib.messages import get_messages
from django.test import Client

from entities.vocabulary import Privilege
from grants.models import JournalLine
from tests.support.authors import all_grants, database_state
from tests.support.pages import page_html, post_as_shown, with_effect

GRANT, REVOKE = "/grant/dataset:sales.orders", "/revoke/dataset:sales.orders"


def messages_of(response) -> list[str]:
    return [str(message).partition(" <a")[0] for message in get_messages(response.wsgi_request)]


def test_a_grant_without_scripts_returns_to_the_entity_with_a_message(browse):
    form = {"principal": "user:out", "privilege": ["READ", "WRITE"], "reason": "quarterly close"}
    response = post_as_shown(browse("ada"), GRANT, form)
    assert (response.status_code, response.headers["Location"]) == (
        303,
        "/entities/dataset:sales.orders?tab=access",
    )
    assert messages_of(response) == ["Granted READ, WRITE on dataset:sales.orders to user:out."]
    assert {
        ("user:out", "dataset:sales.orders", "READ"),
        ("user:out", "dataset:sales.orders", "WRITE"),
    } <= all_grants()


def test_a_grant_is_journalled_with_author_reason_and_request_id(browse):
    form = {"principal": "user:out", "privilege": "READ", "reason": "quarterly close"}
    post_as_shown(browse("ada"), GRANT, form, headers={"X-Request-ID": "request-7"})
    line = JournalLine.objects.get(action="grant", principal="user:out")
    assert (line.actor, line.reason, line.caller_request_id) == ("ada", "quarterly close", "request-7")
    assert len(line.request_id) == 32


def test_htmx_gets_a_notice_and_an_event_that_reloads_the_grants(browse, htmx):
    response = post_as_shown(
        browse("ada"), GRANT, {"principal": "user:out", "privilege": "READ"}, headers=htmx("grant-form")
    )
    assert response.status_code == 200
    assert set(json.loads(response.headers["HX-Trigger"])) == {"grants-changed", "dialog-done"}
    assert response.headers["HX-Reswap"] == "none"
    text = page_html(response)
    assert "Granted READ on dataset:sales.orders to user:out." in text and 'hx-swap-oob="innerHTML"' in text
    assert "<html" not in text


def test_cells_and_answer_change_with_the_grant(browse, htmx):
    client, url = browse("ada"), "/entities/dataset:sales.orders?subject=user:out&operation=read"
    assert not client.get(url).context["ask"]["answer"].is_permitted
    post_as_shown(client, GRANT, {"principal": "user:out", "privilege": "READ"})
    part = client.get(url, headers=htmx("ask"))
    assert part.context["ask"]["answer"].sentence == "Permitted: user:out holds READ on dataset:sales.orders."
    holders = client.get(url, headers=htmx("holders")).context["holders"]["rows"]
    assert "user:out" in [row["principal"].address for row in holders]


def test_an_existing_grant_is_reported_as_unchanged(browse):
    before = database_state()
    response = post_as_shown(browse("ada"), GRANT, {"principal": "user:dee", "privilege": "READ"})
    assert messages_of(response) == ["user:dee already holds READ on dataset:sales.orders: nothing changed."]
    assert database_state() == before


def test_a_grant_on_an_unregistered_address_registers_it_as_planned(browse):
    form = {"principal": "user:dee", "privilege": "READ"}
    response = post_as_shown(browse("ada"), "/grant/dataset:sales.next", form, follow=True)
    assert "dataset:sales.next was not registered; it is now planned." in page_html(response)
    assert response.context["entity"].state == "planned"
    assert "Planned: this dataset does not exist yet. 1 grant applies once it exists." in page_html(response)


@pytest.mark.parametrize(
    ("form", "fault"),
    [
        (
            {"principal": "user:nobody", "privilege": ["READ", "ADMIN"]},
            "user:nobody does not exist: add it first",
        ),
        (
            {"principal": "user:dee"},
            f"no privilege is selected: select at least one of {', '.join(Privilege)}",
        ),
        ({"principal": "user:dee", "privilege": "read"}, "`read` is not a privilege"),
        ({"principal": "", "privilege": "READ"}, "no principal is named: write user:NAME or group:NAME"),
        (
            {"principal": "dee", "privilege": "READ"},
            "`dee` is not a principal: write user:NAME, group:NAME or role:NAME",
        ),
    ],
)
@pytest.mark.parametrize("target", ["", "grant-form"])
def test_an_invalid_grant_is_explained_and_writes_nothing(form, fault, target, browse, htmx):
    before = database_state()
    response = post_as_shown(browse("ada"), GRANT, form, headers=htmx(target) if target else {})
    assert response.status_code == 400
    text = page_html(response).replace("<code>", "`").replace("</code>", "`")
    assert fault.replace("`", "").lower() in text.replace("`", "").lower()
    assert text.lower().count(fault[:30].lower()) == 1
    assert database_state() == before
    assert ("<html" in page_html(response)) is not bool(target)
    assert f'value="{form["principal"]}"' in page_html(response)


def test_revoking_requires_confirmation(browse, htmx):
    client, url = browse("ada"), f"{REVOKE}?principal=user:dee&privilege=READ"
    page, dialog = client.get(url), client.get(url, headers=htmx("dialog"))
    assert "<html" in page_html(page) and "<html" not in page_html(dialog)
    for response in (page, dialog):
        assert "will no longer hold" in page_html(response)
    assert ("user:dee", "dataset:sales.orders", "READ") in all_grants()


def test_revoking_with_a_reason_removes_the_grant(browse):
    form = {"principal": "user:dee", "privilege": "READ", "reason": "left the team"}
    response = post_as_shown(browse("ada"), REVOKE, form)
    assert messages_of(response) == ["Revoked READ on dataset:sales.orders from user:dee."]
    assert ("user:dee", "dataset:sales.orders", "READ") not in all_grants()
    assert JournalLine.objects.get(action="revoke").reason == "left the team"


@pytest.mark.parametrize("target", ["", "dialog"])
def test_revoking_admin_warns_about_stranded_entities(target, browse, htmx):
    client, headers = browse("ada"), htmx(target) if target else {}
    text = page_html(client.get(f"{REVOKE}?principal=user:ned&privilege=ADMIN&preview=yes", headers=headers))
    assert "would have no ADMIN holder" in text
    post_as_shown(client, GRANT, {"principal": ["user:dee"], "privilege": "ADMIN"})
    text = page_html(client.get(f"{REVOKE}?principal=user:ned&privilege=ADMIN&preview=yes", headers=headers))
    assert "would have only one ADMIN holder" in text
    post_as_shown(client, GRANT, {"principal": ["user:out"], "privilege": "ADMIN"})
    text = page_html(client.get(f"{REVOKE}?principal=user:ned&privilege=ADMIN&preview=yes", headers=headers))
    assert "No entity loses its ADMIN holders." in text


@pytest.mark.parametrize(
    "query", ["principal=user:dee&privilege=READ", "principal=user:nobody&privilege=ADMIN", "principal=x"]
)
def test_revoking_other_privileges_or_from_unknown_principals_shows_no_warning(query, browse):
    assert "fewer than two" not in page_html(browse("ada").get(f"{REVOKE}?{query}"))


@pytest.mark.parametrize("url", [GRANT, REVOKE])
def test_only_the_separate_page_sends_its_form_without_htmx(url, browse, htmx):
    form_url = f"{url}?principal=user:dee&privilege=READ"
    assert "hx-post" not in page_html(browse("ada").get(form_url))
    assert "hx-post" in page_html(browse("ada").get(form_url, headers=htmx("dialog")))


def test_a_post_without_a_csrf_token_is_refused(browse, cast):
    client, before = Client(enforce_csrf_checks=True), database_state()
    client.force_login(cast["ada"])
    response = post_as_shown(client, GRANT, {"principal": "user:out", "privilege": "READ"})
    assert response.status_code == 403
    assert "The form has expired" in page_html(response)
    assert database_state() == before


def test_a_revoked_administrator_role_blocks_writes_immediately(browse, cast):
    client = browse("ada")
    cast["ada"].role = "auditor"
    cast["ada"].save()
    assert client.post(GRANT, {"principal": "user:out", "privilege": "READ"}).status_code == 403


def test_the_forecast_warns_about_entities_without_administrators(browse):
    client, url = browse("ada"), "/lifecycle/recreate/dataset:sales.legacy"
    for principal, warning in (("user:dee", "none"), ("user:out", "one active user"), ("", "")):
        text = " ".join(page_html(client.get(with_effect(url))).split())
        assert (f"fewer than two ADMIN holders</strong>: {warning}" in text) is bool(warning)
        post_as_shown(client, "/grant/dataset:sales.legacy", {"principal": principal, "privilege": "ADMIN"})
    text = page_html(client.get(with_effect("/lifecycle/delete/namespace:sales")))
    assert "No other entity loses ADMIN holders" in text


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"principal": "user:stranger", "privilege": "READ"}, "principal"),
        ({"principal": "user:out"}, "privilege"),
    ],
)
def test_an_error_of_a_grant_is_attached_to_its_field(form, field, browse, htmx):
    text = page_html(post_as_shown(browse("ada"), GRANT, form, headers=htmx("grant-form")))
    tags = [part.partition(">")[0] for part in text.split("<")]
    described = [tag for tag in tags if f'aria-describedby="grant-form-{field}_error"' in tag]
    assert described and f'id="grant-form-{field}_error" role="alert"' in text
    assert {tag.partition(" ")[0] for tag in described} <= {"input", "fieldset"}


def test_the_notice_of_a_change_leads_to_the_form_that_undoes_it(browse):
    form = {"principal": "user:out", "privilege": "READ", "reason": "close"}
    page = post_as_shown(browse("ada"), "/grant/dataset:sales.orders", form, follow=True)
    (url,) = re.findall(
        r'<a href="(/revoke/[^"]+)" hx-get="[^"]+" hx-target="#dialog">Undo</a>', page_html(page)
    )
    assert "will no longer hold" in page_html(browse("ada").get(unescape(url)))
    page = post_as_shown(browse("ada"), "/revoke/dataset:sales.orders", form, follow=True)
    assert 'href="/grant/dataset:sales.orders?principal=user%3Aout&amp;privilege=READ' in page_html(page)


def test_the_page_of_a_group_leads_to_a_grant_on_an_address_or_a_pattern(browse):
    client = browse("ada")
    for page in ("/people/group:operators", "/people/user:out"):
        subject = page.removeprefix("/people/")
        assert f'href="/grant?principal={subject}"' in client.html(page)
        for target in ("dataset:sales.orders", "dataset:sales.*"):
            sent = {"entity": target, "principal": subject}
            response = client.post("/grant", sent, follow=True)
            assert response.request["PATH_INFO"] == f"/grant/{target}"
            assert response.context["principal"] == subject
    assert "/grant?principal" not in browse("aud").html("/people/group:operators")
    refused = client.post("/grant", {"entity": "sales", "principal": "group:operators"})
    assert refused.status_code == 400 and "is not an address" in page_html(refused)
