"""The token fast path returns the same responses as the full application and passes other requests on."""

import contextlib
import io
import json

import pytest
from django.db import OperationalError, connection, connections

from authzconsole.api.urls import VIEWS
from authzconsole.wsgi import application, console
from tests.support.authors import account

# as in production: no transaction is open when a request starts
pytestmark = pytest.mark.django_db(transaction=True)

QUESTION = {
    "subject": {"type": "user", "id": "alice"},
    "action": {"name": "read"},
    "resource": {"type": "dataset", "id": "sales.orders"},
}
HEADERS = {
    "Content-Type",
    "Cache-Control",
    "X-Content-Type-Options",
    "Referrer-Policy",
    "Cross-Origin-Opener-Policy",
    "X-Request-ID",
    "Content-Length",
}


def call(wsgi, path, *, token="", body=QUESTION, method="POST", host="testserver", **headers):
    raw = json.dumps(body).encode()
    response = {}
    environ = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "SCRIPT_NAME": "",
        "QUERY_STRING": "",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(raw)),
        "HTTP_HOST": host,
        "SERVER_NAME": "testserver",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(raw),
        "wsgi.errors": io.StringIO(),
        "REMOTE_ADDR": "127.0.0.1",
        "HTTP_X_REQUEST_ID": "r-1",
        **headers,
    }
    if token:
        environ["HTTP_AUTHORIZATION"] = f"Bearer {token}"

    def start_response(status, response_headers):
        response.update(status=int(status.split()[0]), headers=dict(response_headers))

    answer = wsgi(environ, start_response)
    content = b"".join(answer)
    return response["status"], response["headers"], content


@pytest.mark.parametrize("path", [f"/{path}" for path in VIEWS])
@pytest.mark.parametrize("kind_of_token", ["good", "wrong"])
def test_the_fast_path_and_the_full_application_return_the_same_response(secret, path, kind_of_token):
    body = QUESTION | {"evaluations": [{}, {"action": {"name": "write"}}]} if path.endswith("s") else QUESTION
    token = secret if kind_of_token == "good" else "wrong"
    fast, full = (call(wsgi, path, token=token, body=body) for wsgi in (application, console))
    assert (fast[0], json.loads(fast[2])) == (full[0], json.loads(full[2]))
    assert {name: fast[1].get(name) for name in HEADERS} == {name: full[1].get(name) for name in HEADERS}
    assert fast[1].get("WWW-Authenticate") == full[1].get("WWW-Authenticate")


def test_the_fast_path_refuses_bad_hosts_methods_and_bodies(secret):
    assert call(application, "/access/v1/evaluation", token=secret, host="elsewhere.example")[0] == 400
    assert call(application, "/access/v1/evaluation", token=secret, method="GET")[0] == 405
    assert call(application, "/access/v1/evaluation", token=secret, body=[])[0] == 400


def test_the_fast_path_redirects_to_https_if_the_setting_requires_it(secret, settings):
    from authzconsole.api.token_fast_path import TokenFastPath

    settings.SECURE_SSL_REDIRECT = True
    assert call(TokenFastPath(console), "/access/v1/evaluation", token=secret)[0] == 301


def test_requests_without_a_token_and_other_paths_use_the_full_application(secret):
    assert call(application, "/access/v1/evaluation")[0] == 401
    status, headers, _ = call(application, "/healthz", token=secret, method="GET")
    assert status == 200 and "Content-Security-Policy" in headers


def test_a_decision_is_prepared_after_a_page_on_the_same_connection(secret, client, people):
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no prepare threshold")
    client.force_login(account("alice"))
    assert client.get("/").status_code == 200
    assert connection.connection.prepare_threshold is None
    assert call(application, "/access/v1/evaluation", token=secret)[0] == 200
    assert (
        connection.connection.prepare_threshold
        == connection.settings_dict["OPTIONS"]["prepare_threshold"]
        > 0
    )


def test_a_database_connection_that_was_terminated_is_reopened(secret):
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has no connection to lose")
    assert call(application, "/access/v1/evaluation", token=secret)[0] == 200
    another = connections["default"].copy()
    with contextlib.closing(another), another.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])
    with pytest.raises(OperationalError), connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    assert call(application, "/access/v1/evaluation", token=secret)[0] == 200
