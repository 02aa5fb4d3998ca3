"""The address on which the console listens, from HOST and PORT."""

import errno
import http.client
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from . import Refusal


@dataclass(frozen=True)
class ListenAddress:
    """The host and port on which the console listens, and its public URL."""

    host: str
    port: int
    url: str

    @property
    def bind(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def reachable_host(self) -> str:
        """The host for requests from this machine: the loopback address if the server listens on every
        address.
        """
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)


def listen_address(environment: Mapping[str, str] = os.environ) -> ListenAddress:
    port = environment.get("PORT") or "8000"
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise Refusal(f"PORT is {port!r}; it must be a number from 1 to 65535, as in: PORT=8123 make run")
    url = environment.get("PUBLIC_URL") or f"http://127.0.0.1:{int(port)}"
    return ListenAddress(environment.get("HOST") or "127.0.0.1", int(port), url.rstrip("/"))


def check_port(address: ListenAddress) -> None:
    """Raise Refusal if this process cannot listen there."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
        except OSError as error:
            raise Refusal(_bind_problem(address, error)) from None


def _bind_problem(address: ListenAddress, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        free_port_hint = address.port + 1 if address.port < 65535 else 8000
        return (
            f"Port {address.port} of {address.host} is in use by another program. "
            f"Stop that one, or choose another port: PORT={free_port_hint} make run"
        )
    if error.errno == errno.EACCES:
        return f"Only root may listen on port {address.port}. Choose one above 1023: PORT=8000 make run"
    return f"Cannot listen on {address.bind}: {error.strerror or error}. HOST must be an address of this machine."


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def health_status(address: ListenAddress) -> int | None:
    """Return the HTTP status of `/healthz`; None if there is no answer."""
    connection = http.client.HTTPConnection(address.reachable_host, address.port, timeout=10)
    try:
        # behind a proxy with TLS, the console only answers to its public host name
        connection.request("GET", "/healthz", headers={"Host": urlsplit(address.url).netloc or address.bind})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
