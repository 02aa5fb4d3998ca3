"""Read connections, sync them and read their drift over REST."""

import pytest

from authzconsole.connections import services
from entities.models import Entity
from grants.jobs import run_job
from grants.models import Job, Plan
from tests.rest.conftest import problem
from tests.support.authors import COMMAND
from tests.support.cdap_server import TOKEN, Cdap, Namespace
from tests.support.stand_in import running

pytestmark = pytest.mark.django_db


@pytest.fixture
def cdap():
    with running(Cdap()) as server:
        server.namespaces["pay"] = Namespace(datasets=["orders", "two words"])
        connection = services.add_connection(
            author=COMMAND, type_name="cdap", name="prod", url=server.url, options={}
        )
        services.store_token(connection, TOKEN, author=COMMAND)
        yield server


def sync(ada, **body) -> dict:
    """Sync, and return the result."""
    answer = ada.post("/connections/prod/sync", body)
    assert answer.status_code == 202 and answer.json()["state"] == "waiting", answer.content
    run_job(Job.objects.latest("pk").pk)
    return ada.get("/connections/prod/sync").json()


def test_a_connection_is_read_without_its_token(ada, cdap):
    expected = {
        "name": "prod",
        "type": "cdap",
        "url": cdap.url,
        "has_secret": True,
        "interval_hours": 0,
        "applies_syncs": False,
        "synced_at": None,
        "plan": None,
    }
    assert ada.get("/connections").json()["items"] == [expected]
    assert ada.get("/connections/prod").json() == expected
    problem(ada.get("/connections/none"), 404)


def test_a_dry_run_ends_in_a_plan_with_its_items(ada, cdap):
    problem(ada.get("/connections/prod/sync"), 404)
    result = sync(ada)
    assert (result["state"], result["applied"], result["error"]) == ("done", False, "")
    assert result["requested_by"] == "ada" and result["items_read"] > 0
    assert [row["subject"] for row in result["unsupported"]] == ["dataset:pay.two words"]
    assert result["unsupported_count"] == 1
    assert not Entity.objects.filter(key="pay.orders").exists()
    assert ada.get("/connections/prod").json()["plan"] == result["plan"] == Plan.objects.get().pk
    items = ada.get(f"/plans/{result['plan']}/items").json()["items"]
    assert {"register"} == {item["verb"] for item in items}
    assert {item["principal"] for item in items} == {None}
    assert "dataset:pay.orders" in {item["entity"] for item in items}
    effect = ada.get(f"/plans/{result['plan']}").json()["effect"]
    assert effect["registrations"] == len(items) and effect["deletions"] == effect["users"] == 0


def test_a_sync_that_is_applied_changes_the_console(ada, cdap):
    result = sync(ada, apply=True, reason="first sync")
    assert (result["state"], result["applied"], result["plan"]) == ("done", True, None)
    assert Entity.objects.filter(key="pay.orders", state="live").exists()
    cdap.namespaces = {}
    result = sync(ada, apply=True)
    assert result["state"] == "failed" and "confirm" in result["error"]
    assert sync(ada, apply=True, accept_shrunken=True)["entities"]["deleted"] > 0


def test_a_platform_without_grants_has_no_drift(ada, cdap):
    problem(ada.get("/connections/prod/drift"), 404)
    assert ada.post("/connections/prod/drift", {"reason": "incident"}).status_code == 202
    run_job(Job.objects.latest("pk").pk)
    result = ada.get("/connections/prod/drift").json()
    assert result["state"] == "failed" and "shows no grants" in result["error"] and result["items"] == []
