"""The administration API of CDAP, called as `AuthorizationClient` of cdap-client does: without a JSON content type, and with
two slashes before `privileges`.
"""

import json

import pytest
from django.test import Client

from grants.models import JournalLine, User, all_grants
from tests.support.cast import create_sample_tenant
from tests.support.changes import bearer

BASE = "/v3/security/authorization"
ORDERS = {"entityType": "DATASET", "entityParts": {"NAMESPACE": "sales", "DATASET": "orders"}}
DAILY = {
    "entityType": "PROGRAM",
    "entityParts": {"NAMESPACE": "sales", "APPLICATION": "shop", "PROGRAM": "workflow.daily"},
}


class CdapClient:
    def __init__(self, owner: str, *scopes: str):
        self.headers = bearer(owner, *scopes)

    def send(self, method: str, path: str, body=None):
        data = b"" if body is None else json.dumps(body).encode()
        return Client().generic(
            method, f"{BASE}{path}", data, "application/x-www-form-urlencoded", headers=self.headers
        )

    def change(self, verb: str, authorizable: dict, name: str, *actions: str, type: str = "USER"):
        body = {"authorizable": authorizable, "principal": {"name": name, "type": type}, "actions": actions}
        return self.send("POST", f"//privileges/{verb}", body)

    def privileges(self, principal: str) -> set[tuple[str, str]]:
        answer = self.send("GET", f"/{principal}/privileges")
        assert answer.status_code == 200, answer.content
        return {
            (".".join(row["authorizable"]["entityParts"].values()), row["action"]) for row in answer.json()
        }


@pytest.fixture
def cast(db):
    return create_sample_tenant()


@pytest.fixture
def cdap(cast):
    return CdapClient("ada", "administer")


def grants_on(address: str) -> set[tuple[str, str]]:
    return {
        (principal, str(privilege))
        for grants in all_grants()
        for principal, found, privilege in grants.grant_keys()
        if str(found) == address
    }


def test_grant_and_revoke_change_grants_and_name_the_author(cdap):
    assert cdap.change("grant", ORDERS, "out", "READ", "WRITE").status_code == 200
    assert cdap.change("grant", DAILY, "operators", "EXECUTE", type="GROUP").status_code == 200
    assert {("user:out", "READ"), ("user:out", "WRITE")} <= grants_on("dataset:sales.orders")
    assert ("group:operators", "EXECUTE") in grants_on("program:sales.shop.workflow.daily")
    assert JournalLine.objects.order_by("-revision").first().actor == "ada"
    assert cdap.change("revoke", ORDERS, "out", "READ").status_code == 200
    assert ("user:out", "READ") not in grants_on("dataset:sales.orders")


def test_a_revocation_without_principal_and_actions_takes_all_grants_on_the_entity(cdap):
    assert grants_on("dataset:sales.orders")
    assert cdap.send("POST", "//privileges/revoke", {"authorizable": ORDERS}).status_code == 200
    assert grants_on("dataset:sales.orders") == set()


def test_privileges_are_listed_in_the_form_of_the_client(cdap):
    cdap.change("grant", ORDERS, "out", "READ")
    answer = cdap.send("GET", "/USER/out/privileges").json()
    assert all((row["authorizable"], row["action"]) == (ORDERS, "READ") for row in answer)
    assert {"type": "STANDARD", "name": "GET"} in [row["permission"] for row in answer]
    assert cdap.privileges("user/out") == {("sales.orders", "READ")}


def test_wildcards_are_granted_and_listed_as_patterns(cdap):
    everything = {"entityType": "DATASET", "entityParts": {"NAMESPACE": "sales", "DATASET": "*"}}
    assert cdap.change("grant", everything, "out", "READ").status_code == 200
    assert ("user:out", "READ") in grants_on("dataset:sales.*")
    assert cdap.privileges("USER/out") == {("sales.*", "READ")}


def test_roles_are_created_filled_listed_and_dropped(cdap):
    assert cdap.send("PUT", "/roles/analysts").status_code == 200
    again = cdap.send("PUT", "/roles/analysts")
    assert again.status_code == 409 and again["Content-Type"].startswith("text/plain")
    assert cdap.send("PUT", "/USER/out/roles/analysts").status_code == 200
    assert cdap.send("PUT", "/GROUP/operators/roles/analysts").status_code == 200
    role = {"name": "analysts", "type": "ROLE"}
    for path in ("/roles", "/USER/out/roles", "/GROUP/operators/roles"):
        assert cdap.send("GET", path).json() == [role], path
    cdap.change("grant", ORDERS, "analysts", "READ", type="ROLE")
    assert cdap.privileges("ROLE/analysts") == {("sales.orders", "READ")}
    assert cdap.send("DELETE", "/USER/out/roles/analysts").status_code == 200
    assert cdap.send("DELETE", "/GROUP/operators/roles/analysts").status_code == 200
    assert cdap.send("GET", "/USER/out/roles").json() == []
    assert cdap.send("DELETE", "/roles/analysts").status_code == 200
    assert cdap.send("DELETE", "/roles/analysts").status_code == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", "/roles/%00"), ("PUT", "/USER/out/roles/%00"), ("DELETE", "/GROUP/operators/roles/a%00b")],
)
def test_a_role_whose_name_no_database_stores_does_not_exist(cdap, method, path):
    answer = cdap.send(method, path)
    assert answer.status_code == 404 and "there is no role" in answer.content.decode()


@pytest.mark.parametrize("path", ["/USER/%00/roles", "/GROUP/a%00b/roles", "/USER/%00/privileges"])
def test_a_principal_whose_name_no_database_stores_is_refused(cdap, path):
    assert cdap.send("GET", path).status_code == 400


@pytest.mark.parametrize(
    ("set_name", "name", "privilege"),
    [("STANDARD", "GET", "READ"), ("STANDARD", "UPDATE", "WRITE"), ("STANDARD", "DELETE", "ADMIN")],
)
def test_the_permissions_of_later_clients_become_the_privilege_that_allows_the_least(
    cdap, set_name, name, privilege
):
    permissions = [{"type": set_name, "name": name}]
    body = {"authorizable": ORDERS, "principal": {"name": "out", "type": "USER"}, "permissions": permissions}
    assert cdap.send("POST", "//privileges/grant", body).status_code == 200
    assert cdap.privileges("USER/out") == {("sales.orders", privilege)}
    assert permissions[0] in [row["permission"] for row in cdap.send("GET", "/USER/out/privileges").json()]
    assert cdap.send("POST", "//privileges/revoke", body).status_code == 200
    assert cdap.privileges("USER/out") == set()


@pytest.mark.parametrize("actions", [["READ"], []])
def test_actions_and_permissions_may_come_together(cdap, actions):
    permissions = [{"type": "STANDARD", "name": "UPDATE"}]
    body = {"authorizable": ORDERS, "principal": {"name": "out", "type": "USER"}, "actions": actions}
    assert cdap.send("POST", "//privileges/grant", body | {"permissions": permissions}).status_code == 200
    assert cdap.privileges("USER/out") == {("sales.orders", name) for name in (*actions, "WRITE")}
    assert cdap.send("POST", "//privileges/revoke", body | {"permissions": permissions}).status_code == 200
    assert cdap.privileges("USER/out") == set()


def test_a_revocation_of_what_is_not_there_changes_nothing(cdap):
    before = JournalLine.objects.count()
    nowhere = {"entityType": "DATASET", "entityParts": {"NAMESPACE": "none", "DATASET": "orders"}}
    for place, name in ((ORDERS, "out"), (ORDERS, "nobody"), (nowhere, "nobody")):
        assert cdap.change("revoke", place, name, "EXECUTE").status_code == 200
    assert cdap.send("POST", "//privileges/revoke", {"authorizable": nowhere}).status_code == 200
    assert JournalLine.objects.count() == before


def test_a_name_in_the_path_is_decoded_once(cdap):
    assert cdap.send("PUT", "/roles/50%2541").status_code == 200
    assert cdap.send("GET", "/roles").json() == [{"name": "50%41", "type": "ROLE"}]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({}, 400, "`authorizable` is missing"),
        (
            {"authorizable": {"entityType": "NAMESPACE", "entityParts": ORDERS["entityParts"]}},
            400,
            "`entityParts` of NAMESPACE cannot have `DATASET`",
        ),
        ({"authorizable": ORDERS | {"childType": "DATASET"}}, 400, "`childType` is not supported"),
        ({"authorizable": ORDERS | {"entityType": "CUBE"}}, 400, "`CUBE` is not a type of entity"),
        (
            {"authorizable": {"entityType": "DATASET", "entityParts": {"NAMESPACE": "sales"}}},
            400,
            "lacks DATASET",
        ),
        (
            {
                "authorizable": {
                    "entityType": "DATASET",
                    "entityParts": {"NAMESPACE": "sales.secret", "DATASET": "orders"},
                }
            },
            400,
            "NAMESPACE of `entityParts` has a dot",
        ),
        ({"authorizable": ORDERS, "principal": {"name": "out", "type": "ROBOT"}}, 400, "`ROBOT`"),
        (
            {"authorizable": ORDERS, "principal": {"name": "nobody", "type": "USER"}},
            404,
            "does not know user:nobody",
        ),
        ({"authorizable": ORDERS, "principal": {"name": "out", "type": "USER"}}, 400, "`actions` is missing"),
        (
            {
                "authorizable": ORDERS,
                "principal": {"name": "out", "type": "USER"},
                "permissions": [{"type": "INSTANCE", "name": "TETHER"}],
            },
            400,
            "`INSTANCE:TETHER` is not a permission on DATASET",
        ),
        (
            {"authorizable": ORDERS, "principal": {"name": "out", "type": "USER"}, "actions": ["FLY"]},
            400,
            "`actions`",
        ),
    ],
)
def test_a_refused_grant_says_in_plain_text_what_is_wrong_and_changes_nothing(cdap, body, status, message):
    before = JournalLine.objects.count()
    answer = cdap.send("POST", "//privileges/grant", body)
    assert (answer.status_code, answer["Content-Type"]) == (status, "text/plain; charset=utf-8")
    assert message in answer.content.decode()
    assert JournalLine.objects.count() == before


def test_only_tokens_of_administrators_change_grants(cast):
    reader, ordinary = CdapClient("ada", "read"), CdapClient("ned", "read")
    for client in (reader, ordinary):
        assert client.change("grant", ORDERS, "out", "READ").status_code == 403
        assert client.send("PUT", "/roles/analysts").status_code == 403
    assert Client().post(f"{BASE}//privileges/grant", "{}", content_type="text/plain").status_code == 401
    assert ("user:out", "READ") not in grants_on("dataset:sales.orders")


def test_an_ordinary_account_lists_its_own_privileges_only(cast):
    ned = CdapClient("ned", "read")
    assert ned.privileges("USER/ned")
    for hidden in ("USER/dee", "GROUP/operators", "ROLE/none"):
        assert ned.send("GET", f"/{hidden}/privileges").status_code == 403


def test_an_ordinary_account_does_not_learn_who_shares_its_roles(cdap, cast):
    cdap.send("PUT", "/roles/analysts")
    for name in ("ned", "dee"):
        assert cdap.send("PUT", f"/USER/{name}/roles/analysts").status_code == 200
    cdap.send("PUT", "/GROUP/operators/roles/analysts")
    ned = CdapClient("ned", "read")
    assert ned.send("GET", "/USER/ned/roles").json() == [{"name": "analysts", "type": "ROLE"}]
    for hidden in ("USER/dee", "USER/nobody", "GROUP/operators", "ROLE/none"):
        answer = ned.send("GET", f"/{hidden}/roles")
        assert answer.status_code == 403 and b"analysts" not in answer.content, hidden
    assert cdap.send("GET", "/ROLE/analysts/roles").json() == []


def test_a_refusal_does_not_depend_on_what_exists(cast, settings):
    """An operator has a token that can change what the operator may change, which are no grants."""
    settings.DELEGATION = True
    User.objects.filter(username="ned").update(role="operator")
    ned = CdapClient("ned", "administer")
    nowhere = {"entityType": "DATASET", "entityParts": {"NAMESPACE": "none", "DATASET": "orders"}}
    salaries = {"entityType": "DATASET", "entityParts": {"NAMESPACE": "hr", "DATASET": "salaries"}}
    answers = []
    for place in (nowhere, salaries):
        for name in ("dee", "nobody"):
            answers.append(ned.change("grant", place, name, "READ"))
            answers.append(ned.change("revoke", place, name, "READ"))
        answers.append(ned.send("POST", "//privileges/revoke", {"authorizable": place}))
    texts = {
        answer.content.decode().replace("dataset:none.orders", "IT").replace("dataset:hr.salaries", "IT")
        for answer in answers
    }
    assert {answer.status_code for answer in answers} == {403} and len(texts) == 1, texts


def test_a_session_is_not_enough(cast, client):
    client.force_login(cast["ada"])
    assert client.get(f"{BASE}/roles").status_code == 401


def test_the_client_connects(cast):
    assert Client().get("/ping").content == b"OK.\n"
    assert Client().get("/v3/ping").status_code == 401
    assert Client().get("/v3/ping", headers=bearer("ada", "read")).content == b"OK.\n"


def test_an_unknown_call_is_not_found(cdap):
    answer = cdap.send("GET", "/privileges")
    assert answer.status_code == 404
    assert "there is no call GET" in answer.content.decode()
