"""Send security events to a syslog server in the format of RFC 5424, over UDP, TCP or a Unix socket."""

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from authzconsole.common.security_events.kinds import FAILURES
from authzconsole.models import SecurityEvent

TIMEOUT_SECONDS = 5
AUTHPRIV, WARNING, NOTICE = 10, 4, 5
APP_NAME = "authzconsole"
# the example number of RFC 5612, because this product has no enterprise number
STRUCTURED_DATA_ID = "authzconsole@32473"
DATA_MEMBERS = ("kind", "account", "address", "target", "request_id", "token", "count")


def syslog_message(event: SecurityEvent, text: str) -> bytes:
    """Return the message of an event: header, structured data and text."""
    priority = AUTHPRIV * 8 + (WARNING if event.kind in FAILURES else NOTICE)
    at = event.at.isoformat(timespec="microseconds").replace("+00:00", "Z")
    header = f"<{priority}>1 {at} {socket.gethostname()[:255] or '-'} {APP_NAME} {os.getpid()} {event.kind}"
    values = {"id": event.pk, **{name: getattr(event, name) for name in DATA_MEMBERS}}
    data = " ".join(
        f'{name}="{_escape(str(value))}"' for name, value in values.items() if value not in ("", None)
    )
    return f"{header} [{STRUCTURED_DATA_ID} {data}] \N{BYTE ORDER MARK}{text}".encode()


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("]", "\\]")


def send_to_syslog(target: str, messages: Iterable[bytes]) -> None:
    """Send the messages. target: `udp:HOST:PORT`, `tcp:HOST:PORT` or `unix:/PATH`.

    Raise OSError on failure.
    """
    with _connection(target) as send:
        for message in messages:
            send(message)


@contextmanager
def _connection(target: str) -> Iterator[Callable[[bytes], object]]:
    protocol, _, address = target.partition(":")
    if protocol == "unix":
        with _unix_socket(address) as unix:
            yield unix.sendall
        return
    host, _, port = address.rpartition(":")
    if protocol == "tcp":
        with socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_SECONDS) as stream:
            # octet counting (RFC 6587), because a message can contain line feeds
            yield lambda message: stream.sendall(f"{len(message)} ".encode() + message)
        return
    family, type_, protocol_number, _, destination = socket.getaddrinfo(
        host.strip("[]"), int(port), type=socket.SOCK_DGRAM
    )[0]
    with socket.socket(family, type_, protocol_number) as datagrams:
        datagrams.settimeout(TIMEOUT_SECONDS)
        # connected, so that a closed port is reported by the next message
        datagrams.connect(destination)
        yield datagrams.send


@contextmanager
def _unix_socket(path: str) -> Iterator[socket.socket]:
    """Connect to the datagram socket of a syslog daemon."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as unix:
        unix.settimeout(TIMEOUT_SECONDS)
        unix.connect(path)
        yield unix
