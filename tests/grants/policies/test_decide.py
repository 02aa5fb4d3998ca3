"""Test `manage.py decide`: it writes one answer for each line of requests, in the same order, also for
invalid lines.
"""

import io
import json
import os
import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command

from authzconsole.ops import ROOT
from tests.support.random_tenants import random_tenant, store_tenant
from tests.support.workers import database_url

pytestmark = pytest.mark.django_db


def request(subject="user 0", kind="namespace", key="ns0", operation="list", **context):
    return {
        "subject": {"type": "user", "id": subject},
        "action": {"name": operation},
        "resource": {"type": kind, "id": key},
        "context": context,
    }


def decide(lines, tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_bytes(
        b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)
    )
    output = io.StringIO()
    call_command("decide", str(path), stdout=output)
    return [json.loads(line) for line in output.getvalue().splitlines()]


@pytest.fixture
def tenant():
    stored = random_tenant(2)
    stored.users["user 0"] = (True, True)
    store_tenant(stored)
    return stored


def test_answers_are_in_the_order_of_the_requests(tenant, tmp_path):
    answers = decide(
        [request(generation="core"), request(subject="nobody"), request(generation="core")], tmp_path
    )
    assert [answer["decision"] for answer in answers] == [True, False, True]
    assert answers[0] == {"decision": True}
    assert answers[1]["context"] == {"reason": "user:nobody is not a known, active principal"}


def test_a_subject_that_is_written_with_its_type_is_explained(tenant, tmp_path):
    (answer,) = decide([request(subject="user:user 0")], tmp_path)
    assert answer["context"]["reason"] == (
        "user:user:user 0 is not a known, active principal: the id of a subject is written without `user:`"
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "the line is not JSON"),
        (b"", "the line is not JSON"),
        (b"\xff{}", "the line is not UTF-8: byte 1"),
        (b"[1]", "the request must be a JSON object"),
        (b"{}", "`subject` is missing"),
        (b"[" * 100_000, "the line is nested too deeply"),
        (b'{"subject":"' + b"x" * 1_000_001 + b'"}', "the line is longer than 1,000,000 bytes"),
        (
            json.dumps(request(kind="dataset", key="no-dot")).encode(),
            "`resource.id`: `dataset:no-dot` lacks a part",
        ),
    ],
)
def test_the_answer_to_a_bad_line_is_an_error(tenant, tmp_path, line, message):
    before, bad, after = decide([request(generation="core"), line, request(generation="core")], tmp_path)
    assert before == after == {"decision": True}
    assert bad["error"].startswith(message)
    assert bad.get("decision", False) is False


def test_unknown_names_are_denied_with_a_reason_and_without_an_error(tenant, tmp_path):
    for unknown_request in (request(kind="spaceship"), request(operation="fly"), request(subject="nobody")):
        (answer,) = decide([unknown_request], tmp_path)
        assert answer["decision"] is False and answer["context"]["reason"] and "error" not in answer


def test_an_answer_has_an_explanation_only_on_request(tenant, tmp_path):
    plain, explained = decide(
        [request(operation="delete"), request(operation="delete", explain=True)], tmp_path
    )
    assert plain == {"decision": explained["decision"]}
    assert explained["context"]["sentence"] and explained["context"]["source"]["seed"] == "002"


def test_a_batch_takes_a_constant_number_of_queries(tenant, tmp_path, django_assert_num_queries):
    decide([request()], tmp_path)
    with django_assert_num_queries(1 + 3):
        assert len(decide([request()] * 2_500, tmp_path)) == 2_500


def test_requests_are_read_from_standard_input(tenant, monkeypatch, capsys):
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(request(generation="core")).encode()))
    )
    call_command("decide", "-")
    assert json.loads(capsys.readouterr().out) == {"decision": True}


def test_the_error_for_a_missing_file_has_its_path(tmp_path):
    with pytest.raises(CommandError, match="nothing.jsonl cannot be read: No such file or directory"):
        call_command("decide", str(tmp_path / "nothing.jsonl"))


@pytest.mark.django_db(transaction=True)
def test_the_command_ends_silently_when_its_reader_closes_the_pipe(tmp_path):
    questions = tmp_path / "questions.jsonl"
    questions.write_text((json.dumps(request()) + "\n") * 20_000)
    environment = os.environ | {"DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "tests.settings"}
    with subprocess.Popen(
        [sys.executable, "manage.py", "decide", questions],
        cwd=ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert "decision" in process.stdout.readline()
        process.stdout.close()
        assert (process.stderr.read(), process.wait(60)) == ("", 0)
