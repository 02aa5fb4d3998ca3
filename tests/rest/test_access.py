"""Access to every endpoint by each console role, scope and anonymous caller."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import resolve

from authzconsole.models import Connection
from authzconsole.rest.plan_creation import ImpactPlans
from authzconsole.rest.urls import urlpatterns
from grants.models import Job, User
from tests.rest.conftest import QUESTION, ROOT, Rest, grant_item, problem
from tests.support.authors import database_state
from tests.support.cast import create_sample_tenant, created_for_several_tests
from tests.support.changes import bearer

pytestmark = pytest.mark.django_db

TOMORROW = (datetime.now(UTC) + timedelta(days=1)).isoformat()
ITEM = grant_item("user:dee", "dataset:sales.orders", "WRITE")
WHO_CAN = [f"/who-can{extension}?entity=dataset:sales.orders" for extension in ("", ".csv", ".jsonl")]
WHAT_CAN = [f"/what-can{extension}?principal=user:ned" for extension in ("", ".csv", ".jsonl")]
DIFFERENCES = [
    f"/differences{extension}?entity=dataset:sales.orders&since=1" for extension in ("", ".csv", ".jsonl")
]
REQUESTS = [f"/access-requests{extension}" for extension in ("", ".csv", ".jsonl")]
READS = [
    "/stewards",
    "/entities",
    "/entities/dataset:sales.orders",
    "/users",
    "/users/ned",
    "/invitations",
    "/groups",
    "/groups/operators",
    "/roles",
    "/roles/stewards",
    "/role-groups",
    "/members",
    "/grants",
    "/policies",
    "/policies/final",
    "/policies/active",
    "/policies/scheduled",
    "/analyses",
    "/schedules",
    "/schedules/visibility",
    "/runs",
    "/alerts",
    "/figures",
    "/figures.csv",
    "/figures.jsonl",
    "/journal",
    "/journal/proof",
    "/security-events",
    "/break-glass-uses",
    "/webhooks",
    "/connections",
    "/connections/lake",
    "/connections/lake/sync",
    "/connections/lake/drift",
    "/connections/lake/push",
    "/evidence",
    "/findings",
    "/findings.csv",
    "/findings.jsonl",
    "/finding-rules",
    "/plans",
    "/reviews",
    "/managers",
    *REQUESTS,
    "/approvers",
    "/catalogue",
    "/delegation-limits",
    "/forecasts/deletion?namespace=namespace:sales&user=ned",
    *WHO_CAN,
    *WHAT_CAN,
    *DIFFERENCES,
]
WRITES = [
    ("POST", "/entities", {"address": "dataset:sales.new"}),
    ("POST", "/entities/recreate", {"address": "dataset:sales.legacy"}),
    ("PATCH", "/entities/dataset:sales.orders", {"description": "x"}),
    ("DELETE", "/entities/dataset:sales.orders", None),
    ("POST", "/users", {"name": "new"}),
    ("PATCH", "/users/ned", {"email": "n@example.com"}),
    ("POST", "/groups", {"name": "new"}),
    ("POST", "/roles", {"name": "new"}),
    ("POST", "/role-groups", {"group": "operators", "role": "stewards"}),
    ("DELETE", "/role-groups?group=operators&role=stewards", None),
    ("POST", "/members", {"group": "operators", "user": "ned"}),
    ("DELETE", "/members?group=operators&user=grp", None),
    ("POST", "/memberships", {"join": [{"group": "operators", "user": "ned"}]}),
    ("POST", "/grants", {"grant": [ITEM]}),
    ("POST", "/effects", {"changes": [["delete", "dataset:sales.orders"]]}),
    ("POST", "/plans", {"grant": [ITEM]}),
    ("POST", "/plans/copy", {"source": "user:ned", "target": "user:dee"}),
    ("POST", "/plans/readiness", {"namespace": "namespace:sales", "user": "dee", "generation": "final"}),
    (
        "POST",
        "/plans/many",
        {"verb": "grant", "principals": ["user:out"], "privileges": ["READ"], "within": "namespace:sales"},
    ),
    ("POST", "/plans/ghosts", {}),
    ("POST", "/plans/redundant", {}),
    ("POST", "/plans/unused", {"since": 1}),
    (
        "POST",
        "/plans/outliers",
        {
            "privileges": [
                {"principal": "user:ned", "entity": "dataset:sales.orders", "privileges": ["ADMIN"]}
            ]
        },
    ),
    ("POST", "/plans/role-mining", {"run": 1}),
    ("POST", "/plans/patterns", {"run": 1}),
    ("POST", "/plans/like", {"source": "ned", "target": "dee"}),
    ("POST", "/plans/off-boarding", {"user": "dee"}),
    (
        "POST",
        "/plans/import",
        {"document": "verb,principal,entity,privilege\ngrant,user:out,dataset:sales.orders,READ"},
    ),
    ("POST", "/stewards", {"namespace": "namespace:sales", "principal": "user:out"}),
    ("DELETE", "/stewards?namespace=namespace:sales&principal=user:out", None),
    ("POST", "/policies/scheduled", {"name": "existing", "at": TOMORROW}),
    ("DELETE", "/policies/scheduled", None),
    ("PUT", "/policies/active", {"name": "core"}),
    ("POST", "/invitations", {"user": "new"}),
    ("DELETE", "/invitations?user=new", None),
    ("POST", "/runs", {"analysis": "delete-readiness"}),
    ("POST", "/runs/1/cancel", None),
    ("PUT", "/schedules/visibility", {"on": True}),
    ("POST", "/break-glass-uses", {"reason": "an emergency"}),
    ("POST", "/alerts", {"analysis": "stranded", "figure": "entities_nobody_administers", "value": 4}),
    ("POST", "/webhooks", {"url": "https://receiver.example/hook"}),
    ("POST", "/connections/lake/sync", {"accept_shrunken": True}),
    ("POST", "/connections/lake/push", {"digest": "0", "reason": "quarterly review"}),
    ("POST", "/connections/lake/drift", {}),
    ("POST", "/evidence", {"entity": "dataset:sales.orders", "since": "1"}),
    ("PUT", "/managers", {"managers": [{"user": "dee", "manager": "ned"}]}),
    ("POST", "/usage", {"records": [{"user": "dee", "entity": "dataset:sales.orders", "day": "2026-01-31"}]}),
    (
        "PUT",
        "/catalogue",
        {"entity": "dataset:sales.customers", "operations": ["read"], "description": "Orders"},
    ),
    ("DELETE", "/catalogue?entity=dataset:sales.customers", None),
    ("POST", "/reviews/preview", {"reviewer_rule": "stewards"}),
    ("POST", "/reviews", {"title": "Review", "deadline": "2100-01-01T00:00:00Z"}),
    ("PATCH", "/groups/operators", {"name": "operations"}),
    ("DELETE", "/groups/operations?revoke_grants=true", None),
    ("PATCH", "/roles/stewards", {"name": "owners"}),
    ("DELETE", "/roles/owners", None),
    ("DELETE", "/users/ned?revoke_grants=true", None),
    ("POST", "/findings/1/accept", {"until": "2127-03-01T00:00:00Z", "reason": "x"}),
    ("POST", "/findings/1/reopen", {}),
    ("POST", "/findings/1/assign", {"owner": "ada"}),
    (
        "POST",
        "/finding-rules",
        {"kind": "no-backup", "pattern": "*", "until": "2127-03-01T00:00:00Z", "reason": "x"},
    ),
    ("DELETE", "/finding-rules/1", None),
    ("PUT", "/approvers", {"namespace": "namespace:sales", "group": None}),
    ("PUT", "/delegation-limits", {"privileges": ["READ"], "max_days": 30}),
]
# changes that every account may make
REQUEST = (
    "POST",
    "/access-requests",
    {"parts": [{"entity": "dataset:hr.salaries", "operation": "READ"}], "reason": "x"},
)
# requests that change neither data nor settings
FOR_AUDITORS_TOO = {"/evidence"}
# there is no run, a token cannot start break-glass access, and the tenant has no findings and nothing to clean up
REFUSED = {
    "/runs/1/cancel",
    "/break-glass-uses",
    "/plans/redundant",
    "/plans/unused",
    "/plans/outliers",
    "/plans/role-mining",
    "/plans/patterns",
    "/findings/1/accept",
    "/findings/1/reopen",
    "/findings/1/assign",
    "/finding-rules",
    "/finding-rules/1",
}
DECISIONS = ("POST", "/decisions", QUESTION)
CALLS = [*(("GET", path, None) for path in READS), *WRITES, REQUEST, DECISIONS]
FOR_ADMINISTRATORS_AND_AUDITORS = {
    "/invitations",
    "/policies/scheduled",
    "/schedules",
    "/schedules/visibility",
    "/runs",
    "/alerts",
    "/figures",
    "/figures.csv",
    "/figures.jsonl",
    "/journal",
    "/journal/proof",
    "/role-groups",
    "/security-events",
    "/evidence",
    "/findings",
    "/findings.csv",
    "/findings.jsonl",
    "/finding-rules",
    "/plans",
    "/webhooks",
    "/managers",
    "/approvers",
    "/connections",
    "/connections/lake",
    "/connections/lake/sync",
    "/connections/lake/drift",
    "/connections/lake/push",
    "/delegation-limits",
    "/break-glass-uses",
    "/forecasts/deletion?namespace=namespace:sales&user=ned",
    *WHO_CAN,
    *DIFFERENCES,
}

# It needs a finished run. tests/rest/test_plans.py covers its access, and that of paths with the number of a
# plan or a run.
NEEDS_A_RUN = {("POST", ImpactPlans)}


@pytest.fixture(scope="module")
def shared_cast(django_db_setup, django_db_blocker):
    """The users of all tests of this module; each test rolls its own changes back."""
    with created_for_several_tests(create_sample_tenant, django_db_blocker) as cast:
        yield cast


@pytest.fixture
def cast(shared_cast, db):
    Group.objects.create(name="role:stewards")
    Connection.objects.create(name="lake", type="hive", url="thrift://metastore.example:9083")
    for name in ("sync", "compare", "push"):
        Job.objects.create(
            type=f"connection-{name}", state="done", options={"connection": "lake"}, summary={"digest": "0"}
        )
    return shared_cast


def call(rest, method, path, body=None):
    data = b"" if body is None else json.dumps(body)
    return rest.client.generic(
        method,
        f"{ROOT}{path}",
        data,
        content_type="application/json" if body is not None else "",
        headers=rest.headers | {"If-Match": "*"},
    )


def test_every_endpoint_has_a_row():
    rows = {
        (method, getattr(resolve(f"{ROOT}{path.partition('?')[0]}").func, "view_class", None))
        for method, path, _ in CALLS
    }
    operations = {
        (method, view)
        for pattern in urlpatterns
        if "<int:" not in str(pattern.pattern)
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        if (view := getattr(pattern.callback, "view_class", None)) and method in view().allowed_methods
    }
    assert operations - rows == NEEDS_A_RUN


def test_anonymous_requests_get_401_with_the_authentication_scheme(by_session):
    anonymous = by_session()
    for method, path, body in CALLS:
        answer = call(anonymous, method, path, body)
        problem(answer, 401)
        assert answer["WWW-Authenticate"] == 'Bearer realm="authorization console"'


def test_a_session_must_change_a_password_set_by_an_administrator_but_a_token_keeps_working(
    by_session, by_token
):
    session, token = by_session("ada"), by_token("ada")
    User.objects.filter(username="ada").update(must_change_password=True)
    for method, path, body in CALLS:
        assert (
            "choose a new one at http://127.0.0.1:8000/password"
            in problem(call(session, method, path, body), 403)["detail"]
        )
    assert token.get("/entities").status_code == token.post("/decisions", QUESTION).status_code == 200
    User.objects.filter(username="ada").update(must_change_password=False)
    assert session.get("/entities").status_code == 200


@pytest.mark.parametrize("header", ["Basic x", "Bearer", "Bearer nonsense", ""])
def test_an_invalid_authorization_header_is_refused_even_with_a_session(ada, header):
    ada.headers = {"Authorization": header}
    answer = ada.get("/entities")
    problem(answer, 401)
    assert answer["WWW-Authenticate"].startswith("Bearer ")


@pytest.mark.parametrize(
    ("scope", "calls"),
    [
        ("read", [("GET", path, None) for path in READS]),
        ("administer", [*WRITES, REQUEST]),
        ("decide", [DECISIONS]),
    ],
)
def test_each_endpoint_requires_exactly_one_scope(by_token, scope, calls):
    without_scope = by_token("ada", *({"decide", "read", "administer"} - {scope}))
    with_scope = by_token("ada", scope)
    for method, path, body in calls:
        answer = call(without_scope, method, path, body)
        detail = problem(answer, 403)["detail"]
        # tokens with `self` ask and request for their owner
        assert detail in (
            f"the token lacks the scope `{scope}`",
            f"the token lacks the scope `{scope}` or `self`",
        )
        assert f'error="insufficient_scope", scope="{scope}"' in answer["WWW-Authenticate"]
        answer = call(with_scope, method, path, body)
        assert answer.status_code in (200, 201, 202) or path in REFUSED, answer.content


def test_auditors_can_read_everything_that_administrators_can_read(by_session):
    auditor, administrator = by_session("aud"), by_session("ada")
    for path in READS:
        assert auditor.get(path).status_code == administrator.get(path).status_code == 200, path


def test_auditors_cannot_change_anything(by_session):
    auditor = by_session("aud")
    for method, path, body in WRITES:
        answer = call(auditor, method, path, body)
        if path in FOR_AUDITORS_TOO:
            assert answer.status_code == 202
        else:
            assert "administrators" in problem(answer, 403)["detail"], path


@pytest.mark.parametrize("name", ["ada", "aud", "dee", "out"])
def test_every_account_requests_access(by_session, by_token, name):
    assert call(by_session(name), *REQUEST).status_code == 201
    problem(call(by_token(name, "read", "decide"), *REQUEST), 403)


@pytest.mark.parametrize("path", READS)
def test_ordinary_accounts_read_their_own_data(by_session, path):
    """ned administers the namespace and its datasets, so he can read every path except data of other
    principals.
    """
    answer = by_session("ned").get(path)
    expected = (
        403
        if path in FOR_ADMINISTRATORS_AND_AUDITORS
        else 404
        if path in ("/groups/operators", "/roles/stewards")
        else 200
    )
    assert answer.status_code == expected, answer.content


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_ordinary_accounts_cannot_change_anything(by_session, method, path, body):
    problem(call(by_session("ned"), method, path, body), 403)


INVISIBLE = [
    "dataset:hr.salaries",
    "dataset:hr.nothing",
    "namespace:hr",
    "namespace:nowhere",
    "dataset:sales.customers",
    "rubbish",
]


@pytest.mark.parametrize("address", INVISIBLE)
def test_invisible_entities_look_like_nonexistent_entities(by_session, by_token, address):
    """dee only holds READ on one dataset."""
    answers = []
    for rest in (by_session("dee"), by_token("dee", "read")):
        answers.append(problem(rest.get(f"/entities/{address}"), 404))
    dee = by_session("dee")
    answers.append(problem(dee.patch(f"/entities/{address}", {"description": "x"}, If_Match="*"), 404))
    answers.append(problem(dee.delete(f"/entities/{address}"), 404))
    assert {answer["detail"] for answer in answers} == {"this resource does not exist, or you cannot see it"}


def test_lists_show_an_ordinary_account_only_visible_entities(by_session):
    listed = {entity["address"] for entity in by_session("dee").get("/entities").json()["items"]}
    assert listed == {"namespace:sales", "dataset:sales.orders", "dataset:sales.legacy"}
    assert by_session("out").get("/entities").json() == {"items": [], "next": None}
    for filters in (
        {"q": "salaries"},
        {"address": "dataset:hr.salaries"},
        {"parent": "namespace:hr"},
        {"within": "namespace:hr"},
    ):
        hidden = by_session("dee").get("/entities", **filters)
        nowhere = by_session("dee").get(
            "/entities", **{name: value.replace("hr", "zz") for name, value in filters.items()}
        )
        assert hidden.json() == nowhere.json() == {"items": [], "next": None}


def test_an_ordinary_account_lists_only_itself_and_its_groups(by_session):
    grp = by_session("grp")
    assert [user["name"] for user in grp.get("/users").json()["items"]] == ["grp"]
    assert grp.get("/groups").json()["items"] == [{"name": "operators"}]
    assert [(item["group"], item["user"]) for item in grp.get("/members").json()["items"]] == [
        ("operators", "grp")
    ]
    assert by_session("ned").get("/members", group="operators").json()["items"] == []
    assert by_session("ned").get("/groups").json()["items"] == []
    for name in ("ada", "nobody"):
        problem(grp.get(f"/users/{name}"), 404)
        problem(grp.patch(f"/users/{name}", {"active": False}, If_Match="*"), 404)
    for name in ("operators", "nobody"):
        problem(by_session("ned").get(f"/groups/{name}"), 404)


def test_an_ordinary_account_lists_only_its_effective_grants(by_session):
    dee, grp = by_session("dee"), by_session("grp")
    assert {grant["principal"] for grant in dee.get("/grants").json()["items"]} == {"user:dee"}
    assert {grant["principal"] for grant in grp.get("/grants").json()["items"]} == {"group:operators"}
    assert len(grp.get("/grants", principal="group:operators").json()["items"]) == 2
    assert {g["principal"] for g in dee.get("/grants", entity="dataset:sales.orders").json()["items"]} == {
        "user:dee"
    }
    details = {
        problem(dee.get("/grants", principal=name), 403)["detail"]
        for name in ("user:ned", "user:nobody", "group:operators", "group:nobody")
    }
    assert len(details) == 1


def test_an_ordinary_account_and_its_token_ask_only_about_it_and_administrators_about_any_subject(
    by_session, by_token
):
    about_ned = QUESTION | {"subject": {"type": "user", "id": "ned"}}
    assert by_session("dee").post("/decisions", QUESTION).json()["decision"] is True
    problem(by_session("dee").post("/decisions", about_ned), 403)
    problem(by_session("dee").post("/decisions", {"evaluations": [QUESTION, about_ned]}), 403)
    problem(by_token("dee", "decide").post("/decisions", about_ned), 403)
    for rest in (by_token("ada", "decide"), by_session("aud"), by_session("ada")):
        assert rest.post("/decisions", about_ned).status_code == 200


def test_an_explanation_hides_invisible_entities_from_an_ordinary_account(by_session):
    question = QUESTION | {"action": {"name": "delete"}, "resource": {"type": "namespace", "id": "sales"}}
    explanation = by_session("dee").post("/decisions", question)
    assert explanation.json()["decision"] is False and b"customers" not in explanation.content
    assert b"customers" in by_session("ada").post("/decisions", question).content


def test_an_administer_token_is_refused_after_its_owner_loses_the_role(by_token, cast):
    rest = by_token("ada", "administer")
    User.objects.filter(username="ada").update(role="auditor")
    problem(rest.post("/grants", {"grant": [ITEM]}), 403)


def test_the_attack_a_session_that_sees_as_another_user_changes_nothing_over_rest(by_session, by_token):
    rest = by_session("ada")
    rest.client.post("/people/see-as", {"user": "ned"})
    before = database_state()
    for method, path, body in WRITES:
        assert "seeing the console as user:ned" in problem(call(rest, method, path, body), 403)["detail"], (
            path
        )
    assert database_state() == before
    assert call(rest, *DECISIONS).status_code == 200 and rest.get("/groups").status_code == 200
    assert by_token("ada").post("/groups", {"name": "new"}).status_code == 201
    rest.client.post("/people/see-as", {"user": ""})
    assert rest.post("/groups", {"name": "newer"}).status_code == 201


def test_a_session_needs_a_csrf_token_and_an_api_token_does_not(cast):
    client = Client(enforce_csrf_checks=True)
    client.force_login(cast["ada"])
    rest = Rest(client)
    assert "CSRF check" in problem(rest.post("/groups", {"name": "one"}), 403)["detail"]
    assert rest.get("/groups").status_code == 200
    client.cookies["csrftoken"] = "a" * 32
    assert rest.post("/groups", {"name": "one"}, X_CSRFToken="a" * 32).status_code == 201
    rest = Rest(Client(enforce_csrf_checks=True), bearer("ada", "administer"))
    assert rest.post("/groups", {"name": "two"}).status_code == 201


def test_a_superuser_is_an_ordinary_account(by_session, cast):
    User.objects.filter(username="out").update(is_superuser=True, is_staff=True)
    assert by_session("out").get("/entities").json()["items"] == []
    problem(by_session("out").post("/grants", {"grant": [ITEM]}), 403)


def test_responses_are_not_cached(ada, by_session):
    assert (
        ada.get("/entities")["Cache-Control"] == by_session().get("/entities")["Cache-Control"] == "no-store"
    )
