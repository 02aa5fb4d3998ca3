"""Every log line carries the id of its request, or the task and the run that it belongs to."""

import io
import json
import logging
import logging.config
import re
from types import SimpleNamespace

import pytest
import structlog
from django.test import Client, RequestFactory

from authzconsole.api.token_fast_path import TokenFastPath
from authzconsole.celery import add_request_to_message, bind_task, unbind_task
from authzconsole.common.tokens import create_token
from authzconsole.logs import RoutineTaskFilter, logging_configuration
from grants import tasks
from tests.support.cast import SETUP, create_sample_users


def formatter_of(log_format):
    options = dict(logging_configuration("INFO", log_format)["formatters"]["structlog"])
    del options["()"]
    return structlog.stdlib.ProcessorFormatter(**options)


@pytest.fixture
def log_lines():
    """Log as JSON into memory; the fixture returns the entries so far."""
    stream, before = io.StringIO(), logging.getLogger().handlers[:]
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter_of("json"))
    root = logging.getLogger()
    level, root.level = root.level, logging.INFO
    root.handlers = [handler]
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.handlers, root.level = before, level


@pytest.mark.django_db
def test_every_line_of_a_request_carries_the_id_that_the_error_page_shows(log_lines, monkeypatch):
    def fail(*arguments, **options):
        logging.getLogger("a.package").warning("about to fail")
        raise RuntimeError("the disk is on fire")

    monkeypatch.setattr("django.contrib.auth.views.LoginView.get_context_data", fail)
    answer = Client(raise_request_exception=False).get("/sign-in")
    assert answer.status_code == 500
    displayed_id = re.search(r"<code>(\w+)</code>", answer.content.decode())[1]
    assert displayed_id == answer["X-Request-ID"]
    entries = log_lines()
    assert [entry["event"] for entry in entries] == [
        "about to fail",
        "Internal Server Error: /sign-in",
        "answered",
    ]
    assert {entry["request_id"] for entry in entries} == {displayed_id}
    assert "the disk is on fire" in entries[1]["exception"]
    assert (entries[2]["method"], entries[2]["path"], entries[2]["status"]) == ("GET", "/sign-in", 500)


@pytest.mark.django_db
def test_each_request_has_a_different_id(log_lines):
    answers = [Client().get("/healthz") for _ in range(2)]
    assert [entry["request_id"] for entry in log_lines()] == [answer["X-Request-ID"] for answer in answers]
    assert answers[0]["X-Request-ID"] != answers[1]["X-Request-ID"]
    assert "request_id" not in structlog.contextvars.get_contextvars()


@pytest.mark.django_db
def test_a_line_break_in_an_address_forges_no_log_line(log_lines):
    answer = Client().get("/nothing%0a%0d[info] forged")
    answered, not_found = log_lines()
    assert "\n" not in not_found["event"] and answered["path"] == "/nothing\n\r[info] forged"
    # Django logs an error status after the last middleware
    assert answered["request_id"] == not_found["request_id"] == answer["X-Request-ID"]


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize(
    "forged",
    [
        "\0",
        "\x1b[2J",
        "\x7f",
        "\x85",
        "\xad",
        "\u061c",
        "\u200b",
        "\u2028",
        "\u202e",
        "\u2066",
        "\ufeff",
        "\r\n",
        "\U000e0041",
    ],
)
def test_the_attack_unprintable_characters_do_not_reach_the_log(log_format, forged):
    formatter = formatter_of(log_format)
    try:
        raise ValueError(f"a{forged.strip()}b")
    except ValueError as error:
        arguments = (f"/e{forged}", None, (ValueError, error, error.__traceback__))
        record = logging.LogRecord(
            f"logger{forged}", logging.INFO, "", 0, "not found: %s", arguments[:1], arguments[2]
        )
    record.path, record.user = f"/a{forged}", f"a b{forged}"
    line = formatter.format(record)
    first_line, _, rest = line.partition("\n")
    assert first_line.isprintable() and rest.replace("\n", "").isprintable()
    first = (forged if forged != "\r\n" else "\r")[0]
    escaped = json.dumps(first)[1:-1] if log_format == "json" else ascii(first)[1:-1]
    assert first_line.count(escaped) == 4 + (log_format == "json" and bool(forged.strip()))


def test_printable_values_are_logged_as_they_are():
    formatter = formatter_of("text")
    record = logging.LogRecord("logger", logging.INFO, "", 0, "zo\xeb: \u96ea", (), None)
    record.path, record.number = "/zo\xeb/\u96ea", 7
    assert (
        formatter.format(record).partition("] ")[2] == "zo\xeb: \u96ea [logger] number=7 path=/zo\xeb/\u96ea"
    )


@pytest.mark.django_db(transaction=True)
def test_the_token_fast_path_logs_with_the_id_too(log_lines):
    headers = {"Authorization": "Bearer wrong", "X-Request-ID": "mine"}
    environ = RequestFactory().post("/access/v1/evaluation", {}, "application/json", headers=headers).environ
    list(TokenFastPath(None)(environ, lambda status, headers: None))
    (entry,) = log_lines()
    assert (entry["event"], entry["status"], entry["caller_request_id"]) == ("answered", 401, "mine")
    assert len(entry["request_id"]) == 32
    assert not {"request_id", "caller_request_id"} & structlog.contextvars.get_contextvars().keys()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("sent", "is_echoed"),
    [
        ("mine", True),
        ("x" * 500, True),
        ("caf\xe9", True),
        ("\xe2\x80\x93", True),
        ("a\tb", True),
        ("a\x01b", False),
    ],
)
def test_the_id_of_the_caller_does_not_replace_the_id_of_the_console(log_lines, sent, is_echoed):
    answer = Client().get("/nothing", headers={"X-Request-ID": sent})
    assert (answer["X-Request-ID"] == sent) == is_echoed
    own_ids = {entry["request_id"] for entry in log_lines()}
    assert len(own_ids) == 1 and sent not in own_ids
    assert "request_id" not in structlog.contextvars.get_contextvars()


@pytest.mark.django_db
def test_lines_carry_the_account_and_the_token_of_the_request(log_lines, rf):
    cast = create_sample_users()
    issued = create_token(author=SETUP, owner="ada", name="t", scopes=["decide", "read"], days=1)
    headers = {"Authorization": f"Bearer {issued.secret}"}
    request = rf.post("/access/v1/evaluation", {}, "application/json", headers=headers)
    TokenFastPath(None)(request.environ, lambda status, headers: None)
    Client().get("/api/v1/users", headers=headers)
    client = Client()
    client.force_login(cast["ada"])
    client.get("/api/v1/users")
    client.get("/journal/")
    client.post("/people/see-as", {"user": "ned"})
    client.get("/policies/")
    Client().get("/healthz")
    lines = [
        (line["path"], line.get("account"), line.get("token"), line.get("seen_as"))
        for line in log_lines()
        if line["event"] == "answered"
    ]
    number = issued.token.pk
    assert lines == [
        ("/access/v1/evaluation", "ada", number, None),
        ("/api/v1/users", "ada", number, None),
        ("/api/v1/users", "ada", None, None),
        ("/journal/", "ada", None, None),
        ("/people/see-as", "ada", None, None),
        ("/policies/", "ada", None, "ned"),
        ("/healthz", None, None, None),
    ]
    assert issued.secret not in str(log_lines())


def test_the_lines_of_a_task_carry_the_task_the_run_and_the_request_that_caused_it(log_lines, monkeypatch):
    monkeypatch.setattr(tasks, "run_job", lambda job_id: logging.getLogger("spark").info("working"))
    headers = {}
    with structlog.contextvars.bound_contextvars(request_id="r" * 32, account="ada", token=7):
        add_request_to_message(headers)
    bind_task("t-1", SimpleNamespace(name="grants.run_job", request=SimpleNamespace(**headers)))
    tasks.execute_job.run(9)
    unbind_task()
    logging.getLogger("spark").info("idle")
    working, idle = log_lines()
    assert (working["request_id"], working["account"], working["token"]) == ("r" * 32, "ada", 7)
    assert (working["run_id"], working["task"], working["task_id"]) == (9, "grants.run_job", "t-1")
    assert not {"request_id", "account", "token", "run_id", "task", "task_id"} & idle.keys()


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_either_format_names_the_level_the_logger_and_the_context(log_format):
    record = logging.LogRecord("celery.beat", logging.WARNING, "", 0, "late by %d s", (3,), None)
    with structlog.contextvars.bound_contextvars(request_id="r 1\n2"):
        line = formatter_of(log_format).format(record)
    assert "\n" not in line
    for part in ("late by 3 s", "warning", "celery.beat", "request_id", "r 1"):
        assert part in line


@pytest.mark.parametrize(
    ("logger", "message", "args", "is_kept"),
    [
        ("celery.beat", "Scheduler: Sending due task %s (%s)", ("jobs_sweep", "grants.sweep_jobs"), False),
        ("celery.worker.strategy", "Task %(name)s received", {"name": "grants.sweep_jobs"}, False),
        ("celery.app.trace", "Task %(name)s succeeded", {"name": "authzconsole.webhooks_dispatch"}, False),
        ("celery.app.trace", "Task %(name)s succeeded", {"name": "grants.run_job"}, True),
        ("celery.worker.strategy", "Task %(name)s received", {"name": "authzconsole.another_task"}, True),
        ("celery.beat", "beat: Starting...", (), True),
    ],
)
def test_routine_tasks_are_not_logged_at_the_default_level(logger, message, args, is_kept):
    record = logging.LogRecord(
        logger, logging.INFO, "", 0, message, (args,) if isinstance(args, dict) else args, None
    )
    assert RoutineTaskFilter().filter(record) is is_kept
    assert logging_configuration("INFO", "text")["loggers"][logger]["filters"] == ["routine"]
    record.levelno = logging.ERROR
    assert RoutineTaskFilter().filter(record)
