"""A console still works after a kind was removed from KINDS_FILE, or got other operations or another parent."""

import io
import json
from contextlib import contextmanager
from dataclasses import replace

import pytest
from django.core.management import call_command
from django.test import Client

from entities.address import address_of, parse_address
from entities.vocabulary import KINDS
from grants.history import catch_up
from grants.models import Role, User
from grants.verification.replay import first_fault
from tests.support.changes import add_grant, add_user, register_entity

pytestmark = pytest.mark.django_db
ADDRESS = "widget:sales.w.1"


@contextmanager
def changed(kind):
    """The state of the process after a restart with this kind, or without the kind."""
    before = dict(KINDS)
    try:
        if kind is None:
            del KINDS["widget"]
        else:
            KINDS["widget"] = kind
        _clear_caches()
        yield
    finally:
        KINDS.clear()
        KINDS.update(before)
        _clear_caches()


def _clear_caches():
    parse_address.cache_clear()
    address_of.cache_clear()


@pytest.fixture
def console(own_kinds):
    add_user("alice")
    for address in ("namespace:sales", ADDRESS):
        register_entity(address)
    add_grant("user:alice", ADDRESS, "ADMIN")
    catch_up()


def run(command, *arguments):
    output = io.StringIO()
    call_command(command, *arguments, stdout=output)
    return output.getvalue()


CHANGES = {
    "removed": lambda: None,
    "other operations": lambda: replace(KINDS["widget"], operations=("fly",), classes=()),
    "another parent": lambda: replace(KINDS["widget"], parent="instance"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_kind_breaks_no_command(console, change):
    with changed(CHANGES[change]()):
        assert '"alice"' in run("export_tenant")
        run("what_can", "user:alice")
        run("who_can", "namespace:sales")
        assert first_fault() is None or "container" in str(first_fault())


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_kind_breaks_no_page(console, change):
    client = Client()
    client.force_login(User.objects.create(username="root", role=Role.ADMINISTRATOR))
    with changed(CHANGES[change]()):
        for path in (
            "/",
            "/entities/namespace:sales/",
            "/users/alice/",
            "/journal/",
            "/api/v1/entities",
            "/api/v1/grants",
            "/api/v1/journal",
            f"/api/v1/entities/{ADDRESS}",
            "/api/v1/what-can?principal=user:alice",
        ):
            response = client.get(path)
            assert response.status_code < 500, path
        question = {
            "subject": {"type": "user", "id": "alice"},
            "action": {"name": "tune"},
            "resource": {"type": "widget", "id": "sales.w.1"},
        }
        answer = client.post("/access/v1/evaluation", json.dumps(question), content_type="application/json")
        assert answer.status_code < 500, answer.content
