"""Evidence over REST: request, follow, download."""

import io
import zipfile

import pytest

from grants.journal import current_revision
from tests.rest.conftest import problem
from tests.support.jobs import execute_evidence

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent_numbers(monkeypatch):
    numbers = []
    monkeypatch.setattr("grants.jobs.lifecycle.send_job", lambda job: numbers.append(job.evidence.pk))
    return numbers


def test_evidence_is_requested_followed_and_downloaded(
    by_token, by_session, sent_numbers, django_capture_on_commit_callbacks
):
    ada = by_token("ada", "administer")
    with django_capture_on_commit_callbacks(execute=True):
        answer = ada.post("/evidence", {"entity": "dataset:sales.orders", "since": "1"})
    assert answer.status_code == 202 and answer["Location"].endswith(f"/evidence/{sent_numbers[0]}")
    assert answer.json()["state"] == "waiting" and answer.json()["to_revision"] == current_revision()
    reader = by_session("aud")
    problem(reader.get(f"/evidence/{sent_numbers[0]}/file"), 409)
    execute_evidence(number=sent_numbers[0])
    followed = reader.get(f"/evidence/{sent_numbers[0]}").json()
    assert followed["state"] == "done" and followed["has_file"] and len(followed["sha256"]) == 64
    assert reader.get("/evidence").json()["items"] == [followed]
    download = reader.get(f"/evidence/{sent_numbers[0]}/file")
    assert download["Content-Type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(b"".join(download.streaming_content))) as archive:
        assert "access.csv" in archive.namelist()
    for path in (f"/evidence/{sent_numbers[0]}", f"/evidence/{sent_numbers[0]}/file"):
        problem(by_session("ned").get(path), 403)
    problem(reader.get("/evidence/999"), 404)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"entity": "dataset:sales.orders", "since": "2026-01-01T00:00:00"}, "since"),
        ({"entity": "dataset:sales.orders", "since": "1", "until": "2199-01-01T00:00:00Z"}, "until"),
        ({"entity": "dataset:sales.orders", "since": "999999"}, "since"),
    ],
)
def test_an_invalid_member_is_named(by_session, sent_numbers, body, field):
    assert [
        error["field"] for error in problem(by_session("ada").post("/evidence", body), 400)["errors"]
    ] == [field]
    assert not sent_numbers


def test_a_period_that_ends_before_it_starts_is_a_conflict(by_session, sent_numbers):
    body = {"entity": "dataset:sales.orders", "since": str(current_revision()), "until": "1"}
    assert "ends before it starts" in problem(by_session("ada").post("/evidence", body), 409)["detail"]
