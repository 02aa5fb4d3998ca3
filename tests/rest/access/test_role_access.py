"""Every endpoint for the roles security administrator, approver and operator.

They get the same answers as an account without a role (`out`), an approver the same as an auditor (`aud`),
except for the endpoints that are listed here.
"""

import pytest

from analytics.models import AnalysisRun
from tests.rest.test_access import DECISIONS, READS, WRITES, call
from tests.support.authors import database_state
from tests.support.cast import create_role_accounts

pytestmark = pytest.mark.django_db

BASELINE = {"sec": "out", "app": "aud", "ope": "out"}
JOURNAL = ("/break-glass-uses", "/journal", "/journal/proof", "/webhooks", "/evidence", "/differences")
FIGURES = ("/alerts", "/figures", "/figures.csv", "/figures.jsonl")
REPORTS = ("/schedules", "/schedules/visibility", "/runs", *FIGURES)
READABLE = {
    "sec": {"/users/ned": 200, "/invitations": 200, "/security-events": 200},
    "app": {
        path: 403 for path in READS if path.startswith((*JOURNAL, *REPORTS, "/security-events", "/finding"))
    },
    "ope": dict.fromkeys(REPORTS, 200),
}
# it sees the user, and an account without a role does not
REFUSED = {"sec": {("DELETE", "/users/ned?revoke_grants=true"): 403}}
CHANGEABLE = {
    "sec": {
        ("POST", "/users"): 201,
        ("PATCH", "/users/ned"): 200,
        ("POST", "/invitations"): 201,
        ("DELETE", "/invitations?user=new"): 200,
    },
    "app": {
        ("POST", "/evidence"): 403,
        ("PUT", "/catalogue"): 200,
        ("DELETE", "/catalogue?entity=dataset:sales.customers"): 200,
    },
    "ope": {("POST", "/runs"): 202, ("POST", "/runs/1/cancel"): 200, ("PUT", "/schedules/visibility"): 200},
}


@pytest.fixture
def accounts(cast):
    cast.update(create_role_accounts())
    return cast


@pytest.mark.parametrize("name", ["sec", "app", "ope"])
def test_each_role_reads_exactly_its_resources(name, accounts, by_session):
    rest, baseline = by_session(name), by_session(BASELINE[name])
    for path in READS:
        expected = READABLE[name].get(path) or baseline.get(path).status_code
        answer = rest.get(path)
        assert answer.status_code == expected, (path, answer.content)
        if "/" in path[1:] and expected == 403:
            assert "of this console can read this" in answer.json()["detail"]
    assert call(rest, *DECISIONS).status_code == (200 if name == "app" else 403)


@pytest.mark.parametrize("name", ["sec", "app", "ope"])
def test_each_role_changes_exactly_its_resources(name, accounts, by_session):
    rest, baseline, before = by_session(name), by_session(BASELINE[name]), database_state()
    refused = [
        (method, path, body) for method, path, body in WRITES if (method, path) not in CHANGEABLE[name]
    ]
    for method, path, body in refused:
        answer = call(rest, method, path, body)
        expected = REFUSED.get(name, {}).get((method, path)) or call(baseline, method, path, body).status_code
        assert answer.status_code == expected and expected in (403, 404), (path, answer.content)
    assert database_state() == before
    for (method, path), status in CHANGEABLE[name].items():
        body = next(body for *row, body in WRITES if row == [method, path])
        # the run that the first of these requests has created
        path = path.replace("/runs/1/", f"/runs/{_newest_run()}/")
        assert call(rest, method, path, body).status_code == status, path


def _newest_run() -> int:
    return AnalysisRun.objects.order_by("pk").values_list("pk", flat=True).last() or 1


def test_a_security_administrator_sees_no_grants_and_no_entities(accounts, by_session):
    rest = by_session("sec")
    assert {user["name"] for user in rest.get("/users").json()["items"]} >= {"ada", "ned", "sec"}
    for path in ("/grants", "/entities", "/groups", "/members"):
        assert rest.get(path).json()["items"] == [], path


@pytest.mark.parametrize(
    "change", [{"role": "administrator"}, {"role": "auditor"}, {"role": "approver"}, {"name": "boss"}]
)
def test_the_attack_a_security_administrator_gives_no_account_more_rights(change, accounts, by_session):
    for target in ("sec", "ned"):
        assert call(by_session("sec"), "PATCH", f"/users/{target}", change).status_code == 403


def test_the_attack_a_security_administrator_changes_no_account_with_more_rights(accounts, by_session):
    rest = by_session("sec")
    for target in ("ada", "aud", "app", "ope"):
        for change in (
            {"active": False},
            {"email": "x@example.com"},
            {"role": "ordinary"},
            {"full_name": "X"},
        ):
            assert call(rest, "PATCH", f"/users/{target}", change).status_code == 403, (target, change)
    assert call(rest, "POST", "/users", {"name": "boss", "role": "administrator"}).status_code == 403
    assert call(rest, "POST", "/users", {"name": "help", "role": "security-administrator"}).status_code == 201
