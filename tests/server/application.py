"""WSGI applications that the tests run in the server of the console."""

import tempfile
import time

from django.conf import settings

import authzconsole.server_worker  # noqa: F401 -- loads the applications of Django
from authzconsole.server.application import ConsoleServer
from authzconsole.server.requests import BodyLimits, TrustedProxies

MEGABYTE = b"x" * (1 << 20)


def _console_server(application):
    return ConsoleServer(
        application,
        limits=BodyLimits(),
        proxies=TrustedProxies(settings.TRUSTED_PROXIES),
        folder=settings.STATE_DIR / "tmp",
    )


def _show_environ(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [
        "\n".join(f"{name}={value}" for name, value in environ.items() if isinstance(value, str)).encode()
    ]


def _send_long_responses(environ, start_response):
    path, megabytes = environ["PATH_INFO"], int(environ["QUERY_STRING"] or 0)
    start_response("200 OK", [("Content-Type", "text/plain")])
    if path == "/file":
        file = tempfile.TemporaryFile()
        file.write(MEGABYTE * megabytes)
        file.seek(0)
        return environ["wsgi.file_wrapper"](file)
    return _Generated(megabytes, fails=path == "/fails", delay=0.05 if path == "/slow" else 0)


class _Generated:
    """A response of many megabytes, which logs its end."""

    def __init__(self, megabytes, fails, delay):
        self.megabytes, self.fails, self.delay, self.count = megabytes, fails, delay, 0

    def __iter__(self):
        for _ in range(self.megabytes):
            time.sleep(self.delay)
            yield MEGABYTE
            self.count += 1
        if self.fails:
            raise RuntimeError("this response fails")

    def close(self):
        print(f"closed after {self.count} of {self.megabytes}", flush=True)


def _keep_a_thread_busy(environ, start_response):
    if environ["PATH_INFO"] == "/busy":
        time.sleep(2)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"done"]


environ_application = _console_server(_show_environ)
long_application = _console_server(_send_long_responses)
busy_application = _console_server(_keep_a_thread_busy)
