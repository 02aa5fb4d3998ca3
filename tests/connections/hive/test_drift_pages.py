"""Compare the console with a real metastore on the pages, and remove the drift on either side."""

from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from pytest_django.asserts import assertContains, assertNotContains

from authzconsole.connections.jobs import request_due_syncs
from authzconsole.findings.refresh import refresh_findings
from authzconsole.models import Connection, Finding
from grants.jobs import run_job
from grants.models import Job, JournalLine, User
from tests.connections.hive.test_hive import connected as connected
from tests.connections.hive.test_hive import metastore as metastore
from tests.connections.hive.test_hive import output
from tests.connections.hive.test_hive import server as server
from tests.rest.conftest import Rest
from tests.support.changes import add_grant, revoke_grant
from tests.support.pages import shown_effect_of_plan

pytestmark = [pytest.mark.spark, pytest.mark.django_db]
URL = "/connections/lake/"
DRIFT = f"{URL}drift"


@pytest.fixture
def ada(connected):
    """A browser of an administrator, after a sync of the metastore with a grant of alice."""
    connected.grant("user:alice", "sales.orders", "SELECT")
    output("sync", "lake")
    client = Client()
    client.force_login(User.objects.create(username="ada", role="administrator"))
    return client


def run(browser, verb: str, path: str = "run", **fields) -> Job:
    """Start a job on a page, execute it and the jobs that it requests, and return it."""
    answer = browser.post(f"{URL}{path}", {"verb": verb} | fields)
    assert answer.status_code == 303, answer.content
    job = Job.objects.latest("pk")
    for waiting in iter(lambda: Job.objects.filter(state="waiting").first(), None):
        run_job(waiting.pk)
    job.refresh_from_db()
    return job


def drift_findings() -> list[tuple[str, int]]:
    refresh_findings()
    return list(Finding.objects.filter(kind="drift", resolved_at=None).values_list("subject", "figure"))


def test_what_was_granted_by_hand_is_drift_until_a_plan_changes_the_console(ada, connected):
    connected.grant("user:bob", "sales.customers", "SELECT")
    assert run(ada, "compare").summary["count"] == 1
    answer = ada.get(DRIFT)
    assertContains(answer, "dataset:sales.customers")
    assertContains(answer, "user:bob")
    assertContains(answer, "by hive</span>")
    # the console does not know the user yet, so there is no page
    assertContains(answer, "only on the platform")
    assertNotContains(answer, 'href="/people/user:bob"')
    assert drift_findings() == [("connection:lake", 1)]
    assertContains(ada.get("/findings/"), "1 privilege that only the console or the platform grants")
    number = run(ada, "sync").summary["plan"]
    connection = Connection.objects.get()
    shown = shown_effect_of_plan(ada, connection.plan)
    answer = ada.post(f"/plans/{number}/apply", {"reason": "accepted", "beyond": "yes", **shown})
    assert answer.status_code == 303, answer.content
    # the periodic task compares again after the plan
    request_due_syncs()
    run_job(Job.objects.latest("pk").pk)
    assert drift_findings() == []
    assertContains(ada.get(DRIFT), "Both sides grant the same.")


def test_what_was_revoked_in_the_console_is_pushed_with_a_reason(ada, connected):
    revoke_grant("user:alice", "dataset:sales.orders", "READ")
    shown = run(ada, "compare").summary["digest"]
    assertContains(ada.get(DRIFT), "Make 1 change on the platform")
    answer = ada.post(f"{URL}push", {"shown": shown, "reason": ""})
    assertContains(answer, "the reason is missing", status_code=400)
    job = run(ada, "", "push", shown=shown, reason="left the team")
    assert job.state == "done", job.error
    assert not [row for row in connected.listing() if row[0] == "user:alice"]
    line = JournalLine.objects.get(action="connection-push")
    assert (line.actor, line.reason) == ("ada", "left the team")
    assertContains(ada.get(DRIFT), "The last push made 1 change on the platform")
    assertContains(ada.get(DRIFT), "Both sides grant the same.")


def test_a_push_is_refused_after_a_change_on_the_platform_or_of_another_comparison(ada, connected):
    revoke_grant("user:alice", "dataset:sales.orders", "READ")
    shown = run(ada, "compare").summary["digest"]
    connected.grant("user:bob", "sales.customers", "SELECT")
    job = run(ada, "", "push", shown=shown, reason="left the team")
    assert job.state == "failed" and "changed since" in job.error
    assertContains(ada.get(DRIFT), "changed since")
    drift_findings()
    assert not Finding.objects.filter(kind="failed-job").exists(), "whoever pushed sees why"
    assert run(ada, "compare").summary["count"] == 2
    answer = ada.post(f"{URL}push", {"shown": shown, "reason": "left the team"})
    assertContains(answer, "not the newest ones", status_code=400)
    assert ("user:alice", "sales.orders", "SELECT") in connected.listing()


def test_a_push_over_rest_names_the_comparison_and_a_reason(ada, connected):
    rest = Rest(ada)
    assert rest.get("/connections/lake/push").status_code == 404
    revoke_grant("user:alice", "dataset:sales.orders", "READ")
    assert rest.post("/connections/lake/drift", {}).status_code == 202
    run_job(Job.objects.latest("pk").pk)
    drift = rest.get("/connections/lake/drift").json()
    change = {"verb": "revoke", "principal": "user:alice", "entity": "dataset:sales.orders", "policy": ""}
    (item,) = drift["items"]
    assert (item["principal"], item["granted_by"]) == ("user:alice", "hive")
    assert datetime.now(UTC) - datetime.fromisoformat(item["granted_at"]) < timedelta(minutes=10)
    assert drift["changes"] == [change | {"privileges": ["SELECT"]}] and drift["change_count"] == 1
    for body, message in (
        ({"digest": "0", "reason": "left the team"}, "not the newest ones"),
        ({"digest": drift["digest"]}, "the reason is missing"),
    ):
        answer = rest.post("/connections/lake/push", body)
        assert answer.status_code == 400 and message in answer.content.decode()
    answer = rest.post("/connections/lake/push", {"digest": drift["digest"], "reason": "left the team"})
    assert answer.status_code == 202, answer.content
    run_job(Job.objects.filter(type__endswith="push").latest("pk").pk)
    result = rest.get("/connections/lake/push").json()
    assert (result["state"], result["changes"], result["error"]) == ("done", 1, "")
    assert not [row for row in connected.listing() if row[0] == "user:alice"]


def test_a_long_comparison_says_where_all_of_it_is(ada, connected, monkeypatch):
    monkeypatch.setattr("authzconsole.connections.jobs.MAX_ROWS", 1)
    connected.grant("user:bob", "sales.customers", "SELECT")
    connected.grant("user:carol", "sales.customers", "SELECT")
    for table in ("orders", "customers"):
        add_grant("user:alice", f"dataset:sales.{table}", "ADMIN")
    run(ada, "compare")
    page = ada.get(DRIFT)
    assertContains(page, "These are the first of 4. <code>manage.py connection drift lake</code> lists all.")
    assertContains(
        page, "These are the first of 2. <code>manage.py connection push lake</code> lists all and"
    )
    assertContains(page, "These are the first of 2. <code>manage.py connection push lake</code> lists all on")
    drift = Rest(ada).get("/connections/lake/drift").json()
    assert (drift["count"], len(drift["items"]), drift["change_count"], len(drift["changes"])) == (4, 1, 2, 1)


def test_four_eyes_does_not_let_one_person_push(ada, settings):
    revoke_grant("user:alice", "dataset:sales.orders", "READ")
    shown = run(ada, "compare").summary["digest"]
    settings.FOUR_EYES = True
    answer = ada.post(f"{URL}push", {"shown": shown, "reason": "left the team"})
    assertContains(answer, "second person", status_code=400)


def test_only_administrators_change_the_platform(ada):
    client = Client()
    client.force_login(User.objects.create(username="aud", role="auditor"))
    run(ada, "compare")
    assertNotContains(client.get(DRIFT), "Compare now")
    assert client.post(f"{URL}push", {"reason": "x", "shown": "x"}).status_code == 403


def test_a_plan_of_a_sync_adds_users_roles_and_grants(ada, connected):
    connected.create_role("stewards")
    connected.add_to_role("user:carol", "stewards")
    connected.grant("role:stewards", "sales.orders", "INSERT", "UPDATE", "DELETE")
    connected.create("pay", "slips")
    connected.grant("user:carol", "pay.slips", "SELECT")
    job = run(ada, "sync")
    assert job.summary["principals"] == {"users": 1, "groups": 0, "roles": 1, "joined": 1, "left": 0}
    plan = Connection.objects.get().plan
    assert plan.effect["users"] == plan.effect["groups"] == plan.effect["joins"] == 1
    assert (plan.effect["registrations"], plan.effect["planned"], plan.effect["grants"]) == (2, 0, 2)
    page = ada.get(f"/plans/{plan.pk}/?preview=yes")
    assertContains(page, "to make live")
    assertNotContains(page, "on planned addresses")
    shown = shown_effect_of_plan(ada, plan)
    answer = ada.post(f"/plans/{plan.pk}/apply", {"reason": "new team", "beyond": "yes", **shown})
    assert answer.status_code == 303, answer.content
    assert run(ada, "compare").summary["count"] == 0
    assert run(ada, "sync").summary["plan"] is None
