"""Accounts and tokens above their request rate get 429 with Retry-After."""

import mmap
import stat
import subprocess
import sys
import time

import pytest

from authzconsole.common import rate_limits
from authzconsole.common.problems import Problem
from authzconsole.common.rate_limits import SLOTS, BucketTable
from tests.support.changes import add_user, bearer

QUESTION = {
    "subject": {"type": "user", "id": "service"},
    "action": {"name": "get"},
    "resource": {"type": "namespace", "id": "sales"},
}
NO_LIMITS = dict.fromkeys(
    ("requests_per_account", "requests_per_token", "decisions_per_account", "decisions_per_token")
)


@pytest.fixture
def limit(settings, monkeypatch):
    """Set limits, and start with full buckets."""
    table = BucketTable(mmap.mmap(-1, SLOTS * 16))
    monkeypatch.setattr(rate_limits, "_table", lambda: table)

    def set_limits(**limits):
        settings.RATE_LIMITS = NO_LIMITS | limits

    return set_limits


def token_of(owner, *scopes):
    return bearer(owner, *(scopes or ["decide", "read"]))


def test_decisions_above_the_limit_of_a_token_get_429(api, client, limit):
    limit(decisions_per_token=(3, 60))
    assert [api.evaluate(QUESTION).status_code for _ in range(4)] == [200, 200, 200, 429]
    answer = api.evaluate(QUESTION)
    assert answer["Content-Type"] == "application/json" and 15 <= int(answer["Retry-After"]) <= 21
    assert answer.json().startswith("this token may send 3 requests for decisions in 60 seconds: wait ")
    assert answer["RateLimit-Policy"] == '"token-decisions";q=3;w=60'
    # another token of the same account
    assert api.post("/access/v1/evaluation", QUESTION, **token_of("service")).status_code == 200


def test_all_tokens_of_an_account_share_its_limit(api, limit):
    limit(decisions_per_account=(4, 3_600))
    tokens = [token_of("service") for _ in range(3)]
    statuses = [
        api.post("/access/v1/evaluation", QUESTION, **headers).status_code
        for headers in tokens
        for _ in range(2)
    ]
    assert statuses == [200, 200, 200, 200, 429, 429]
    add_user("another", is_principal=False, is_service=True)
    assert api.post("/access/v1/evaluation", QUESTION, **token_of("another")).status_code == 200


def test_rest_requests_above_the_limit_get_a_problem(client, service, limit):
    limit(requests_per_token=(2, 60))
    headers = token_of("service")
    assert [client.get("/api/v1/policies", headers=headers).status_code for _ in range(3)] == [200, 200, 429]
    answer = client.get("/api/v1/policies", headers=headers)
    assert answer["Content-Type"] == "application/problem+json" and int(answer["Retry-After"]) > 20
    assert answer.json()["type"] == "urn:authzconsole:problem:too-many-requests"
    # decisions have limits of their own
    assert (
        client.post(
            "/api/v1/decisions", QUESTION, content_type="application/json", headers=headers
        ).status_code
        == 200
    )


def test_the_attack_requests_with_the_wrong_scope_are_limited(api, client, limit):
    limit(requests_per_account=(2, 60), decisions_per_token=(2, 60))
    headers = token_of("service", "decide")
    assert [client.get("/api/v1/policies", headers=headers).status_code for _ in range(4)] == [
        403,
        403,
        429,
        429,
    ]
    headers = token_of("service", "read")
    assert [api.post("/access/v1/evaluation", QUESTION, **headers).status_code for _ in range(4)] == [
        403,
        403,
        429,
        429,
    ]


def test_sessions_have_the_limit_of_their_account(client, service, limit):
    limit(requests_per_account=(2, 60), decisions_per_account=(1, 60))
    client.force_login(service)
    assert [client.get("/api/v1/policies").status_code for _ in range(3)] == [200, 200, 429]
    question = QUESTION | {"subject": {"type": "user", "id": "service"}}
    statuses = [
        client.post(path, question, content_type="application/json").status_code
        for path in ("/access/v1/evaluation", "/api/v1/decisions", "/access/v1/evaluation")
    ]
    assert statuses == [200, 429, 429]
    # pages are not limited
    assert client.get("/my-access").status_code == 200


def test_a_refused_token_is_not_counted(api, client, limit, secret):
    limit(decisions_per_token=(2, 60))
    headers = {"Authorization": f"Bearer {secret}"}
    assert [client.get("/api/v1/policies", headers=headers).status_code for _ in range(3)] == [403, 403, 403]
    assert api.evaluate(QUESTION).status_code == 200


def test_the_default_limits_permit_ten_thousand_decisions_per_minute(settings):
    for name in ("decisions_per_account", "decisions_per_token"):
        count, seconds = settings.RATE_LIMITS[name]
        assert count / seconds >= 10_000 / 60


def test_a_bucket_fills_again(monkeypatch):
    table, now = BucketTable(mmap.mmap(-1, SLOTS * 16)), 1_000.0
    monkeypatch.setattr(rate_limits.time, "monotonic", lambda: now)
    assert [table.take(7, 2, 10) for _ in range(3)] == [0, 0, 5]
    now += 4.9
    assert table.take(7, 2, 10) > 0
    now += 0.1
    assert [table.take(7, 2, 10) == 0 for _ in range(2)] == [True, False]
    # the clock starts again with the machine
    now = 3.0
    assert table.take(7, 2, 10) == 0


def test_many_keys_have_buckets_of_their_own():
    table = BucketTable(mmap.mmap(-1, SLOTS * 16))
    keys = [number << 60 | identifier for number in (1, 2, 3, 4) for identifier in range(2_000)]
    assert not any(table.take(key, 1, 3_600) for key in keys)
    assert all(table.take(key, 1, 3_600) for key in keys)


def test_processes_share_the_buckets(tmp_path):
    program = f"""
import sys
from pathlib import Path
from authzconsole.common.rate_limits import SLOTS, BucketTable, _shared_memory
table = BucketTable(_shared_memory(Path({str(tmp_path / "rates")!r}), SLOTS * 16))
print(sum(table.take(5, 100, 3_600) == 0 for _ in range(70)))
"""
    counts = [
        int(
            subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        )
        for _ in range(2)
    ]
    assert counts == [70, 30]
    assert stat.S_IMODE((tmp_path / "rates").stat().st_mode) == 0o600


def test_a_process_counts_alone_if_the_file_cannot_be_used(settings, tmp_path, caplog):
    settings.STATE_DIR = tmp_path / "missing"
    rate_limits._table.cache_clear()
    try:
        assert rate_limits._table().take(1, 1, 60) == 0
        assert "this process counts requests alone" in caplog.text
    finally:
        rate_limits._table.cache_clear()


def test_counting_a_request_takes_microseconds():
    start, count = time.process_time(), 20_000
    for _ in range(count):
        rate_limits.check_request_rate(1 << 40, token_number=1 << 40, is_decision=True)
    assert (time.process_time() - start) / count < 50e-6


def batch(count, moments=(None,)):
    contexts = [{"as_of": moment} if moment else {} for moment in moments]
    return QUESTION | {
        "evaluations": [{"context": contexts[index % len(contexts)]} for index in range(count)]
    }


def test_the_attack_a_batch_counts_its_questions_and_revisions(api, client, limit):
    for number in range(3):
        add_user(f"user-{number}")
    limit(decisions_per_token=(250, 3_600))
    # one for the request and 100 for its questions
    assert [api.evaluate_all(batch(1_000)).status_code for _ in range(3)] == [200, 200, 429]
    limit(decisions_per_token=(250, 3_600))
    headers = token_of("service")
    statuses = [
        api.post("/access/v1/evaluations", batch(2, (1, revision)), **headers).status_code
        for revision in (2, 3)
    ]
    assert statuses == [200, 429]
    # a request that costs more than the limit waits for a full bucket, and is not refused for ever
    limit(decisions_per_token=(50, 3_600))
    assert api.post("/access/v1/evaluations", batch(1), **token_of("service")).status_code == 200


@pytest.mark.parametrize("path", ["evaluations", "decisions"])
def test_the_attack_an_account_that_asks_about_itself_names_few_revisions(client, limit, service, path):
    add_user("alice")
    for number in range(10):
        add_user(f"user-{number}")
    limit()
    headers = token_of("alice", "self")
    body = {**QUESTION, "subject": {"type": "user", "id": "alice"}}
    url = "/access/v1/evaluations" if path == "evaluations" else "/api/v1/decisions"
    statuses = {}
    for count in (4, 8):
        items = [{"context": {"as_of": revision}} for revision in range(1, count + 1)]
        answer = client.post(
            url, body | {"evaluations": items}, content_type="application/json", headers=headers
        )
        statuses[count] = answer.status_code
    assert statuses == {4: 200, 8: 400}


def test_the_attack_requests_about_the_past_do_not_take_all_threads(service, limit):
    """One account has one such request at a time, and all accounts together a part of the threads."""
    limit()
    with rate_limits.past_request(1, is_limited=True):
        with pytest.raises(Problem) as refused, rate_limits.past_request(1, is_limited=True):
            pass
        assert refused.value.status == 429 and refused.value.headers["Retry-After"] == "1"
        with rate_limits.past_request(2, is_limited=True):
            with pytest.raises(Problem) as refused, rate_limits.past_request(3, is_limited=False):
                pass
            assert refused.value.status == 503
        with rate_limits.past_request(3, is_limited=False):
            pass
    assert not rate_limits._past_requests
    with rate_limits.past_request(1, is_limited=False), rate_limits.past_request(1, is_limited=False):
        pass


def test_a_busy_past_is_answered_with_a_time_to_repeat(api, client, limit):
    limit()
    body = QUESTION | {"context": {"as_of": 1}}
    with rate_limits.past_request(1, is_limited=False), rate_limits.past_request(2, is_limited=False):
        answer = api.evaluate(body)
        assert answer.status_code == 503 and answer["Retry-After"] == "1"
        assert api.search("action", body).status_code == 503
        # other requests are not affected
        assert api.evaluate(QUESTION).status_code == 200
    assert api.evaluate(body).status_code == 200
