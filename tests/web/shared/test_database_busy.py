"""Return 503 with Retry-After if the database is locked by another write."""

import sqlite3

import psycopg
import pytest
from django.db import OperationalError, connection
from django.test import Client

from authzconsole.common.tokens import create_token
from tests.support.authors import database_state
from tests.support.cast import SETUP, create_sample_tenant
from tests.support.pages import post_as_shown

URL, SENT = "/grant/dataset:sales.orders", {"principal": "user:out", "privilege": "READ"}


def fail_changes(monkeypatch, message):
    def apply(*_, **__):
        raise OperationalError(message)

    monkeypatch.setattr("authzconsole.web.effects.forms.apply", apply)


def test_a_locked_database_returns_503_with_retry_after(browse, monkeypatch):
    fail_changes(monkeypatch, "database is locked")
    response = post_as_shown(browse("ada"), URL, SENT)
    assert (response.status_code, response.headers["Retry-After"]) == (503, "10")
    assert (
        "The database is busy" in response.content.decode()
        and "Nothing was changed" in response.content.decode()
    )


def test_other_database_errors_are_not_handled(browse, monkeypatch):
    fail_changes(monkeypatch, "disk I/O error")
    with pytest.raises(OperationalError, match="disk I/O error"):
        post_as_shown(browse("ada"), URL, SENT)


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="PostgreSQL accepts concurrent writes")
def test_writes_during_a_long_import_return_503():
    client, importing = Client(), sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    client.force_login(create_sample_tenant()["ada"])
    before = database_state()
    connection.cursor().execute("PRAGMA busy_timeout=50")
    importing.execute("BEGIN IMMEDIATE")
    try:
        assert post_as_shown(client, URL, SENT).status_code == 503
    finally:
        importing.execute("ROLLBACK")
        importing.close()
        connection.close()
    assert database_state() == before
    assert post_as_shown(client, URL, SENT).status_code == 303


def unavailable(error):
    def fail(*_):
        raise OperationalError(str(error)) from error

    return connection.execute_wrapper(fail)


LOST = [
    psycopg.OperationalError("consuming input failed: server closed the connection unexpectedly"),
    psycopg.errors.AdminShutdown("terminating connection due to administrator command"),
]


@pytest.mark.parametrize("error", LOST)
def test_a_lost_database_returns_503_with_retry_after(browse, error):
    client = browse("ada")
    client.raise_request_exception = False
    token = create_token(author=SETUP, owner="ada", name="t", scopes=["decide", "read"], days=1).secret
    headers = {"Authorization": f"Bearer {token}"}
    with unavailable(error):
        page, form = client.get("/journal/"), post_as_shown(client, URL, SENT)
        rest = [
            client.get("/api/v1/entities", headers=headers),
            client.get("/api/v1/entities"),
            client.post("/access/v1/evaluation", {}, "application/json", headers=headers),
        ]
    for response in (page, form, *rest):
        assert (response.status_code, response.headers.get("Retry-After")) == (503, "10"), response.content
    assert "The database is not available" in page.content.decode()
    assert client.get("/journal/").status_code == 200


def test_other_errors_of_the_database_stay_internal_errors(browse):
    client = browse("ada")
    client.raise_request_exception = False
    for error in (
        psycopg.errors.DiskFull("no space"),
        psycopg.errors.UndefinedTable("no table"),
        sqlite3.OperationalError("x"),
    ):
        with unavailable(error):
            response = client.get("/journal/")
        assert response.status_code == 500 and "Internal error" in response.content.decode()
