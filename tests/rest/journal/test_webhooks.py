"""Webhooks over REST."""

import pytest
from django.utils import timezone

from authzconsole.common.webhooks.delivery import secret_of
from authzconsole.models import DeadLetter, Webhook
from grants.journal import current_revision
from tests.rest.conftest import problem
from tests.support.authors import database_state, lines_after

pytestmark = pytest.mark.django_db
URL = "https://receiver.example/hook?key=1"
BODY = {"url": URL, "actions": ["revoke", "grant"], "reason": "for the SIEM"}


@pytest.fixture
def number(ada):
    return ada.post("/webhooks", BODY).json()["number"]


def test_a_webhook_is_created_listed_changed_and_deleted(ada):
    before = current_revision()
    created = ada.post("/webhooks", BODY)
    number = created.json()["number"]
    assert (created.status_code, created["Location"]) == (201, f"/api/v1/webhooks/{number}")
    assert created.json()["secret"] == secret_of(Webhook.objects.get())
    webhook = ada.get(f"/webhooks/{number}").json()
    assert created.json() == webhook | {"secret": created.json()["secret"]}
    assert ada.get("/webhooks").json() == {"items": [webhook]}
    assert (webhook["url"], webhook["actions"], webhook["position"]) == (URL, ["grant", "revoke"], before)
    changed = ada.patch(f"/webhooks/{number}", {"enabled": False})
    assert changed.json() == webhook | {"enabled": False} == ada.get(f"/webhooks/{number}").json()
    deleted = ada.delete(f"/webhooks/{number}?reason=unused").json()
    assert deleted == {
        "changed": True,
        "sentence": f"webhook {number} was deleted",
        "revision": current_revision(),
    }
    assert ada.get("/webhooks").json() == {"items": []}
    assert [line[0] for line in lines_after(before)] == ["webhook-add", "webhook-change", "webhook-delete"]


def test_dead_letters_are_listed_and_sent_again(ada, number):
    for revision in (5, 3, 4):
        DeadLetter.objects.create(webhook_id=number, revision=revision, at=timezone.now(), error="status 500")
    page = ada.get(f"/webhooks/{number}/dead-letters?limit=2").json()
    assert [(item["revision"], item["error"], item["sent_again"]) for item in page["items"]] == [
        (3, "status 500", False),
        (4, "status 500", False),
    ]
    assert ada.get(f"/webhooks/{number}").json()["dead_letters"] == 3
    assert ada.post(f"/webhooks/{number}/redeliver", {"reason": "it works again"}).json() == {"count": 3}
    assert ada.post(f"/webhooks/{number}/redeliver", {}).json() == {"count": 0}
    assert all(item["sent_again"] for item in ada.all_of(f"/webhooks/{number}/dead-letters"))


@pytest.mark.parametrize("url", ["http://receiver.example/", "ftp://receiver.example/"])
def test_an_invalid_url_of_a_webhook_is_refused(ada, url):
    problem(ada.post("/webhooks", {"url": url}), 400)
    assert not Webhook.objects.exists()


def test_unknown_webhooks_are_not_found(ada):
    for number in (1, 10**30):
        for answer in (
            ada.get(f"/webhooks/{number}"),
            ada.patch(f"/webhooks/{number}", {"enabled": True}),
            ada.delete(f"/webhooks/{number}"),
            ada.get(f"/webhooks/{number}/dead-letters"),
            ada.post(f"/webhooks/{number}/redeliver", {}),
        ):
            assert "no webhook" in problem(answer, 404)["detail"]


def test_only_administrators_change_webhooks(by_session, number):
    before = database_state()
    aud, ned = by_session("aud"), by_session("ned")
    for path in (f"/webhooks/{number}", f"/webhooks/{number}/dead-letters"):
        assert aud.get(path).status_code == 200
        problem(ned.get(path), 403)
    for rest in (aud, ned):
        for answer in (
            rest.patch(f"/webhooks/{number}", {"enabled": False}),
            rest.delete(f"/webhooks/{number}"),
            rest.post(f"/webhooks/{number}/redeliver", {}),
        ):
            problem(answer, 403)
    assert database_state() == before and Webhook.objects.get().is_enabled
