"""The nginx configuration in deploy/nginx/, with an nginx in front of the installed console."""

import http.client
import re
import subprocess
import time
from contextlib import ExitStack, closing
from http.cookies import SimpleCookie
from urllib.parse import urlencode

import pytest

from authzconsole.ops import machine
from tests.deploy.conftest import nginx_configuration
from tests.support.web_server import web_server

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def proxy(start_proxy, installed_console):
    return start_proxy(installed_console.port)


def head(method, path, *headers, length=None):
    lines = [f"{method} {path} HTTP/1.1", "Host: console.example", "Connection: close", *headers]
    lines += [] if length is None else [f"Content-Length: {length}"]
    return "\r\n".join([*lines, "", ""]).encode()


def status_and_headers(answer):
    lines = answer.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    return int(lines[0].split()[1]), [tuple(line.split(": ", 1)) for line in lines[1:]]


def test_plain_http_is_redirected_and_never_reaches_the_console(proxy):
    with closing(http.client.HTTPConnection("127.0.0.1", proxy.http_port, timeout=10)) as connection:
        for method, path in (
            ("GET", "/sign-in?next=/ask"),
            ("POST", "/sign-in"),
            ("GET", "/healthz"),
            ("GET", "/api/v1/docs"),
        ):
            connection.request(method, path, headers={"Host": "console.example"})
            response = connection.getresponse()
            response.read()
            assert (response.status, response.headers["Location"]) == (301, f"https://console.example{path}")


@pytest.mark.parametrize("path", ["/access/v1/evaluation", "/api/v1/grants?entity=x", "/scim/v2/Users"])
def test_plain_http_of_a_program_is_refused_without_a_redirect(proxy, path):
    with closing(http.client.HTTPConnection("127.0.0.1", proxy.http_port, timeout=10)) as connection:
        connection.request(
            "POST", path, headers={"Host": "console.example", "Authorization": "Bearer azc_secret"}
        )
        response = connection.getresponse()
        assert (response.status, response.read()) == (
            403,
            b"Use https.\n",
        ) and "Location" not in response.headers


def test_answers_have_one_hsts_header_and_no_version(proxy):
    # from Django, from the fast path of tokens, and from nginx
    for path, expected in (("/sign-in", 200), ("/access/v1/evaluation", 405), ("/metrics", 404)):
        status, headers = status_and_headers(proxy.request(head("GET", path)))
        assert status == expected, path
        hsts = [value for name, value in headers if name.lower() == "strict-transport-security"]
        assert hsts == ["max-age=31536000; includeSubDomains; preload"], path
        assert dict(headers)["Server"] == "nginx"


def test_a_user_signs_in_through_the_proxy_with_cookies_of_this_host(proxy, installed_console):
    cookies = SimpleCookie()

    def send(method, path, body=b""):
        cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in cookies.items())
        answer = proxy.request(
            head(
                method,
                path,
                f"Cookie: {cookie}",
                "Content-Type: application/x-www-form-urlencoded",
                "Origin: https://console.example",
                length=len(body),
            )
            + body
        )
        status, headers = status_and_headers(answer)
        for name, value in headers:
            if name.lower() == "set-cookie":
                cookies.load(value)
        return status, answer.decode("latin-1")

    page = send("GET", "/sign-in")[1]
    form_token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)[1]
    fields = {"username": "admin", "password": installed_console.password, "csrfmiddlewaretoken": form_token}
    assert send("POST", "/sign-in", urlencode(fields).encode())[0] == 302
    assert set(cookies) == {"__Host-sessionid", "__Host-csrftoken"}
    for morsel in cookies.values():
        assert morsel["secure"] and morsel["path"] == "/" and not morsel["domain"]
    assert send("GET", "/")[0] == 303
    status, page = send("GET", "/password")
    assert status == 200 and "admin, your password was set for you" in page


def test_a_host_that_is_not_allowed_is_refused(proxy):
    answer = proxy.request(head("GET", "/sign-in").replace(b"console.example", b"localhost"))
    assert status_and_headers(answer)[0] == 400


def test_clients_cannot_forge_their_address_or_the_host(start_proxy, tmp_path):
    with web_server(
        tmp_path, target="tests.server.application:environ_application", PUBLIC_URL="https://console.example"
    ) as server:
        forged = [
            f"{name}: forged.example"
            for name in (
                "X-Forwarded-For",
                "X-Forwarded-Proto",
                "X-Forwarded-Host",
                "X-Forwarded-Port",
                "X-Real-IP",
                "Forwarded",
                "X_Forwarded_For",
            )
        ]
        answer = start_proxy(server.port).request(head("GET", "/anything", *forged)).decode()
    assert "forged.example" not in answer
    assert "HTTP_X_FORWARDED_FOR=127.0.0.1" in answer and "HTTP_X_FORWARDED_PROTO=https" in answer
    assert "HTTP_HOST=console.example" in answer


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(proxy):
    for path, length in (("/sign-in", 64 * 1024 + 1), ("/plans/import", 32 * 1024 * 1024 + 1)):
        with proxy.connect() as connection:
            connection.sendall(head("POST", path, length=length))
            assert connection.recv(1_000).startswith(b"HTTP/1.1 413")


def test_slow_bodies_wait_in_nginx_and_time_out(proxy):
    with ExitStack() as cleanup:
        slow = [cleanup.enter_context(proxy.connect()) for _ in range(60)]
        for connection in slow:
            connection.sendall(
                head("POST", "/sign-in", "Cookie: __Host-csrftoken=" + "a" * 32, length=1_000) + b"c"
            )
        start = time.monotonic()
        assert status_and_headers(proxy.request(head("GET", "/healthz")))[0] == 200
        assert time.monotonic() - start < 1
        # nginx closes the connection 2 seconds (10 in production) after the last byte
        answer = slow[0].recv(1_000)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 408")
        assert time.monotonic() - start < 6


def test_too_many_connections_of_one_address_are_refused(proxy):
    with ExitStack() as cleanup:
        for _ in range(100):
            connection = cleanup.enter_context(proxy.connect())
            connection.sendall(head("POST", "/sign-in", length=1_000) + b"c")
        assert status_and_headers(proxy.request(head("GET", "/healthz")))[0] == 429


def test_the_configuration_for_a_machine_with_systemd_is_valid(tmp_path, certificates):
    nginx_configuration(tmp_path, certificates, 8000, 8080, 8443)
    site = (tmp_path / "site.conf").read_text().replace("[::]:", "127.0.0.2:")
    main = f"pid {tmp_path}/pid; events {{}} http {{ {site} }}"
    (tmp_path / "main.conf").write_text(main)
    command = [machine.NGINX.find(), "-t", "-c", tmp_path / "main.conf", "-e", "stderr"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "syntax is ok" in done.stderr, done.stderr
