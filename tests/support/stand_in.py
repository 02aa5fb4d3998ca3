"""Serve a stand-in for a platform with an HTTP API that cannot be installed for these tests."""

import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol, TypeVar


@dataclass
class Answer:
    """A status, a body and headers. cut: the bytes that the server sends before it closes the connection. bytes_per_second:
    of a body that it sends byte by byte. start: what it sends before the body in place of the status and the headers.
    """

    status: int = 200
    body: str | bytes = ""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    pause: float = 0
    bytes_per_second: float = 0
    start: str = ""


class StandIn(Protocol):
    """What a stand-in does: it answers each request. url: where it is served."""

    url: str

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer: ...


Server = TypeVar("Server", bound=StandIn)


def certificate(folder: Path, name: str) -> tuple[str, str]:
    """Create a certificate for a name, signed by itself, and return its file and that of its key."""
    files = str(folder / "certificate.pem"), str(folder / "key.pem")
    options = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    subject = [
        "-subj",
        "/CN=console",
        "-addext",
        f"subjectAltName={name}",
        "-out",
        files[0],
        "-keyout",
        files[1],
    ]
    subprocess.run(["openssl", "req", "-x509", *options, *subject], check=True, capture_output=True)
    return files


@contextmanager
def running(stand_in: Server, tls: tuple[str, str] | None = None, port: int = 0) -> Iterator[Server]:
    """Serve a stand-in, on a free port unless one is named. tls: the files of a certificate and its key, for HTTPS."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def answer(self):
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = stand_in.answer(self.command, self.path, dict(self.headers), sent)
            time.sleep(answer.pause)
            body = answer.body.encode() if isinstance(answer.body, str) else answer.body
            if answer.start:
                self.wfile.write(answer.start.encode())
            else:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
            for byte in body if answer.bytes_per_second else ():
                self.wfile.write(bytes([byte]))
                time.sleep(1 / answer.bytes_per_second)
            if not answer.bytes_per_second:
                self.wfile.write(body[: answer.cut])
            self.close_connection = self.close_connection or answer.cut is not None

        do_GET = do_POST = do_PUT = do_DELETE = answer

        def log_message(self, *arguments):
            pass

    class HttpServer(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, *arguments):
            # a client that ended the connection
            pass

    server = HttpServer(("127.0.0.1", port), Handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    stand_in.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
    try:
        yield stand_in
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
