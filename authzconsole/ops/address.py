"""Where the console listens, asked of HOST and PORT."""

import errno
import http.client
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from . import Refusal


@dataclass(frozen=True)
class Listening:
    host: str
    port: int
    url: str

    @property
    def bind(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def reachable_host(self) -> str:
        """A server on every address of the machine answers on the loopback one."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)


def listening(environment: Mapping[str, str] = os.environ) -> Listening:
    said = environment.get("PORT") or "8000"
    if not (said.isascii() and said.isdigit() and 1 <= int(said) <= 65535):
        raise Refusal(f"PORT is {said!r}; it must be a number from 1 to 65535, as in: PORT=8123 make run")
    url = environment.get("PUBLIC_URL") or f"http://127.0.0.1:{int(said)}"
    return Listening(environment.get("HOST") or "127.0.0.1", int(said), url.rstrip("/"))


def port_check(where: Listening) -> None:
    """Raises Refusal unless this process could listen there now."""
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((where.host, where.port))
        except OSError as error:
            raise Refusal(_sentence(where, error)) from None


def _sentence(where: Listening, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        other = where.port + 1 if where.port < 65535 else 8000
        return (f"Port {where.port} of {where.host} is in use by another program. "
                f"Stop that one, or choose another port: PORT={other} make run")
    if error.errno == errno.EACCES:
        return f"Only root may listen on port {where.port}. Choose one above 1023: PORT=8000 make run"
    return f"Cannot listen on {where.bind}: {error.strerror or error}. HOST must be an address of this machine."


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answer_status(where: Listening) -> int | None:
    """The HTTP status of the console's sign of life; None while nobody answers."""
    connection = http.client.HTTPConnection(where.reachable_host, where.port, timeout=10)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
