"""Pages with `as_of` show the state at a revision or time, with a banner and without buttons that change
anything.
"""

import io
import re
from datetime import timedelta
from html import unescape

import pytest
from django.test import Client
from django.utils import timezone

from entities.address import parse_address
from entities.vocabulary import Privilege
from grants.history import parse_as_of
from grants.journal import Author, current_revision
from grants.models import JournalLine
from grants.tenant.import_document import import_tenant
from tests.support.authors import account
from tests.support.changes import (
    activate_generation,
    add_grant,
    add_group,
    add_member,
    add_user,
    change_grants,
    delete_entity,
    register_entity,
)
from tests.support.pages import page_html

pytestmark = pytest.mark.django_db
OPERATOR = Author("the tests")
ORDERS, GONE = parse_address("dataset:sales.orders"), parse_address("dataset:sales.gone")
BUTTONS = (
    "Grant",
    "Delete dataset",
    "Bulk change",
    "Add child",
    "Add description",
    "Remove",
    "Off-board",
    "See as this user",
)


@pytest.fixture
def past():
    """Return the revision at which alice read the dataset through a group; it is a day old.

    Now she has WRITE.
    """
    for name, role in (("ada", "administrator"), ("aud", "auditor"), ("alice", "ordinary")):
        add_user(name, role=role, is_principal=name == "alice")
    for address in (parse_address("namespace:sales"), ORDERS, GONE):
        register_entity(address)
    add_group("readers")
    add_member("alice", "readers")
    activate_generation("final")
    add_grant("group:readers", ORDERS, Privilege.READ)
    revision = current_revision()
    JournalLine.objects.update(at=timezone.now() - timedelta(days=1))
    activate_generation("existing")
    delete_entity(GONE)
    change_grants(grant=[("user:alice", ORDERS, Privilege.WRITE)], revoke=[("group:readers", ORDERS, "READ")])
    return revision


def page(path, name="ada", status=200, **headers):
    client = Client()
    client.force_login(account(name))
    response = client.get(path, headers=headers)
    assert response.status_code == status, page_html(response)
    return " ".join(page_html(response).split())


def test_the_page_of_an_entity_shows_its_holders_at_that_time(past):
    url = f"/entities/{ORDERS}?tab=access"
    now, then = page(url), page(f"{url}&as_of={past}")
    holders_now, holders_then = (text.split('id="holders"')[1] for text in (now, then))
    assert "user:alice" in holders_now and "group:readers" not in holders_now and "Back to now" not in now
    assert "group:readers" in holders_then and "user:alice" not in holders_then
    assert f"State at revision <strong>{past}</strong>" in then and "Changes are disabled" in then
    assert f'href="/entities/{ORDERS}?tab=access"' in then


@pytest.mark.parametrize(
    "path",
    [
        f"/entities/{ORDERS}?tab=access",
        "/entities/namespace:sales?tab=inside",
        "/people/user:alice?",
        "/people/group:readers?",
    ],
)
def test_pages_about_the_past_have_no_buttons_that_change_anything(past, path):
    then = page(f"{path}&as_of={past}").replace("Granted", "")
    assert "State at revision" in then
    assert [button for button in BUTTONS if f">{button}<" in then or f"> {button} <" in then] == []
    assert 'method="post"' not in then.split("<main")[1]


def test_pages_about_the_past_list_no_later_changes(past):
    for path in (f"/entities/{ORDERS}?tab=history", "/people/group:readers?"):
        now, then = (page(url).split("Latest changes")[1] for url in (path, f"{path}&as_of={past}"))
        newest = JournalLine.objects.filter(action="revoke").latest("pk").revision
        # the number alone could also be part of a time
        assert newest > past and f"revision {newest:,}" in now and f"revision {newest:,}" not in then


def test_the_page_of_a_deleted_entity_shows_it_live(past):
    assert "no longer exists" in page(f"/entities/{GONE}")
    assert "no longer exists" not in page(f"/entities/{GONE}?as_of={past}")


def test_the_page_of_a_person_shows_grants_and_groups_at_that_time(past):
    now, then = page("/people/user:alice"), page(f"/people/user:alice?as_of={past}")
    assert "State at revision" in then and "group:readers" in then
    assert "dataset:sales.orders" in now.split('id="grants"')[1].split("</section>")[0]
    assert "dataset:sales.orders" not in then.split('id="grants"')[1].split("</section>")[0]


@pytest.mark.parametrize("path", [f"/entities/{ORDERS}?tab=access", "/people/user:alice?"])
def test_the_downloads_of_a_page_are_about_the_same_time(past, path):
    time = f"{timezone.now() - timedelta(hours=12):%Y-%m-%dT%H:%M:%SZ}"
    then = page(f"{path}&as_of={time}")
    assert f"State at revision <strong>{past}</strong>" in then
    # a revision would leave out what began or ended between its line and this time
    links = [unescape(link) for link in re.findall(r'href="(/api/v1/[^"]+)"', then) if "as_of=" in link]
    assert len(links) == 2 and all(link.endswith(f"as_of={time}") for link in links)


def test_ask_answers_with_the_grants_and_the_generation_of_that_time(past):
    question = f"/ask?subject=user:alice&entity={ORDERS}&operation=read"
    now, then = page(question), page(f"{question}&as_of={past}")
    assert "Denied" in now and "Permitted: user:alice" in then
    assert "State at revision" in then and f"as_of={past}" in then


def test_a_date_means_its_end(past):
    yesterday = timezone.now() - timedelta(days=1)
    then = page(f"/entities/{ORDERS}?tab=access&as_of={yesterday.date()}")
    assert f"<strong>{past}</strong>" in then and f", shown for {yesterday.date()} 23:59 UTC. Changes" in then
    assert "shown for" not in page(f"/entities/{ORDERS}?tab=access&as_of={past}")
    assert "user:alice" in page(f"/entities/{ORDERS}?tab=access&as_of={timezone.now().date()}")
    time = (yesterday + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M")
    assert f"<strong>{past}</strong>" in page(f"/entities/{ORDERS}?tab=access&as_of={time}")


@pytest.mark.parametrize(
    ("as_of", "message"),
    [
        ("9999", "does not exist: the newest revision is"),
        ("2001-01-01", "before the first journal line"),
        ("2999-01-01", "is in the future"),
        ("long ago", "neither a revision"),
        ("2026-02-30", "neither a revision"),
    ],
)
def test_an_unknown_revision_or_time_is_reported_above_the_state_now(past, as_of, message):
    for path in (f"/entities/{ORDERS}", "/people/user:alice", "/ask"):
        shown = page(f"{path}?as_of={as_of}")
        assert message in shown and "This page shows the state now." in shown


def test_what_did_not_exist_then_is_reported(past):
    bob = add_user("bob").revision
    document = b'{"type":"user","name":"carol"}\n{"type":"entity","id":"dataset:hr.pay"}\n'
    import_tenant(stream=io.BytesIO(document), author=Author("import_tenant"))
    missing = page(f"/people/user:bob?as_of={past}", status=404)
    assert f"Its first journal line is revision {bob}" in missing and "Back to now" in missing
    for path in ("/people/user:carol", "/entities/dataset:hr.pay"):
        assert "an import added it later" in page(f"{path}?as_of={past}", status=404)
        assert "Its earlier state is unknown" in page(f"{path}?as_of={current_revision()}")
    assert "has no line about this" in page(f"/entities/dataset:hr.never?as_of={past}", status=404)


def test_auditors_see_the_past_and_ordinary_accounts_do_not(past):
    assert "State at revision" in page(f"/entities/{ORDERS}?as_of={past}", "aud")
    own = page(f"/ask?as_of={past}", "alice")
    assert "Only administrators and auditors" in own and "State at revision" not in own
    assert "View an earlier state" not in page(f"/entities/{ORDERS}", "alice")
    page(f"/people/user:alice?as_of={past}", "alice", status=404)


def test_a_section_that_htmx_reloads_stays_in_the_past(past):
    section = page(f"/entities/{ORDERS}?tab=access&as_of={past}", HX_Request="true", HX_Target="holders")
    assert "group:readers" in section and "user:alice" not in section
    assert current_revision() == parse_as_of(timezone.now().isoformat())


def test_a_filter_is_kept_when_another_state_is_chosen(past):
    shown = page(f"/entities/{ORDERS}?tab=access&can=read&page=2")
    form = shown.split('class="past-form"')[1].split("</details>")[0]
    assert '<input type="hidden" name="can" value="read">' in form and 'name="page"' not in form
    month = timezone.localtime().date() - timedelta(days=30)
    assert f'name="as_of" value="{month}">A month ago</button>' in form and 'type="date"' in form
    assert "State at revision" in page(
        f"/entities/{ORDERS}?tab=access&as_of=&as_of={timezone.localtime().date()}"
    )
    then = page(f"/entities/{ORDERS}?tab=access&can=read&as_of={past}")
    assert f'href="/journal/differences?of={ORDERS}&amp;since={past}"' in then


def test_a_message_about_an_unknown_time_keeps_its_letters(past):
    assert "2001-05-01T12:00:00Z" in page(f"/entities/{ORDERS}?as_of=2001-05-01T12:00:00Z")
