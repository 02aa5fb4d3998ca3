"""CDAP: what its REST interface lists in each namespace. It shows no grants, because another system keeps them.

There is no list of everything, so that the lists of each namespace are read, several namespaces at a time. Only GET
requests are made. Sources: the handlers of cdapio/cdap (`NamespaceHttpHandler`, `AppLifecycleHttpHandler`,
`ProgramLifecycleHttpHandler`, `ArtifactHttpHandler`, `DatasetInstanceHandler`, `DatasetTypeHandler`,
`SecureStoreHandler`, `StreamHandler`, `ProfileHttpHandler`, `MonitorHandler`, and `MetadataHttpHandler` with
`MetadataEntityCodec` and `MetadataCodec`) of 4.3 to 6.11.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from operator import itemgetter
from typing import Any, Self
from urllib.parse import quote

from authzconsole.connections.http import MAX_CONNECTIONS, Forbidden, HttpPlatform, base_url
from authzconsole.connections.platform import ConnectionFault, Unsupported, address_or_fault
from entities.address import Address
from entities.vocabulary import clip

ITEMS_PER_PAGE = 1_000
# of what was created last: usually nothing since the last sync
NEWEST_PER_PAGE = 20
CREATION_TIME = "creation-time"
NEWEST = f"query=*&target=application&target=dataset&sort={CREATION_TIME}%20desc&cursorRequested=true&responseFormat=v6"
# they contain what CDAP itself needs
SYSTEM_NAMESPACES = ("system", "cdap")
PROGRAM_LISTS = ("mapreduce", "spark", "workflows", "services", "workers")
# CDAP 6 has no flows and no streams
OLD_PROGRAM_LISTS = ("flows",)
# `DummySecureStoreService` of CDAP
WITHOUT_SECURE_STORE = "Secure store is not configured"
HEADER_NAME = re.compile(r"[A-Za-z0-9-]+")
HEADER_VALUE = re.compile(r"[\x21-\x7e]+")


class CdapPlatform(HttpPlatform):
    """A connection to the router of CDAP, with a bearer token or with the header of a proxy.

    url: `https://HOST:PORT`, with the prefix of the path if there is one. options: `verify`, `yes`, `no` or the path
    of a file with certificates; `user_header` and `user`, the identity in the authentication mode PROXY; `account`,
    `full` or `limited`: with `limited`, the account sees only a part, and nothing that is absent was deleted.
    """

    option_names = ("account", "user", "user_header", "verify")
    product, secret_name = "CDAP", "token"

    def __init__(self, url: str, options: Mapping[str, str], secret: str = ""):
        super().__init__(base_url(url, self.product).removesuffix("/v3") + "/v3", options)
        self.is_limited = _choice(options, "account", ("full", "limited")) == "limited"
        if bool(options.get("user_header")) != bool(options.get("user")):
            raise ConnectionFault("`user_header` and `user` belong together: set both or neither")
        if options.get("user_header"):
            if not HEADER_NAME.fullmatch(options["user_header"]) or not HEADER_VALUE.fullmatch(
                options["user"]
            ):
                raise ConnectionFault("`user_header` or `user` cannot be sent as a header: check both")
            self.headers[options["user_header"]] = options["user"]
        if secret:
            # the error of `requests` about such a header would show it
            if not HEADER_VALUE.fullmatch(secret):
                raise ConnectionFault(
                    "the token has spaces or other characters that no token has: check it", field="token"
                )
            self.headers["Authorization"] = f"Bearer {secret}"
        self.creations: dict[str, str] = {}
        self.recreated: set[Address] = set()
        # the lists that could not be read: a namespace and a kind, or all kinds if it is empty
        self._unread: set[tuple[str, str]] = set()

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            response = self.get("version")
            # a proxy may not pass this path on; if nothing is CDAP here, the list of namespaces says so
            self.is_old = False
            if response.status_code != 404:
                self.version = str(self.checked_json(response).get("version", ""))
                self.is_old = int(self.version.partition(".")[0]) < 6
        except ConnectionFault:
            self._session.close()
            raise
        except (AttributeError, ValueError) as error:
            self._session.close()
            raise ConnectionFault(
                f"{self.url}/version does not name a version of CDAP: check the address and its prefix"
            ) from error
        return self

    def read_entities(self) -> Iterator[Address | Unsupported]:
        namespaces = [row for row in self._rows("namespaces") if _name(row) not in SYSTEM_NAMESPACES]
        executor = ThreadPoolExecutor(MAX_CONNECTIONS)
        try:
            for contents in executor.map(self._contents, namespaces):
                yield from contents
        finally:
            executor.shutdown(cancel_futures=True)
        if not self.is_old:
            yield from self._system_services()

    def is_absent(self, entity: Address) -> bool:
        # a principal exists without CDAP, which has no list of them
        if self.is_limited or entity.kind == "kerberosprincipal":
            return False
        namespace = entity.namespace.key if entity.namespace else ""
        if not self._unread.isdisjoint({(namespace, ""), (namespace, entity.kind)}):
            return False
        if entity.kind != "namespace":
            # only versions before 6 list streams and flows; it is empty if a proxy does not pass the path on
            is_old_kind = entity.kind == "stream" or entity.names.get("program", "").startswith("flow.")
            return bool(self.version) or not is_old_kind
        # a namespace that the account does not see is missing in the list
        response = self.get(f"namespaces/{quote(namespace)}")
        if response.status_code not in (403, 404):
            self.checked_json(response)
        return response.status_code == 404

    def _system_services(self) -> Iterator[Address | Unsupported]:
        """Yield the services of CDAP itself that are enabled; only why they are skipped if the account may not list them."""
        response = self.get("system/services")
        if response.status_code in (403, 404):
            self._unread.add(("", "system_service"))
            yield Unsupported("system services", f"skipped, and left as they are: {self.text(response)}")
            return
        for row in self._list(self.checked_json(response), response.url):
            yield address_or_fault("system_service", _name(row))

    def _contents(self, namespace: Any) -> list[Address | Unsupported]:
        """Return a namespace and what it contains; only why it is skipped if the account may not read it."""
        name = _name(namespace)
        address = address_or_fault("namespace", name)
        found: dict[Address | Unsupported, None] = {address: None}

        def add(kind: str, key: str) -> None:
            found[address_or_fault(kind, key)] = None

        def add_principal(row: Any) -> None:
            if isinstance(row, dict) and row.get("principal"):
                add("kerberosprincipal", str(row["principal"]))

        place = f"namespaces/{quote(name)}"
        try:
            applications = f"{place}/apps?pageSize={ITEMS_PER_PAGE}"
            for row in self._pages(
                applications, "applications", ("pageToken", "nextPageToken"), may_be_array=True
            ):
                add("application", f"{name}.{_name(row)}")
                add_principal(row)
            for list_name in PROGRAM_LISTS + (OLD_PROGRAM_LISTS if self.is_old else ()):
                for row in self._rows(f"{place}/{list_name}"):
                    application, type_ = _name(row, "app"), _name(row, "type").lower()
                    add("program", f"{name}.{application}.{type_}.{_name(row)}")
            for row in self._rows(f"{place}/artifacts?scope=user"):
                add("artifact", f"{name}.{_name(row)}")
            for row in self._rows(f"{place}/data/datasets"):
                if not _name(row).startswith("system."):
                    add("dataset", f"{name}.{_name(row)}")
            for row in self._rows(f"{place}/data/modules"):
                add("dataset_module", f"{name}.{_name(row)}")
            for row in self._rows(f"{place}/data/types"):
                add("dataset_type", f"{name}.{_name(row)}")
            if self.is_old:
                for row in self._rows(f"{place}/streams"):
                    add("stream", f"{name}.{_name(row)}")
            keys = self._secure_keys(name, place)
            for key in keys:
                add("securekey", f"{name}.{key}")
            if not self.is_old:
                for row in self._rows(f"{place}/profiles"):
                    add("profile", f"{name}.{_name(row)}")
                self._record(f"contents of {address}", self._newest(name))
                times = [(address_or_fault("securekey", f"{name}.{key}"), time) for key, time in keys.items()]
                self._record(f"secure keys of {address}", sorted(times, key=itemgetter(1), reverse=True))
        except Forbidden as error:
            self._unread.add((name, ""))
            return [Unsupported(f"namespace:{name}", f"skipped, and left as it is: {error}")]
        add_principal(namespace.get("config"))
        self._record(str(address), [(address, _time(namespace.get("generation")))])
        return list(found)

    def _record(self, what: str, times: Iterable[tuple[Address | Unsupported, int]]) -> None:
        """Record when the newest of these entities was created, and which of them were created since the last sync.

        times: the newest first. If no sync recorded a time before, the first one is enough.
        """
        before = newest = int(self.creations.get(what, 0))
        for address, time in times:
            newest = max(newest, time)
            if not before or time <= before:
                break
            if isinstance(address, Address):
                self.recreated.add(address)
        self.creations[what] = str(newest)

    def _newest(self, name: str) -> Iterator[tuple[Address | Unsupported, int]]:
        """Yield the applications and datasets of a namespace with the time of their creation, the newest first.

        CDAP keeps the time when an application is deployed again. Yield nothing if the account may not search.
        """
        path = f"namespaces/{quote(name)}/metadata/search?{NEWEST}&limit={NEWEST_PER_PAGE}"
        for row in self._pages(path, "results", ("cursor", "cursor"), ends_at=(403, 404)):
            try:
                kind, details = row["entity"]["type"], row["entity"]["details"]
                properties = row["metadata"]["properties"]
                times = [_time(each["value"]) for each in properties if each["name"] == CREATION_TIME]
                yield address_or_fault(kind, f"{details['namespace']}.{details[kind]}"), max(times, default=0)
            except (KeyError, TypeError) as error:
                raise self.unknown_answer(f"{self.url}/{path}") from error

    def _secure_keys(self, name: str, place: str) -> dict[str, int]:
        """Return the secure keys, with the time of their creation if CDAP says it. Without a secure store, which is the
        default, CDAP fails.
        """
        response = self.get(f"{place}/securekeys/")
        if response.status_code >= 500 and WITHOUT_SECURE_STORE in response.text:
            self._unread.add((name, "securekey"))
            return {}
        rows = self.checked_json(response)
        if isinstance(rows, dict):
            # CDAP 4 and 5 answer with an object by name
            return dict.fromkeys(rows, 0)
        return {_name(row): _time(row.get("createdEpochMs")) for row in self._list(rows, response.url)}

    def _pages(
        self,
        path: str,
        member: str,
        tokens: tuple[str, str],
        *,
        may_be_array: bool = False,
        ends_at: Collection[int] = (),
    ) -> Iterator[Any]:
        """Yield the items of all pages.

        path: of the first page, with a query. tokens: the parameter with the token of a page, and the member of the page
        before that has it. may_be_array: before CDAP 6.7, the list of applications has no pages. ends_at: the statuses of
        an answer after which nothing follows.
        """
        parameter, next_token = tokens
        token, seen = "", set()
        while token not in seen:
            seen.add(token)
            response = self.get(f"{path}&{parameter}={quote(token, safe='')}" if token else path)
            if response.status_code in ends_at:
                return
            answer = self.checked_json(response)
            if may_be_array and isinstance(answer, list):
                yield from answer
                return
            if not isinstance(answer, dict):
                raise self.unknown_answer(response.url)
            yield from self._list(answer.get(member), response.url)
            token = str(answer.get(next_token) or "")
            if not token:
                return
        raise ConnectionFault(f"{self.url}/{path} repeats its pages: try again")

    def _rows(self, path: str) -> list[Any]:
        return self._list(self.json(path), f"{self.url}/{path}")

    def _list(self, rows: Any, url: str) -> list[Any]:
        if not isinstance(rows, list):
            raise self.unknown_answer(url)
        return rows


def _choice(options: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    value = options.get(name, values[0])
    if value not in values:
        raise ConnectionFault(
            f"`{clip(value)}` is not a value of `{name}`: write {' or '.join(values)}", field=f"option_{name}"
        )
    return value


def _time(value: Any) -> int:
    """Return a time in milliseconds; 0 if CDAP does not say it."""
    return int(value) if str(value).isascii() and str(value).isdigit() else 0


def _name(row: Any, member: str = "name") -> str:
    if isinstance(row, dict) and isinstance(row.get(member), str):
        return row[member]
    # not the row, because CDAP 4 lists secure keys with what they protect
    raise ConnectionFault(f"CDAP lists something without `{member}`: its version may be unknown")
