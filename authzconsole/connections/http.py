"""Requests to a platform with an HTTP API that answers with JSON. Every fault is a ConnectionFault that says what to
check.
"""

import json
import re
import socket
import time
from collections.abc import Mapping
from http.client import HTTPResponse, RemoteDisconnected
from io import BufferedReader, BytesIO, RawIOBase
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import HTTPBasicAuth
from urllib3.connection import HTTPConnection, HTTPSConnection

from authzconsole.connections.peers import check_peer
from authzconsole.connections.platform import ConnectionFault, Platform
from entities.vocabulary import clip

MAX_CONNECTIONS = 8
CONNECT_SECONDS, READ_SECONDS = 10, 60
# before each repetition of a read that failed for a moment
PAUSES_SECONDS = (0.5, 1, 2, 4)
MOMENTARY_STATUSES = (429, 502, 503, 504)
# of one answer, after decompression
MAX_ANSWER_BYTES, MAX_ANSWER_SECONDS = 256 * 1024 * 1024, 600
BYTES_PER_READ = 1024 * 1024


class Forbidden(ConnectionFault):
    """The account may not do this."""


class _LimitExceeded(Exception):
    """An answer takes too long, or is too long."""


class _TimedReader(RawIOBase):
    """What a server sends, for MAX_ANSWER_SECONDS: headers, content, and what is between its parts."""

    def __init__(self, sent: BufferedReader):
        self._sent = sent
        self._end = time.monotonic() + MAX_ANSWER_SECONDS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        count = self._sent.raw.readinto(buffer)
        if time.monotonic() > self._end:
            raise _LimitExceeded
        return count

    def close(self) -> None:
        self._sent.close()
        super().close()


class _TimedResponse(HTTPResponse):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.fp = BufferedReader(_TimedReader(self.fp))


class _CheckedHttp(HTTPConnection):
    response_class = _TimedResponse

    def _new_conn(self) -> socket.socket:
        return _platform_socket(self.host, super()._new_conn())


class _CheckedHttps(HTTPSConnection):
    response_class = _TimedResponse

    def _new_conn(self) -> socket.socket:
        return _platform_socket(self.host, super()._new_conn())


def _platform_socket(host: str, connected: socket.socket) -> socket.socket:
    """Return a new connection. Close it and raise ConnectionFault if the other end cannot be a platform."""
    try:
        check_peer(host, connected)
    except ConnectionFault:
        connected.close()
        raise
    return connected


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _CheckedHttp


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _CheckedHttps


class _PlatformAdapter(HTTPAdapter):
    def init_poolmanager(self, *args, **kwargs) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}


class HttpPlatform(Platform):
    """A connection to a server. product: its name in messages.

    url: without a slash at the end. verify: the option of this name, `yes`, `no` or the path of a file with certificates.
    """

    product: ClassVar[str]

    def __init__(self, url: str, options: Mapping[str, str]):
        self.url = url
        verify = options.get("verify", "yes")
        self.verify: bool | str = {"yes": True, "no": False}.get(verify, verify)
        self.headers = {"Accept": "application/json"}
        self.auth: HTTPBasicAuth | None = None

    def __enter__(self) -> Self:
        self._session = requests.Session()
        # neither proxies nor passwords of the environment
        self._session.trust_env = False
        self._session.headers.update(self.headers)
        self._session.auth = self.auth
        self._session.verify = self.verify
        if not self.verify:
            # the option says so, and each request would repeat it
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        # for every address: the session requests a normal form, which can begin otherwise than the address
        adapter = _PlatformAdapter(pool_maxsize=MAX_CONNECTIONS)
        for prefix in ("http://", "https://"):
            self._session.mount(prefix, adapter)
        return self

    def __exit__(self, *error) -> None:
        self._session.close()

    def json(self, path: str) -> Any:
        return self.checked_json(self.get(path))

    def get(self, path: str) -> requests.Response:
        return self.request("GET", path, pauses=PAUSES_SECONDS)

    def request(
        self, method: str, path: str, body: Any = None, *, pauses: tuple[float, ...] = ()
    ) -> requests.Response:
        """Return the answer. Raise ConnectionFault if it does not arrive. pauses: before repetitions of a request that
        failed for a moment.
        """
        url = f"{self.url}/{path}"
        for pause in (*pauses, None):
            try:
                response = self._session.request(
                    method,
                    url,
                    json=body,
                    timeout=(CONNECT_SECONDS, READ_SECONDS),
                    allow_redirects=False,
                    stream=True,
                )
                _read(response)
                if response.status_code not in MOMENTARY_STATUSES or pause is None:
                    return response
            except requests.exceptions.SSLError as error:
                # the words of OpenSSL and of urllib3 about another host
                advice = (
                    "in the address, write a name that the certificate has"
                    if re.search("mismatch|doesn't match", str(error))
                    else "set the option `verify` to a file with the certificate of its authority"
                )
                raise ConnectionFault(
                    f"{url} has a certificate that is not trusted: {clip(error, 300)}; {advice}"
                ) from error
            except _LimitExceeded:
                raise ConnectionFault(
                    f"{url} answers with more than {MAX_ANSWER_BYTES // 2**20:,} MB, or for more than "
                    f"{MAX_ANSWER_SECONDS:,} seconds: check whether it is the platform"
                ) from None
            except (
                requests.ConnectionError,
                requests.Timeout,
                requests.exceptions.ChunkedEncodingError,
                urllib3.exceptions.HTTPError,
            ) as error:
                if pause is None:
                    raise ConnectionFault(f"{url} does not answer: {_reason(error)}") from error
            except (requests.RequestException, OSError) as error:
                raise ConnectionFault(f"{url} cannot be read: {clip(error, 300)}") from error
            time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def checked_json(self, response: requests.Response) -> Any:
        """Return the content of an answer. Raise ConnectionFault, with its text, unless it is what the platform answers."""
        self.check(response)
        try:
            return json.loads(response.content)
        except (ValueError, RecursionError):
            raise self.unknown_answer(response.url, self.text(response)) from None

    def check(self, response: requests.Response) -> None:
        """Raise ConnectionFault, with the text of the answer, if it is an error or leads elsewhere."""
        status, url, secret = response.status_code, response.url, self.secret_name
        if 300 <= status < 400:
            place = clip(response.headers.get("Location", "another address"), 200)
            raise ConnectionFault(
                f"{url} redirects to {place}, which may be a page to sign in: check the address and the {secret}"
            )
        if status == 401:
            raise ConnectionFault(
                f"{url} does not accept the {secret}: {self.text(response)}; store a new {secret}"
            )
        if status == 403:
            raise Forbidden(f"{url} is refused to this account: {self.text(response)}")
        if status == 404:
            raise ConnectionFault(
                f"{url} does not exist: check the address and its prefix, and try again if it was deleted "
                f"in the meantime"
            )
        if not 200 <= status < 300:
            raise ConnectionFault(f"{url} failed with {status}: {self.text(response)}")

    def unknown_answer(self, url: str, text: str = "") -> ConnectionFault:
        return ConnectionFault(
            f"{url} does not answer as {self.product} does{f', but: {text}' if text else ''}; check the address and its "
            f"prefix"
        )

    def text(self, response: requests.Response) -> str:
        """Return the text of an error."""
        return clip(" ".join(response.text.split()), 200) or response.reason or "without a reason"


def _reason(error: BaseException) -> str:
    """Return why a request failed. That of the operating system, such as `Connection refused`, is in the chain of causes."""
    if isinstance(error, requests.ConnectTimeout):
        return f"no connection within {CONNECT_SECONDS} seconds (timed out)"
    if isinstance(error, requests.Timeout) or "timed out" in str(error):
        return f"nothing arrived for {READ_SECONDS} seconds (timed out)"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, RemoteDisconnected):
            return "the connection ended without an answer"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return clip(error, 300)


def _read(response: requests.Response) -> None:
    """Read the content of an answer. Raise _LimitExceeded above the limits: the other end may send without an end."""
    content = bytearray()
    while part := response.raw.read1(BYTES_PER_READ, decode_content=True):
        content += part
        if len(content) > MAX_ANSWER_BYTES:
            response.close()
            raise _LimitExceeded
    response.raw = BytesIO(content)
    # otherwise, `text` compares the content with all encodings
    response.encoding = response.encoding or "utf-8"


def base_url(url: str, product: str) -> str:
    """Return the address without a slash at the end. Raise ConnectionFault if it is not that of a server."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or parts.username is not None
        or parts.query
        or parts.fragment
    ):
        raise ConnectionFault(
            f"`{clip(url)}` is not the address of {product}: write https://HOST:PORT, and its prefix if there is one",
            field="url",
        )
    return url.rstrip("/")
