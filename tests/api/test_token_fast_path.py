"""The shorter way for who shows a token answers as the console does, and leaves everything else to it."""

import contextlib
import io
import json

import pytest
from django.db import OperationalError, connection, connections

from authzconsole.api.urls import VIEWS
from authzconsole.wsgi import application, console

# as a server has it: a request begins with no transaction open
pytestmark = pytest.mark.django_db(transaction=True)

QUESTION = {"subject": {"type": "user", "id": "alice"}, "action": {"name": "read"},
            "resource": {"type": "dataset", "id": "sales.orders"}}
HEADERS = {"Content-Type", "Cache-Control", "X-Content-Type-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy",
           "X-Request-ID", "Content-Length"}


def call(wsgi, path, *, token="", body=QUESTION, method="POST", host="testserver", **headers):
    raw = json.dumps(body).encode()
    told = {}
    environ = {
        "REQUEST_METHOD": method, "PATH_INFO": path, "SCRIPT_NAME": "", "QUERY_STRING": "", "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(raw)), "HTTP_HOST": host, "SERVER_NAME": "testserver", "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(raw), "wsgi.errors": io.StringIO(),
        "REMOTE_ADDR": "127.0.0.1", "HTTP_X_REQUEST_ID": "r-1", **headers,
    }
    if token:
        environ["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    answer = wsgi(environ, lambda status, given: told.update(status=int(status.split()[0]), headers=dict(given)))
    content = b"".join(answer)
    return told["status"], told["headers"], content


@pytest.mark.parametrize("path", [f"/{path}" for path in VIEWS])
@pytest.mark.parametrize("shown", ["good", "wrong"])
def test_the_lane_and_the_console_answer_alike(secret, path, shown):
    body = QUESTION | {"evaluations": [{}, {"action": {"name": "write"}}]} if path.endswith("s") else QUESTION
    token = secret if shown == "good" else "wrong"
    lane, whole = (call(wsgi, path, token=token, body=body) for wsgi in (application, console))
    assert (lane[0], json.loads(lane[2])) == (whole[0], json.loads(whole[2]))
    assert {name: lane[1].get(name) for name in HEADERS} == {name: whole[1].get(name) for name in HEADERS}
    assert lane[1].get("WWW-Authenticate") == whole[1].get("WWW-Authenticate")


def test_what_is_refused_before_a_view_is_refused_in_the_lane_too(secret):
    assert call(application, "/access/v1/evaluation", token=secret, host="elsewhere.example")[0] == 400
    assert call(application, "/access/v1/evaluation", token=secret, method="GET")[0] == 405
    assert call(application, "/access/v1/evaluation", token=secret, body=[])[0] == 400


def test_https_is_demanded_in_the_lane_where_it_is_demanded_at_all(secret, settings):
    from authzconsole.api.token_fast_path import TokenFastPath

    settings.SECURE_SSL_REDIRECT = True
    assert call(TokenFastPath(console), "/access/v1/evaluation", token=secret)[0] == 301


def test_what_shows_no_token_or_is_no_decision_is_the_consoles(secret):
    assert call(application, "/access/v1/evaluation")[0] == 401
    status, headers, _ = call(application, "/healthz", token=secret, method="GET")
    assert status == 200 and "Content-Security-Policy" in headers


def test_a_connection_that_the_database_ended_is_opened_again_without_a_word(secret):
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no connection to lose")
    assert call(application, "/access/v1/evaluation", token=secret)[0] == 200
    another = connections["default"].copy()
    with contextlib.closing(another), another.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])
    with pytest.raises(OperationalError), connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    assert call(application, "/access/v1/evaluation", token=secret)[0] == 200
