"""Send one HTTP request to an endpoint that an administrator entered, without reaching internal systems.

INVARIANT: the host name is resolved once, every address is checked, and the connection goes to a checked
address. A DNS answer that changes later therefore has no effect. Redirects are not followed, and proxies of
the environment are not used.
"""

import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from django.conf import settings

MAX_URL_CHARACTERS = 500
# The special-purpose registries of IANA, and the networks of IPv6 addresses that contain an IPv4 address, because
# that address can be internal. They are listed because `is_global` follows the registries of the release of Python.
_BLOCKED_NETWORKS = [
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by carriers
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, also the metadata of cloud providers
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
        "::/8",  # unspecified, loopback, IPv4-compatible and -translated, and NAT64
        "100::/16",  # discard-only and dummy prefixes
        "2001::/23",  # protocol assignments with Teredo and ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
        "5f00::/16",  # segment identifiers of SRv6
        "fc00::/7",  # unique local
        "fe80::/10",  # link-local
        "fec0::/10",  # site-local
        "ff00::/8",  # multicast
    )
]


class WebhookFailed(Exception):
    """The endpoint did not accept the event; the message says why."""


def url_fault(url: str) -> str:
    """Return why a URL cannot be an endpoint; an empty string if it can.

    Its address is checked for each connection.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "the URL is malformed"
    schemes = ("https", "http") if settings.WEBHOOK_ALLOW_HTTP else ("https",)
    if parts.scheme not in schemes or not parts.hostname:
        return f"the URL must start with {' or '.join(f'{scheme}://' for scheme in schemes)} and a host name"
    if parts.username is not None or parts.password is not None or parts.fragment:
        return "the URL must not contain a user name, a password or a fragment"
    if len(url) > MAX_URL_CHARACTERS or not url.isascii() or any(character <= " " for character in url):
        return (
            f"the URL must have at most {MAX_URL_CHARACTERS} characters, all of them ASCII and without spaces"
        )
    return ""


def post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Send a POST request. Raise WebhookFailed unless the answer is 2xx within WEBHOOK_TIMEOUT_SECONDS."""
    if fault := url_fault(url):
        raise WebhookFailed(fault)
    parts = urlsplit(url)
    connection = _connection(parts.scheme, parts.hostname or "", parts.port)
    # a socket has a time limit for each operation; an endpoint that sends a byte now and then must end too
    timer = threading.Timer(settings.WEBHOOK_TIMEOUT_SECONDS, _abort, [connection])
    timer.daemon = True
    timer.start()
    try:
        path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        connection.request("POST", path, body, {**headers, "Connection": "close"})
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise WebhookFailed(_reason(error)) from None
    finally:
        timer.cancel()
        connection.close()
    if not 200 <= status < 300:
        note = "; redirects are not followed" if 300 <= status < 400 else ""
        raise WebhookFailed(f"the endpoint answered {status}{note}")


def _reason(error: Exception) -> str:
    if isinstance(
        error,
        TimeoutError
        | ConnectionResetError
        | BrokenPipeError
        | http.client.IncompleteRead
        | http.client.BadStatusLine,
    ):
        return f"the endpoint did not answer within {settings.WEBHOOK_TIMEOUT_SECONDS:g} seconds, or closed the connection"
    if isinstance(error, ssl.SSLError):
        return f"the TLS connection failed: {error.reason or type(error).__name__}"
    return f"the endpoint cannot be reached: {getattr(error, 'strerror', None) or type(error).__name__}"


def _abort(connection: http.client.HTTPConnection) -> None:
    with suppress(OSError):
        if connection.sock is not None:
            connection.sock.shutdown(socket.SHUT_RDWR)


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    timeout = settings.WEBHOOK_TIMEOUT_SECONDS
    address = _checked_address(host, port or (443 if scheme == "https" else 80))
    connection: http.client.HTTPConnection
    if scheme == "https":
        connection = http.client.HTTPSConnection(
            host, port, timeout=timeout, context=ssl.create_default_context()
        )
    else:
        connection = http.client.HTTPConnection(host, port, timeout=timeout)
    # the certificate and the Host header belong to the name, the connection goes to the checked address
    connection._create_connection = lambda _, *args, **kwargs: socket.create_connection(address, timeout)  # type: ignore
    return connection


def _checked_address(host: str, port: int) -> tuple[str, int]:
    """Resolve the host and return its first address.

    Raise WebhookFailed if any of its addresses is not public.
    """
    try:
        resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise WebhookFailed("the host name cannot be resolved") from None
    addresses = [str(socket_address[0]) for *_, socket_address in resolved]
    if not addresses or not all(map(_is_allowed, addresses)):
        raise WebhookFailed("the host has an address that is not public (see WEBHOOK_ALLOWED_NETWORKS)")
    return addresses[0], port


def _is_allowed(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    if any(address in ipaddress.ip_network(network) for network in settings.WEBHOOK_ALLOWED_NETWORKS):
        return True
    return (
        address.is_global
        and not address.is_multicast
        and not any(address in network for network in _BLOCKED_NETWORKS)
    )
