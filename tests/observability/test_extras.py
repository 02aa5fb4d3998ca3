"""Traces and error reports arrive at real HTTP servers, and contain neither names nor secrets."""

import builtins
import gzip
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.core.exceptions import ImproperlyConfigured
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from authzconsole.apps import start_extras
from authzconsole.common.monitoring.reports import reduced_event
from authzconsole.ops import ROOT

# a process of its own, because both extras change their whole process
SCRIPT = """
import django; django.setup()
from types import SimpleNamespace
from django.test import Client
from authzconsole.celery import bind_task, unbind_task
from authzconsole.common.monitoring import reports
from authzconsole.web.accounts.sign_in import SignIn
import sentry_sdk

def fail(self, request, *args, **kwargs):
    secret_variable = request.POST["password"]
    raise RuntimeError("a message about SECRETNAME and " + secret_variable)

SignIn.post = fail
client = Client(raise_request_exception=False, SERVER_NAME="127.0.0.1")
client.post("/sign-in?next=/people/user:SECRETNAME", {"username": "SECRETNAME", "password": "SECRETPASSWORD"},
            headers={"Authorization": "Bearer azc_SECRETTOKEN", "Cookie": "other=SECRETCOOKIE"})
client.get("/healthz", headers={"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
task = SimpleNamespace(name="a.task", request=SimpleNamespace())
bind_task("1", task); unbind_task(task)
reports.provider.force_flush(); sentry_sdk.flush(5)
"""


@pytest.fixture
def collector():
    """A local HTTP server; `requests` are the paths and bodies that it received."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            length = self.headers.get("Content-Length")
            body = self.rfile.read(int(length)) if length else b""
            body = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            self.server.requests.append((self.path, body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.requests = []
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()


def test_traces_and_error_reports_arrive_without_personal_data(collector):
    address = f"127.0.0.1:{collector.server_port}"
    environment = os.environ | {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "SENTRY_DSN": f"http://key@{address}/7",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{address}",
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    spans = [
        span
        for path, body in collector.requests
        if path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert [span.name for span in spans] == ["POST /sign-in", "GET /healthz", "task a.task"]
    assert spans[1].trace_id.hex() == "0af7651916cd43dd8448eb211c80319c" and spans[0].status.code == 2
    keys = {attribute.key for span in spans for attribute in span.attributes}
    assert keys == {
        "http.request.method",
        "http.route",
        "http.response.status_code",
        "authzconsole.request_id",
    }
    reports = [
        body.decode()
        for path, body in collector.requests
        if path == "/api/7/envelope/" and b"RuntimeError" in body
    ]
    assert (
        len(reports) == 1
        and '"request_id"' in reports[0]
        and '"function":"fail"' in reports[0].replace(" ", "")
    )
    for _, body in collector.requests:
        assert b"SECRET" not in body and b"azc_" not in body


def test_an_error_report_keeps_only_what_is_allowed():
    event = {
        "event_id": "1",
        "user": {"id": 1},
        "request": {"url": "/people/user:x"},
        "extra": {"sys.argv": ["x"]},
        "server_name": "host",
        "logentry": {"message": "x"},
        "breadcrumbs": {"values": [1]},
        "contexts": {"x": 1, "trace": 2},
        "exception": {
            "values": [
                {
                    "type": "E",
                    "value": "about alice",
                    "stacktrace": {"frames": [{"function": "f", "vars": {"a": 1}, "pre_context": ["x"]}]},
                }
            ]
        },
    }
    assert reduced_event(event, None) == {
        "event_id": "1",
        "contexts": {"trace": 2},
        "tags": {},
        "exception": {
            "values": [{"type": "E", "module": None, "stacktrace": {"frames": [{"function": "f"}]}}]
        },
    }


@pytest.mark.parametrize(
    ("setting", "package", "extra"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "opentelemetry", "opentelemetry"),
        ("SENTRY_DSN", "sentry_sdk", "sentry"),
    ],
)
def test_a_missing_package_stops_the_start_with_a_clear_message(
    setting, package, extra, settings, monkeypatch
):
    setattr(settings, setting, "http://127.0.0.1:1")
    real_import = builtins.__import__

    def import_without_extra(name, *args, **kwargs):
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", import_without_extra)
    with pytest.raises(ImproperlyConfigured, match=f"{setting} is set.*extra `{extra}`"):
        start_extras()
