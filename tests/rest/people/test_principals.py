"""Users, groups and members over REST, also many memberships in one request and the stranded entities of dry
runs.
"""

from urllib.parse import quote

import pytest

from authzconsole.common.periods import NO_LIMITS
from grants.journal import current_revision
from grants.models import User
from tests.rest.conftest import grant_item, problem
from tests.support.authors import database_state, lines_after
from tests.support.changes import add_grant

pytestmark = pytest.mark.django_db

JOIN, LEAVE = {"user": "out", "group": "operators"}, {"user": "grp", "group": "operators"}


def test_a_user_is_added_once(ada):
    created = ada.post(
        "/users",
        {
            "name": "new/one two",
            "email": "n@example.com",
            "active": False,
            "role": "auditor",
            "full_name": "New  Person",
        },
    )
    assert created.status_code == 201 and created["Location"] == "/api/v1/users/new%2Fone%20two"
    expected = {
        "name": "new/one two",
        "email": "n@example.com",
        "active": False,
        "role": "auditor",
        "is_principal": True,
        "is_service": False,
        "full_name": "New Person",
    }
    assert created.json() == ada.client.get(created["Location"]).json() == expected
    assert ada.client.get(created["Location"])["ETag"] == created["ETag"]
    assert "already exists" in problem(ada.post("/users", {"name": "new/one two"}), 409)["detail"]


@pytest.mark.parametrize("name", [" ", "a\0"])
def test_an_invalid_name_of_a_user_is_refused(ada, name):
    before = database_state()
    assert problem(ada.post("/users", {"name": name}), 400)["errors"][0]["field"] == "name"
    assert database_state() == before


def test_changing_a_user_requires_the_current_etag_and_is_journaled(ada):
    revision, first_read = current_revision(), ada.get("/users/ned")
    problem(ada.patch("/users/ned", {"active": False}), 428)
    changed = ada.patch(
        "/users/ned",
        {"active": False, "role": "auditor", "email": "n@example.com"},
        If_Match=first_read["ETag"],
    )
    assert changed.json() == {
        "name": "ned",
        "active": False,
        "role": "auditor",
        "email": "n@example.com",
        "is_principal": True,
        "is_service": False,
        "full_name": "",
    }
    assert [line[0] for line in lines_after(revision)] == ["role-set", "user-deactivate", "user-change"]
    problem(ada.patch("/users/ned", {"active": True}, If_Match=first_read["ETag"]), 412)
    assert ada.get("/users/ned").json()["active"] is False


def test_a_user_change_is_applied_completely_or_not_at_all(ada):
    """The last administrator cannot be deactivated, so the role and the email stay unchanged as well."""
    before = database_state()
    problem(ada.patch("/users/ada", {"email": "a@example.com", "active": False}, If_Match="*"), 409)
    problem(ada.patch("/users/ned", {"role": "auditor", "email": "a\nb"}, If_Match="*"), 409)
    assert database_state() == before


def test_a_change_without_members_or_of_an_unknown_user_is_refused(ada):
    assert (
        "nothing to change" in problem(ada.patch("/users/ned", {"reason": "x"}, If_Match="*"), 400)["detail"]
    )
    problem(ada.patch("/users/ned", {"is_principal": False}, If_Match="*"), 400)
    problem(ada.patch("/users/nobody", {"active": True}, If_Match="*"), 404)
    problem(ada.client.get(f"/api/v1/users/{quote(chr(0))}"), 404)


def test_lists_of_users_and_groups_are_filtered(ada):
    def names(path, **query):
        return [item["name"] for item in ada.all_of(path, **query)]

    assert names("/users") == ["ada", "aud", "dee", "grp", "ina", "ned", "out"]
    assert names("/users", active="false") == names("/users", name="ina") == ["ina"]
    assert names("/users", role="auditor") == names("/users", q="AU") == ["aud"]
    assert names("/groups", q="oper") == names("/groups", name="operators") == ["operators"]
    assert names("/users", q="%") == names("/groups", name="nobody") == []


def test_adding_and_removing_a_member_twice_changes_nothing(ada):
    revision = current_revision()
    membership = {"group": "operators", "user": "ned", "reason": "because"}
    assert ada.post("/members", membership).json()["changed"] is True
    assert ada.post("/members", membership).json()["changed"] is False
    assert ada.all_of("/members", group="operators") == [
        {"group": "operators", "user": name, **NO_LIMITS} for name in ("ned", "grp")
    ]
    assert ada.all_of("/members", user="ned") == [{"group": "operators", "user": "ned", **NO_LIMITS}]
    assert ada.delete("/members", query="?group=operators&user=ned").json()["changed"] is True
    assert ada.delete("/members", query="?group=operators&user=ned").json()["changed"] is False
    assert [line[0] for line in lines_after(revision)] == ["member-add", "member-remove"]
    for body in (
        {"group": "nobody", "user": "ned"},
        {"group": "operators", "user": "nobody"},
        {"group": "operators"},
    ):
        problem(ada.post("/members", body), 400)
    problem(ada.delete("/members"), 400)


def test_a_group_with_any_valid_name_is_added_once(ada):
    created = ada.post("/groups", {"name": "a/members/b"})
    assert created.status_code == 201 and ada.client.get(created["Location"]).json() == {
        "name": "a/members/b"
    }
    problem(ada.post("/groups", {"name": "a/members/b"}), 409)


def memberships() -> set[tuple[str, str]]:
    return set(User.groups.through.objects.values_list("user__username", "group__name"))


def test_memberships_change_together_and_a_repetition_changes_nothing(ada):
    answer = ada.post("/memberships", {"join": [JOIN], "leave": [LEAVE], "base_revision": current_revision()})
    assert answer.status_code == 200 and memberships() == {("out", "operators")}
    body = answer.json()
    assert (body["sentence"], body["joined"], body["left"]) == (
        "added 1, removed 1",
        [JOIN | NO_LIMITS],
        [LEAVE | NO_LIMITS],
    )
    assert body["revision"] == current_revision() and body["effect"] is None
    again = ada.post("/memberships", {"join": [JOIN], "leave": [LEAVE]}).json()
    assert (again["changed"], len(again["unchanged"]), again["revision"]) == (False, 2, body["revision"])


def test_one_invalid_item_refuses_all_and_every_error_is_listed(ada):
    before = database_state()
    answer = problem(
        ada.post(
            "/memberships",
            {
                "join": [JOIN, {"user": "nobody", "group": "operators"}],
                "leave": [JOIN, {"user": "out", "group": "none"}],
            },
        ),
        400,
    )
    assert [(error["list"], error["index"]) for error in answer["errors"]] == [
        ("join", 1),
        ("leave", 0),
        ("leave", 1),
    ]
    assert database_state() == before


def test_an_outdated_base_revision_and_an_empty_request_are_refused(ada):
    problem(ada.post("/memberships", {"join": [JOIN], "base_revision": current_revision() - 1}), 409)
    problem(ada.post("/memberships", {}), 400)
    assert memberships() == {("grp", "operators")}


def test_dry_runs_report_stranded_entities_and_change_nothing(ada):
    add_grant("group:operators", "dataset:hr.salaries", "ADMIN")
    before = database_state()
    body = ada.post("/memberships", {"leave": [LEAVE], "dry_run": True}).json()
    assert body["sentence"] == "would remove 1" and body["stranded"] == [
        {"entity": "dataset:hr.salaries", "admins": 0}
    ]
    assert (body["effect"]["leaves"], body["effect"]["stranded_none"]) == (1, 1)
    revocation = grant_item("user:ned", "dataset:sales.orders", "ADMIN")
    body = ada.post("/grants", {"revoke": [revocation], "dry_run": True}).json()
    assert (
        body["stranded"] == [{"entity": "dataset:sales.orders", "admins": 0}]
        and body["effect"]["revokes"] == 1
    )
    assert database_state() == before


def test_a_role_is_added_renamed_and_removed_like_a_group(ada):
    created = ada.post("/roles", {"name": "stewards"})
    assert created.status_code == 201 and created["Location"] == "/api/v1/roles/stewards"
    assert (
        ada.get("/roles").json()["items"]
        == [{"name": "stewards"}]
        == ada.get("/roles", name="stewards").json()["items"]
    )
    assert {"name": "role:stewards"} not in ada.get("/groups").json()["items"]
    problem(ada.get("/groups/role:stewards"), 404)
    assert "role" in problem(ada.post("/groups", {"name": "role:x"}), 409)["detail"]
    assert ada.patch("/roles/stewards", {"name": "owners"}, If_Match="*").json() == {"name": "owners"}
    assert ada.get("/roles/owners").json() == {"name": "owners"}
    assert ada.delete("/roles/owners").status_code == 200 and not ada.get("/roles").json()["items"]


def test_a_group_joins_and_leaves_a_role_with_the_effect_before(ada):
    ada.post("/roles", {"name": "stewards"})
    add_grant("role:stewards", "dataset:sales.orders", "WRITE")
    body = {"role": "stewards", "group": "operators"}
    shown = ada.post("/role-groups", {**body, "dry_run": True}).json()
    assert shown["effect"]["gained_total"] if "gained_total" in shown["effect"] else shown["effect"]
    assert ada.post("/role-groups", body).json()["sentence"] == "group:operators is in role:stewards now"
    (item,) = ada.get("/role-groups", role="stewards").json()["items"]
    assert item == {**body, **NO_LIMITS}
    question = {
        "subject": {"type": "user", "id": "grp"},
        "action": {"name": "WRITE"},
        "resource": {"type": "dataset", "id": "sales.orders"},
    }
    assert ada.post("/decisions", question).json()["decision"]
    problem(ada.post("/role-groups", {"role": "stewards", "group": "role:stewards"}), 400)
    ada.delete("/role-groups?role=stewards&group=operators")
    assert not ada.post("/decisions", question).json()["decision"]


def test_a_plan_includes_a_group_in_a_role_that_it_adds(ada):
    item = {"group": "operators", "role": "stewards"}
    period = {"valid_from": None, "valid_until": "2100-01-01T00:00:00Z"}
    plan = ada.post(
        "/plans", {"add": ["role:stewards"], "include": [item | {"valid_until": period["valid_until"]}]}
    )
    assert plan.status_code == 201
    path = f"/plans/{plan.json()['number']}"
    rows = ada.get(f"{path}/items").json()["items"]
    assert [(row["verb"], row["principal"], row["group"]) for row in rows] == [
        ("add", "role:stewards", None),
        ("join", "group:operators", "role:stewards"),
    ]
    assert ada.post(f"{path}/apply", {"reason": "they help"}).status_code == 200
    assert ada.get("/role-groups").json()["items"] == [item | period]
    leave = ada.post("/plans", {"exclude": [item]})
    assert leave.json()["effect"]["leaves"] == 1
    for wrong in (
        {"group": "role:stewards", "role": "stewards"},
        {"group": "none", "role": "stewards"},
        {"group": "operators", "role": "none"},
    ):
        problem(ada.post("/plans", {"include": [wrong]}), 400)
