"""Findings over REST: read, filter, accept, open again, assign, and rules."""

import json
import os
import subprocess

import pytest
from django.conf import settings
from django.utils import timezone

from authzconsole.common.tokens import create_token
from authzconsole.findings.refresh import refresh_findings
from authzconsole.models import Finding
from tests.analytics.test_worked_examples import SECTIONS, SHELLS, code
from tests.support.authors import COMMAND
from tests.support.cast import create_sample_tenant

UNTIL = "2127-03-01T00:00:00Z"


@pytest.fixture
def number(cast) -> int:
    refresh_findings()
    return Finding.objects.get(kind="no-backup").pk


def test_findings_are_listed_and_filtered(by_session, number):
    items = by_session("aud").get("/findings?severity=warning").json()["items"]
    assert {item["kind"] for item in items} == {"no-backup", "leftover-grants"}
    (item,) = (
        by_session("aud").get("/findings?namespace=sales&kind=leftover-grants&state=open").json()["items"]
    )
    assert (item["subject"], item["figure"], item["state"], item["owner"]) == (
        "namespace:sales",
        1,
        "open",
        None,
    )
    assert by_session("aud").get("/findings?kind=nothing").status_code == 400
    read = by_session("aud").get(f"/findings/{number}").json()
    assert [event["what"] for event in read["history"]] == ["opened"]


def test_a_finding_is_accepted_opened_again_and_assigned(ada, number):
    path = f"/findings/{number}"
    answer = ada.post(f"{path}/accept", {"until": UNTIL, "reason": "new console"})
    assert answer.status_code == 200, answer.content
    accepted = answer.json()
    assert (accepted["state"], accepted["accepted_until"], accepted["accepted_by"]) == (
        "accepted",
        UNTIL,
        "ada",
    )
    assert ada.post(f"{path}/reopen", {}).json()["state"] == "open"
    assert ada.post(f"{path}/assign", {"owner": "aud"}).json()["owner"] == "aud"
    assert ada.post(f"{path}/assign", {"owner": None}).json()["owner"] is None
    assert ada.post(f"{path}/assign", {"owner": "ned"}).status_code == 400


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"until": "2020-01-01T00:00:00Z", "reason": "known"}, "until"),
        ({"until": UNTIL, "reason": ""}, "reason"),
        ({"until": UNTIL}, "reason"),
        ({"until": "tomorrow", "reason": "known"}, "until"),
    ],
)
def test_a_wrong_acceptance_names_the_member_at_fault(ada, number, body, field):
    answer = ada.post(f"/findings/{number}/accept", body)
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_a_finding_that_was_resolved_meanwhile_conflicts(ada, number):
    Finding.objects.filter(pk=number).update(resolved_at=timezone.now())
    assert ada.post(f"/findings/{number}/accept", {"until": UNTIL, "reason": "x"}).status_code == 409


def test_rules_are_added_listed_and_ended(ada, by_session, number):
    body = {"kind": "no-backup", "pattern": "*", "until": UNTIL, "reason": "no backups in tests"}
    answer = ada.post("/finding-rules", body)
    assert answer.status_code == 201 and "/finding-rules/" in answer.headers["Location"]
    rule = answer.json()["number"]
    assert ada.get(f"/findings/{number}").json()["rule"] == rule
    assert [item["pattern"] for item in by_session("aud").get("/finding-rules").json()["items"]] == ["*"]
    assert ada.post("/finding-rules", body | {"pattern": "**"}).status_code == 400, "it overlaps"
    assert ada.post("/finding-rules", body | {"kind": "x"}).status_code == 400
    assert ada.delete(f"/finding-rules/{rule}").status_code == 200
    assert ada.get(f"/findings/{number}").json()["state"] == "open"
    assert ada.delete(f"/finding-rules/{rule}").status_code == 404


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("language", ["bash", "python"])
def test_the_example_of_the_guide_accepts_a_finding(language, live_server, tmp_path):
    create_sample_tenant()
    refresh_findings()
    guide = (settings.BASE_DIR / "docs/guides/findings.md").read_text().replace("2027-", "2127-")
    token = create_token(author=COMMAND, owner="ada", name="x", scopes=["read", "administer"], days=1).secret
    begin = "\n".join(line for line in code(SECTIONS[0], language).splitlines() if "export " not in line)
    done = subprocess.run(
        [*SHELLS[language], f"{begin}\n{code(guide, language)}"],
        env=os.environ | {"API": f"{live_server.url}/api/v1", "TOKEN": token},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout.strip().splitlines()[-1])["state"] == "accepted", done.stderr
