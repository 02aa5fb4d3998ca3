"""No path of SCIM answers without a token of a service account with the scope `provision`."""

import mmap
import re

import pytest
from django.test import Client

from authzconsole import apps
from authzconsole.common import rate_limits
from authzconsole.common.tokens import TokenError
from authzconsole.scim import service, views
from grants.errors import NotAdministrator
from grants.journal import Author
from grants.principals.services import renew_user_password, set_user_role
from tests.scim.conftest import ROOT, Scim, error_of
from tests.support.authors import database_state
from tests.support.changes import add_user, change_grants, issue_token

METHODS = ("get", "post", "put", "patch", "delete")
PATHS = [
    "",
    "/",
    "/Users",
    "/Users/.search",
    "/Users/1",
    "/Groups",
    "/Groups/.search",
    "/Groups/1",
    "/ServiceProviderConfig",
    "/ResourceTypes",
    "/ResourceTypes/User",
    "/Schemas",
    "/Schemas/x",
    "/Me",
    "/Bulk",
    "/.search",
    "/nowhere",
    "/Users/1/x",
]


def test_the_paths_of_this_test_cover_all_routes():
    samples = {path.removeprefix("/") for path in PATHS}
    unmatched = [
        pattern for pattern in service.ROUTES if not any(re.fullmatch(pattern, path) for path in samples)
    ]
    assert unmatched == []


def test_every_path_and_method_needs_the_scope(scim, cast):
    session = Client()
    session.force_login(cast["ada"])
    reader = issue_token("ada", "decide", "read", "administer").secret
    before = database_state()
    for path in PATHS:
        for method in METHODS:
            for caller, headers, status in (
                (session, {}, 401),
                (Client(), {"Authorization": f"Bearer {reader}"}, 403),
            ):
                answer = getattr(caller, method)(f"{ROOT}{path}", headers=headers)
                assert answer.status_code == status, (method, path, answer.content)
                assert answer["Content-Type"] == "application/scim+json" and "WWW-Authenticate" in answer
    for headers in ({}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer unknown"}):
        for method in ("get", "options", "head"):
            assert getattr(Client(), method)(f"{ROOT}/Users", headers=headers).status_code == 401
    assert database_state() == before


def test_unknown_paths_and_methods_are_refused(scim):
    for path in ("", "/", "/nowhere", "/Users/1/x", "/Users/"):
        error_of(scim.get(path), 404)
    answer = scim.send("delete", "/Users")
    error_of(answer, 405)
    assert answer["Allow"] == "GET, POST"
    for method, path in (("post", "/Bulk"), ("post", "/.search"), ("get", "/Me")):
        error_of(scim.send(method, path) if method == "post" else scim.get(path), 501)
    error_of(scim.get("/Schemas", filter='id eq "x"'), 403)


def test_a_provisioning_token_has_no_other_rights(scim, cast, issued_token):
    headers = scim.headers
    for path in ("/api/v1/users", "/api/v1/journal"):
        assert Client().get(path, headers=headers).status_code == 403
    assert (
        Client().post("/api/v1/users", "{}", content_type="application/json", headers=headers).status_code
        == 403
    )
    author = Author("idp", user_id=issued_token.token.owner_id, is_provisioner=True)
    for change in (
        lambda: change_grants(author=author, grant=[("user:dee", "dataset:hr.salaries", "READ")]),
        lambda: set_user_role(author=author, name="dee", role="administrator"),
        lambda: add_user("evil", author=author, role="administrator"),
        lambda: add_user("evil", author=author, is_service=True),
        lambda: renew_user_password(author=author, name="ada"),
    ):
        with pytest.raises(NotAdministrator):
            change()


def test_only_service_accounts_can_own_provisioning_tokens(cast):
    with pytest.raises(TokenError, match="service account"):
        issue_token("ada", "provision")


def test_a_deactivated_service_account_cannot_provision(scim, issued_token):
    owner = issued_token.token.owner
    owner.is_active = False
    owner.save()
    error_of(scim.get("/Users"), 401)


def test_provisioning_is_off_without_the_setting_or_the_packages(scim, settings, monkeypatch, caplog):
    for module in (views, apps):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    error_of(scim.get("/Users"), 404)
    apps.log_missing_packages()
    assert "install the extra `scim`" in caplog.text
    monkeypatch.undo()
    assert scim.get("/Users").status_code == 200
    settings.SCIM_ENABLED = False
    assert "SCIM_ENABLED" in error_of(scim.get("/Users"), 404)
    assert Scim().get("/Users").status_code == 404


def test_a_token_above_its_rate_has_to_wait(scim, settings, monkeypatch):
    table = rate_limits.BucketTable(mmap.mmap(-1, rate_limits.SLOTS * 16))
    monkeypatch.setattr(rate_limits, "_table", lambda: table)
    settings.RATE_LIMITS = settings.RATE_LIMITS | {"requests_per_token": (2, 60)}
    answers = [scim.get("/ServiceProviderConfig") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    error_of(answers[-1], 429)
    assert int(answers[-1]["Retry-After"]) >= 1


def test_a_console_without_its_key_is_read_only(scim, settings):
    assert scim.create_user("nina").status_code == 201
    before = database_state()
    settings.JOURNAL_KEYS = ["n" * 40]
    assert "read-only" in error_of(scim.create_user("olaf"), 503)
    assert scim.get("/Users").status_code == 200 and database_state() == before
