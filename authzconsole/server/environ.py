"""Convert an ASGI scope into a WSGI environ."""

import ipaddress
import sys
from collections.abc import Sequence
from functools import lru_cache
from io import BytesIO
from urllib.parse import unquote_to_bytes

CHUNKED = -1
# set if the request came through a proxy, trusted or not
IS_FORWARDED = "authzconsole.is_forwarded"
_WITHOUT_PREFIX = {"CONTENT_TYPE": "CONTENT_TYPE", "CONTENT_LENGTH": "CONTENT_LENGTH"}
_FORWARDED = frozenset({"HTTP_FORWARDED", "HTTP_X_REAL_IP"})
# the server has removed the chunk framing and answered the expectation
_HOP_BY_HOP = frozenset({"HTTP_TRANSFER_ENCODING", "HTTP_EXPECT"})
_CONSTANTS = {
    "GATEWAY_INTERFACE": "CGI/1.1",
    "SCRIPT_NAME": "",
    "SERVER_SOFTWARE": "granian",
    "wsgi.errors": sys.stderr,
    "wsgi.input_terminated": True,
    "wsgi.multiprocess": True,
    "wsgi.multithread": True,
    "wsgi.run_once": False,
    "wsgi.version": (1, 0),
}


class TrustedProxies:
    """The networks of the trusted proxies. `X-Forwarded-*` headers from other addresses are dropped."""

    def __init__(self, networks: Sequence[str]):
        self._networks = [ipaddress.ip_network(network) for network in networks]
        self.contains = lru_cache(1_000)(self._contains)

    def _contains(self, address: str) -> bool:
        try:
            host = ipaddress.ip_address(address)
        except ValueError:
            return False
        host = getattr(host, "ipv4_mapped", None) or host
        return any(host in network for network in self._networks)


def build_environ(scope: dict, proxies: TrustedProxies) -> dict:
    """Return the environ of a request with an empty body.

    Headers with `_` in their name are dropped, because they would overwrite those with `-`. X-Forwarded-* and
    related headers are dropped unless a trusted proxy sent them.
    """
    client, server, raw_path = scope["client"], scope["server"], scope["raw_path"]
    is_from_proxy = proxies.contains(client[0])
    environ = {
        **_CONSTANTS,
        "REQUEST_METHOD": scope["method"],
        "PATH_INFO": (unquote_to_bytes(raw_path) if b"%" in raw_path else raw_path).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_PROTOCOL": "HTTP/1.0" if scope["http_version"] == "1" else f"HTTP/{scope['http_version']}",
        "SERVER_NAME": server[0],
        "SERVER_PORT": server[1],
        "REMOTE_ADDR": client[0],
        "REMOTE_PORT": client[1],
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": BytesIO(),
    }
    for raw_name, raw_value in scope["headers"]:
        name, is_forwarded = _environ_name(raw_name)
        if is_forwarded:
            environ[IS_FORWARDED] = True
        if not name or is_forwarded and not is_from_proxy:
            continue
        value = raw_value.decode("latin-1")
        if name in environ:
            value = f"{environ[name]}{';' if name == 'HTTP_COOKIE' else ','}{value}"
        environ[name] = value
    return environ


def body_length(scope: dict, environ: dict) -> int:
    """Return the announced length of the body, or CHUNKED."""
    if any(name == b"transfer-encoding" for name, _ in scope["headers"]):
        environ.pop("CONTENT_LENGTH", None)
        return CHUNKED
    length = environ.get("CONTENT_LENGTH", "")
    return int(length) if length.isascii() and length.isdigit() else 0


@lru_cache(1_000)
def _environ_name(raw_name: bytes) -> tuple[str, bool]:
    """Return the name of a header in the environ, empty if it is dropped, and whether only proxies may send
    it.
    """
    if b"_" in raw_name:
        return "", False
    name = raw_name.decode("latin-1").upper().replace("-", "_")
    name = _WITHOUT_PREFIX.get(name, f"HTTP_{name}")
    if name in _HOP_BY_HOP:
        return "", False
    return name, name in _FORWARDED or name.startswith("HTTP_X_FORWARDED_")
