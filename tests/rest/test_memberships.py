"""Test changing many memberships in one request, and the stranded entities of dry runs."""

import pytest

from grants.changes.services import change_grants
from grants.journal import current_revision
from grants.models import User
from tests.rest.conftest import problem
from tests.support.authors import COMMAND, database_state

pytestmark = pytest.mark.django_db

JOIN, LEAVE = {"user": "out", "group": "operators"}, {"user": "grp", "group": "operators"}


def memberships() -> set[tuple[str, str]]:
    return set(User.groups.through.objects.values_list("user__username", "group__name"))


def test_memberships_change_together_and_a_repetition_changes_nothing(ada):
    answer = ada.post("/memberships", {"join": [JOIN], "leave": [LEAVE], "base_revision": current_revision()})
    assert answer.status_code == 200 and memberships() == {("out", "operators")}
    body = answer.json()
    assert (body["sentence"], body["joined"], body["left"]) == ("added 1, removed 1", [JOIN], [LEAVE])
    assert body["revision"] == current_revision() and body["effect"] is None
    again = ada.post("/memberships", {"join": [JOIN], "leave": [LEAVE]}).json()
    assert (again["changed"], len(again["unchanged"]), again["revision"]) == (False, 2, body["revision"])


def test_one_invalid_item_refuses_all_and_every_error_is_listed(ada):
    before = database_state()
    answer = problem(ada.post("/memberships", {"join": [JOIN, {"user": "nobody", "group": "operators"}],
                                               "leave": [JOIN, {"user": "out", "group": "none"}]}), 400)
    assert [(error["list"], error["index"]) for error in answer["errors"]] == [("join", 1), ("leave", 0), ("leave", 1)]
    assert database_state() == before


def test_an_outdated_base_revision_and_an_empty_request_are_refused(ada):
    problem(ada.post("/memberships", {"join": [JOIN], "base_revision": current_revision() - 1}), 409)
    problem(ada.post("/memberships", {}), 400)
    assert memberships() == {("grp", "operators")}


def test_dry_runs_report_stranded_entities_and_change_nothing(ada):
    change_grants(author=COMMAND, grant=[("group:operators", "dataset:hr.salaries", "ADMIN")])
    before = database_state()
    body = ada.post("/memberships", {"leave": [LEAVE], "dry_run": True}).json()
    assert body["sentence"] == "would remove 1" and body["stranded"] == [{"entity": "dataset:hr.salaries", "admins": 0}]
    assert (body["effect"]["leaves"], body["effect"]["stranded_none"]) == (1, 1)
    revocation = {"principal": "user:ned", "entity": "dataset:sales.orders", "privileges": ["ADMIN"]}
    body = ada.post("/grants", {"revoke": [revocation], "dry_run": True}).json()
    assert body["stranded"] == [{"entity": "dataset:sales.orders", "admins": 0}] and body["effect"]["revokes"] == 1
    assert database_state() == before
