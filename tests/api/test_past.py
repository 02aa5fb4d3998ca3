"""Decisions and searches with `context.as_of` are answered for an earlier revision, and `context.at` must be
a time.
"""

import io
import json
import re
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from entities.address import parse_address
from entities.vocabulary import Privilege
from grants.journal import current_revision
from grants.models import JournalLine, Role
from grants.validity import Validity
from tests.api.conftest import by_session, request
from tests.support.changes import activate_generation, add_grant, register_entity, revoke_grant

pytestmark = [pytest.mark.django_db]
RECORD = parse_address("dataset:lab.record-1")


@pytest.fixture
def past(account):
    """The revision before alice could read the dataset, and at which `existing` was active; it is an hour
    old.
    """
    account("alice")
    account("bob")
    for address in ("namespace:lab", "dataset:lab.record-1"):
        register_entity(address)
    activate_generation("existing")
    revision = current_revision()
    JournalLine.objects.update(at=timezone.now() - timedelta(hours=1))
    activate_generation("final")
    add_grant("user:alice", RECORD, Privilege.READ)
    return revision


def test_a_decision_is_answered_for_a_revision_or_a_time(past, api):
    hour_ago = (timezone.now() - timedelta(minutes=30)).isoformat()
    assert api.evaluate(request()).json() == {"decision": True}
    for as_of in (past, str(past), hour_ago):
        answer = api.evaluate(request(context={"as_of": as_of})).json()
        assert answer == {"decision": False, "context": {"as_of": past}}
    assert api.evaluate(request(context={"as_of": current_revision()})).json()["decision"] is True
    explained = api.evaluate(request(context={"as_of": past, "explain": True})).json()["context"]
    assert (explained["generation"], explained["as_of"]) == ("existing", past)


def test_a_batch_holds_questions_about_different_revisions(past, api):
    revisions = [None, past, current_revision(), past, 10_000, "yesterday"]
    body = request() | {
        "evaluations": [{"context": {"as_of": revision} if revision else {}} for revision in revisions]
    }
    answers = api.evaluate_all(body).json()["evaluations"]
    assert [answer["decision"] for answer in answers] == [True, False, True, False, False, False]
    assert "does not exist: the newest revision is" in answers[4]["context"]["reason"]
    assert "neither a revision" in answers[5]["context"]["reason"]
    too_many = request() | {"evaluations": [{"context": {"as_of": number}} for number in range(1, 60)]}
    assert api.evaluate_all(too_many).status_code == 400


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"as_of": 10_000}, "the newest revision is"),
        ({"as_of": "2001-01-01T00:00:00Z"}, "before the first journal line"),
        ({"as_of": "2026-05-01T12:00:00"}, "no time zone"),
        ({"as_of": 10**40}, "does not exist"),
        ({"as_of": [1]}, "must be a revision"),
        ({"as_of": "9999-01-01T00:00:00Z"}, "in the future"),
        ({"at": "2026-05-01T12:00:00"}, "`context.at`: .* no time zone"),
        ({"at": 5}, "is not a time"),
    ],
)
@pytest.mark.parametrize("path", ["evaluation", "search/resource"])
def test_an_unknown_moment_is_refused(past, api, context, message, path):

    answer = api.post(f"/access/v1/{path}", request(context=context))
    assert answer.status_code == 400 and re.search(message, answer.json())


def test_a_time_of_the_question_changes_nothing(past, api):
    assert api.evaluate(request(context={"at": "2100-01-01T00:00:00Z"})).json() == {"decision": True}


BEGIN, END = "2126-12-04T09:00:00Z", "2126-12-05T00:00:00+01:00"


@pytest.mark.parametrize(
    ("at", "is_permitted"),
    [
        ("2126-12-04T08:59:59.999Z", False),
        (BEGIN, True),
        ("2126-12-04T10:00:00+01:00", True),
        ("2126-12-04T22:59:59Z", True),
        (END, False),
        ("2126-12-04T23:00:00Z", False),
        # before the first journal line, and the last time that exists
        ("1970-01-01T00:00:00Z", False),
        ("9999-12-31T23:59:59Z", False),
    ],
)
def test_decisions_and_searches_are_about_the_time_of_the_question(past, api, account, at, is_permitted):
    add_grant("user:bob", RECORD, Privilege.READ, Validity.parse(BEGIN, END))
    body = request("bob", context={"at": at})
    assert api.evaluate(body).json() == {"decision": is_permitted}
    batch = api.evaluate_all(
        body | {"evaluations": [{}, {"context": {}}, {"context": {"at": BEGIN}}]}
    ).json()["evaluations"]
    assert [answer["decision"] for answer in batch] == [is_permitted, False, True]
    assert bool(api.search("resource", body).json()["results"]) is is_permitted
    assert ({"type": "user", "id": "bob"} in api.search("subject", body).json()["results"]) is is_permitted
    account("ada", Role.ADMINISTRATOR)
    assert by_session("ada").post("/api/v1/decisions", body).json()["decision"] is is_permitted


@pytest.mark.parametrize(
    "at", ["2126-12-04T09:00:00", "2126-12-04", "2126-02-30T00:00:00Z", "Friday", "", 5, None, [BEGIN]]
)
def test_a_text_that_is_no_time_is_refused(past, api, account, at):
    body = request(context={"at": at})
    for path in ("evaluation", "search/resource", "search/subject", "search/action"):
        answer = api.post(f"/access/v1/{path}", body)
        assert answer.status_code == 400 and "context.at" in answer.json(), path
    # in a batch, it denies its own question
    answers = api.evaluate_all(request() | {"evaluations": [{}, {"context": {"at": at}}]}).json()[
        "evaluations"
    ]
    assert [answer["decision"] for answer in answers] == [True, False]
    assert answers[1]["context"]["error"]["status"] == 400
    account("ada", Role.ADMINISTRATOR)
    assert by_session("ada").post("/api/v1/decisions", body).status_code == 400


def test_searches_are_answered_for_a_revision(past, api):
    body = request(context={"as_of": past, "generation": "final"})
    for search, now in (
        ("subject", [{"type": "user", "id": "alice"}]),
        ("resource", [{"type": "dataset", "id": "lab.record-1"}]),
    ):
        assert api.search(search, request()).json()["results"] == now
        assert api.search(search, body).json()["results"] == []
    assert {"name": "read"} in api.search("action", request()).json()["results"]
    assert {"name": "read"} not in api.search("action", body).json()["results"]


def test_an_account_can_only_ask_about_its_own_past(past, account):
    revoke_grant("user:alice", RECORD, Privilege.READ)
    held = current_revision() - 1
    session = by_session("alice")
    assert session.evaluate(request(context={"as_of": held})).json()["decision"] is True
    assert session.evaluate(request(subject="bob", context={"as_of": held})).status_code == 403
    assert (
        session.evaluate_all({"evaluations": [request(subject="bob", context={"as_of": held})]}).status_code
        == 403
    )
    assert session.search("subject", request(context={"as_of": held})).status_code == 403
    # it does not see the dataset any more, so the search does not show it
    assert session.search("resource", request(context={"as_of": held})).json()["results"] == []
    explained = session.evaluate(request(context={"as_of": past, "explain": True})).json()["context"]
    assert "state" not in explained
    add_grant("user:alice", RECORD, Privilege.READ)
    assert len(session.search("resource", request(context={"as_of": held})).json()["results"]) == 1


def test_a_history_that_is_not_ready_is_reported(past, api, monkeypatch):
    monkeypatch.setattr("grants.history.periods.MAX_LINES_PER_READ", 1)
    answer = api.evaluate(request(context={"as_of": past}))
    assert (answer.status_code, answer["Retry-After"]) == (503, "60")


def test_explained_decisions_of_rest_accept_a_revision(past, account):
    account("ada", Role.ADMINISTRATOR)
    session = by_session("ada")
    answer = session.post("/api/v1/decisions", request(context={"as_of": past})).json()
    assert answer["context"]["as_of"] == past and answer["context"]["generation"] == "existing"


def test_the_command_answers_about_the_past(past, tmp_path, monkeypatch):
    monkeypatch.setattr("grants.history.periods.MAX_LINES_PER_READ", 1)
    file, out = tmp_path / "questions", io.StringIO()
    bodies = [
        request(),
        request(context={"as_of": past}),
        request(context={"as_of": 10_000}),
        request(context={"as_of": past}),
    ]
    file.write_text("\n".join(json.dumps(body) for body in bodies))
    call_command("decide", str(file), stdout=out)
    answers = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [answer.get("decision") for answer in answers] == [True, False, None, False]
    assert "does not exist" in answers[2]["error"]
