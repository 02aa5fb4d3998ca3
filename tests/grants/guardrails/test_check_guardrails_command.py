"""`check_guardrails` prints violations as text, JSON and SARIF, for the console, a plan and a document."""

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from grants.journal import current_revision
from grants.validity import Validity
from tests.support.authors import database_state
from tests.support.changes import (
    add_grant,
    add_group,
    add_member,
    create_plan_from_changes,
    register_entity,
)
from tests.support.guardrails import FORBID, add_exception, add_guardrail
from tests.support.tenant_documents import document, export_bytes, grant

pytestmark = pytest.mark.django_db

ORDERS = "dataset:sales.orders"
LINE = {"type": "guardrail", "name": "no-writers", **FORBID}


def check(capsys, *arguments: str) -> tuple[int, str]:
    """Return the exit code and the output; check that nothing was changed."""
    before = database_state(), export_bytes()
    code = 0
    try:
        call_command("check_guardrails", *arguments)
    except SystemExit as end:
        code = end.code
    except CommandError as error:
        return error.returncode, str(error)
    finally:
        assert (database_state(), export_bytes()) == before
    return code, capsys.readouterr().out


def test_the_exit_code_says_whether_all_guardrails_hold(cast, capsys):
    assert check(capsys) == (0, "0 guardrails checked: all hold\n")
    add_grant("user:dee", ORDERS, "WRITE")
    add_guardrail("no-writers", FORBID)
    assert check(capsys) == (
        1,
        "block: no-writers: user:dee holds WRITE on dataset:sales.orders\n1 guardrail checked: 1 violation\n",
    )
    add_exception("no-writers", until="2099-01-01T00:00:00Z")
    code, text = check(capsys)
    assert code == 0 and "exception until 2099-01-01T00:00:00Z" in text and "exceptions accept 1" in text


def test_json_has_the_rows_of_the_analysis(cast, capsys):
    add_grant("group:operators", ORDERS, "WRITE")
    add_guardrail("no-writers", FORBID)
    code, text = check(capsys, "--format", "json")
    assert code == 1 and json.loads(text) == {
        "violations": [
            {
                "guardrail": "no-writers",
                "principal": "user:grp",
                "entity": ORDERS,
                "privilege": "WRITE",
                "through": "group:operators",
                "level": "block",
            }
        ],
        "guardrails": 1,
        "count": 1,
        "accepted": 0,
        "holds": False,
        "no_match": {},
    }


def test_a_guardrail_that_matches_nothing_now_is_named_when_it_is_written_and_checked(cast, capsys):
    add_group("contractors")
    forbid = {"forbid": FORBID["forbid"] | {"members_of": "group:contractors"}}
    streams = {"require": {"privilege": "ADMIN", "on": "kind:stream", "at_least": 1}, "level": "warn"}
    reasons = {
        "contractors": "it matches nothing now: group:contractors has no active members",
        "streams": "it matches nothing now: there is no entity of kind:stream",
    }
    for name, rule in (("contractors", forbid), ("streams", streams)):
        assert add_guardrail(name, rule).sentence == f"guardrail {name} was added; {reasons[name]}"
    code, text = check(capsys)
    notes = "".join(f"note: {name}: {reason}\n" for name, reason in reasons.items())
    assert (code, text) == (0, f"{notes}2 guardrails checked: all hold\n")
    assert json.loads(check(capsys, "--format", "json")[1])["no_match"] == reasons
    (run,) = json.loads(check(capsys, "--format", "sarif")[1])["runs"]
    (invocation,) = run["invocations"]
    found = invocation["toolExecutionNotifications"]
    assert {note["associatedRule"]["id"]: note["message"]["text"] for note in found} == reasons
    add_member("dee", "contractors", Validity(timezone.now() + timedelta(days=1)))
    register_entity("stream:sales.clicks")
    assert "note:" not in check(capsys)[1]


def test_sarif_has_rules_results_and_suppressions(cast, capsys, tmp_path):
    add_grant("user:dee", ORDERS, "WRITE")
    file = tmp_path / "guardrails.jsonl"
    file.write_bytes(document(LINE | {"reason": "policy 4.2"}))
    code, text = check(capsys, str(file), "--format", "sarif")
    log = json.loads(text)
    (run,) = log["runs"]
    assert code == 1 and log["version"] == "2.1.0"
    assert run["tool"]["driver"]["rules"][0]["id"] == "no-writers"
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == ("no-writers", "error")
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "guardrails.jsonl"
    add_guardrail("no-writers", FORBID)
    add_exception("no-writers", until="2099-01-01T00:00:00Z")
    code, text = check(capsys, "--format", "sarif")
    assert code == 0 and json.loads(text)["runs"][0]["results"][0]["suppressions"]


def test_a_file_of_guardrails_is_checked_against_the_console(cast, capsys, tmp_path):
    add_grant("user:dee", ORDERS, "WRITE")
    add_guardrail("of-the-console", {"forbid": {"privileges": ["READ"], "within": "namespace:sales"}})
    file = tmp_path / "guardrails.jsonl"
    file.write_bytes(document(LINE))
    code, text = check(capsys, str(file))
    assert code == 1 and "no-writers" in text and "of-the-console" not in text


def test_a_tenant_document_that_is_not_imported_yet_is_checked(cast, capsys, tmp_path):
    add_guardrail("no-writers", FORBID)
    file = tmp_path / "tenant.jsonl"
    file.write_bytes(document(grant("user:dee", ORDERS, "WRITE")))
    code, text = check(capsys, str(file))
    assert code == 1 and "user:dee holds WRITE" in text
    assert check(capsys)[0] == 0


def test_the_state_after_a_plan_is_checked(cast, capsys):
    add_guardrail("no-writers", FORBID)
    plan = create_plan_from_changes(grant=[("user:dee", ORDERS, "WRITE")])
    assert check(capsys)[0] == 0
    code, text = check(capsys, "--plan", str(plan.pk))
    assert code == 1 and "user:dee holds WRITE" in text


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([{"type": "guardrail", "name": "x"}], "exactly one of"),
        ([LINE | {"name": "a b"}], "not a name of a guardrail"),
        ([LINE, LINE], "listed twice"),
        ([{**LINE, "forbid": FORBID["forbid"] | {"within": "namespace:none"}}], "matches nothing"),
        ([{**LINE, "forbid": FORBID["forbid"] | {"members_of": "group:none"}}], "does not exist"),
        (["{"], "not JSON"),
    ],
)
def test_bad_input_has_the_exit_code_2_and_names_the_line(lines, message, cast, capsys, tmp_path):
    file = tmp_path / "guardrails.jsonl"
    file.write_bytes(document(*lines))
    revision = current_revision()
    code, text = check(capsys, str(file))
    assert code == 2 and message in text and "line " in text and current_revision() == revision


def test_a_missing_file_or_plan_has_the_exit_code_2(cast, capsys):
    assert check(capsys, "none.jsonl")[0] == 2
    assert check(capsys, "--plan", "77") == (2, "there is no plan 77")
