"""A stand-in for the router of CDAP: a server that answers with the shapes of its versions, and with faults on request.

CDAP cannot be installed for these tests. Each shape names the class of cdapio/cdap that writes it; `co.cask` is the
package of 4.3 and 5.1, `io.cdap` that of 6.4 and 6.11.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.stand_in import Answer, running

VERSIONS = ("4.3.4", "5.1.2", "6.4.0", "6.11.1")
TOKEN = "AghhZG1pbgDI"
ONLY_OLD = ("flows", "streams")
CREATED = 1_471_718_010_326
PROGRAM_TYPES = {
    "flows": "Flow",
    "mapreduce": "Mapreduce",
    "spark": "Spark",
    "workflows": "Workflow",
    "services": "Service",
    "workers": "Worker",
}


@dataclass
class Namespace:
    """What a namespace contains. applications: versions by name. programs: list, application and name. created: when, by
    kind and name; other entities were created at CREATED.
    """

    generation: int = 1_600_000_000_000
    principal: str = ""
    applications: dict[str, list[str]] = field(default_factory=dict)
    programs: list[tuple[str, str, str]] = field(default_factory=list)
    artifacts: list[tuple[str, str]] = field(default_factory=list)
    datasets: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    secure_keys: list[str] = field(default_factory=list)
    streams: list[str] = field(default_factory=list)
    profiles: list[str] = field(default_factory=list)
    created: dict[tuple[str, str], int] = field(default_factory=dict)

    def created_at(self, kind: str, name: str) -> int:
        return self.created.get((kind, name), CREATED)


class Cdap:
    """The state of the stand-in. faults: by path, the answers before it answers as usual, or one for ever."""

    def __init__(self, version: str = VERSIONS[-1]):
        self.version = version
        self.namespaces: dict[str, Namespace] = {"default": Namespace(generation=0), "system": Namespace()}
        self.faults: dict[str, Answer | list[Answer]] = {}
        self.system_services: list[str] = []
        self.token = ""
        self.has_secure_store = True
        self.page_size_limit = 10_000
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.url = ""

    @property
    def is_old(self) -> bool:
        return self.version < "6"

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        parts = urlsplit(target)
        path = unquote(parts.path).removeprefix("/v3/")
        self.requests.append((path, headers))
        fault = self.faults.get(path)
        if isinstance(fault, list):
            fault = fault.pop(0) if fault else None
        if fault:
            return fault
        if self.token and headers.get("Authorization") != f"Bearer {self.token}":
            # what `BasicAuthenticationClient` of cdap-clients reads
            error = {"auth_uri": ["http://localhost:10009/token"], "error": "invalid_token"}
            return Answer(401, json.dumps(error | {"error_description": "Invalid token signature."}))
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        content = self._content(path, query)
        if isinstance(content, Answer):
            return content
        return Answer(200, json.dumps(content), {"Content-Type": "application/json"})

    def _content(self, path: str, query: dict[str, str]) -> Any:
        if path == "version":
            # `VersionHandler`, `Version`
            return {"version": self.version}
        if path == "namespaces":
            return [self._namespace(name, row) for name, row in self.namespaces.items()]
        if path == "system/services":
            # `MonitorHandler.getServiceSpec`, `SystemServiceMeta`
            return [
                {"name": name, "description": "", "status": "OK", "logs": "OK", "min": 1, "max": 1}
                | {"requested": 1, "provisioned": 1}
                for name in self.system_services
            ]
        names = path.split("/", 2)
        namespace = self.namespaces.get(names[1]) if names[0] == "namespaces" and len(names) > 1 else None
        if namespace is None:
            # `HttpExceptionHandler` writes the message of `NamespaceNotFoundException` as text
            return Answer(404, f"'namespace:{names[-1]}' was not found.", {"Content-Type": "text/plain"})
        if len(names) == 2:
            return self._namespace(names[1], namespace)
        lists: dict[str, Callable[[], Any]] = {
            "apps": lambda: self._applications(namespace, query),
            "artifacts": lambda: self._artifacts(namespace, query),
            "data/datasets": lambda: [self._dataset(name) for name in namespace.datasets],
            "data/modules": lambda: [self._module(name) for name in namespace.modules],
            "data/types": lambda: [{"name": name, "modules": []} for name in namespace.types],
            "securekeys/": lambda: self._secure_keys(namespace),
            **{name: lambda name=name: self._programs(namespace, name) for name in PROGRAM_TYPES},
            # `ProfileHttpHandler.getProfiles`, `Profile`
            "profiles": lambda: [
                {"name": name, "label": name, "scope": "USER", "status": "ENABLED"}
                for name in namespace.profiles
            ],
            "metadata/search": lambda: self._search(names[1], namespace, query),
            # `StreamHandler.listStreams`, `StreamDetail`
            "streams": lambda: [{"name": name} for name in namespace.streams],
        }
        if names[2] not in lists or (names[2] in ONLY_OLD and not self.is_old):
            return Answer(404, "Problem accessing: /v3/" + path + ". Reason: Not Found")
        return lists[names[2]]()

    def _namespace(self, name: str, row: Namespace) -> dict[str, Any]:
        """`NamespaceHttpHandler.getAllNamespaces`, `NamespaceMeta`, `NamespaceConfig`; null members are left out."""
        config: dict[str, Any] = {"scheduler.queue.name": ""}
        if row.principal:
            config |= {"principal": row.principal, "keytabURI": f"/etc/security/{name}.keytab"}
        if self.is_old:
            # `NamespaceMeta` of co.cask has no generation (cdap-docs, namespace.rst)
            return {"name": name, "description": "", "config": config}
        config["explore.as.principal"] = True
        return {"name": name, "description": "", "generation": row.generation, "config": config}

    def _applications(self, namespace: Namespace, query: dict[str, str]) -> Any:
        """`AppLifecycleHttpHandler.getAllApps`, `ApplicationRecord`, `JsonPaginatedListResponder`."""
        rows = []
        for name, versions in sorted(namespace.applications.items()):
            for version in versions if self.version.startswith("6.11") else versions[:1]:
                artifact = {"name": "cdap-data-pipeline", "version": "6.11.1", "scope": "SYSTEM"}
                row = {
                    "type": "App",
                    "name": name,
                    "version": version,
                    "description": "",
                    "artifact": artifact,
                }
                if self.is_old:
                    row["id"] = name
                if namespace.principal:
                    row["principal"] = namespace.principal
                rows.append(row)
        if not self.version.startswith("6.11"):
            # parameters that a version does not know are ignored, so that the answer is one array
            return rows
        start = 0
        if token := query.get("pageToken"):
            start = 1 + next(i for i, row in enumerate(rows) if f"{row['name']}.{row['version']}" == token)
        size = min(int(query["pageSize"]), self.page_size_limit)
        page = rows[start : start + size]
        is_last = start + size > len(rows)
        token = {} if is_last or not page else {"nextPageToken": f"{page[-1]['name']}.{page[-1]['version']}"}
        return {"applications": page} | token

    def _programs(self, namespace: Namespace, name: str) -> Any:
        """`ProgramLifecycleHttpHandler.getAllMapReduce` and so on, `ProgramRecord`, `ProgramType`."""
        rows = []
        for list_name, application, program in namespace.programs:
            if list_name != name:
                continue
            row = {"type": PROGRAM_TYPES[name], "app": application, "name": program, "description": ""}
            for version in namespace.applications.get(application, ["1.0.0"]):
                if self.is_old:
                    rows.append(row | {"id": program})
                    break
                rows.append(row | {"appVersion": version})
        return rows

    def _artifacts(self, namespace: Namespace, query: dict[str, str]) -> Any:
        """`ArtifactHttpHandler.getArtifacts`, `ArtifactSummary`."""
        rows = [{"name": n, "version": version, "scope": "USER"} for n, version in namespace.artifacts]
        if query.get("scope") != "user":
            rows.append({"name": "cdap-data-pipeline", "version": "6.11.1", "scope": "SYSTEM"})
        return rows

    def _dataset(self, name: str) -> Any:
        """`DatasetInstanceHandler.list`, `DatasetSpecificationSummary`."""
        return {"name": name, "type": "table", "properties": {"schema": "{}"}}

    def _module(self, name: str) -> Any:
        """`DatasetTypeHandler.listModules`, `DatasetModuleMeta`."""
        members = {"className": f"example.{name}", "types": [], "usesModules": [], "usedByModules": []}
        return {"name": name, **members}

    def _secure_keys(self, namespace: Namespace) -> Any:
        """`SecureStoreHandler.list`: `SecureStoreMetadata` in 6.x, and before, by name (cdap-docs, security.rst)."""
        if not self.has_secure_store:
            # `DummySecureStoreService`; `HttpExceptionHandler` answers 501 in 6.x
            text = 'Secure store is not configured. To use secure store please set "security.store.provider"'
            return Answer(500 if self.is_old else 501, text, {"Content-Type": "text/plain"})
        if self.is_old:
            return dict.fromkeys(namespace.secure_keys, "passw0rd")
        return [
            {
                "name": name,
                "description": "",
                "createdEpochMs": namespace.created_at("securekey", name),
                "properties": {},
            }
            for name in namespace.secure_keys
        ]

    def _search(self, namespace_name: str, namespace: Namespace, query: dict[str, str]) -> Any:
        """`MetadataHttpHandler.searchNamespace`, `SearchResponse`, `MetadataRecord`, `MetadataEntityCodec`, `MetadataCodec`."""
        names = [("application", name) for name in namespace.applications]
        names += [("dataset", name) for name in namespace.datasets]
        assert query["sort"] == "creation-time desc" and query["responseFormat"] == "v6"
        names.sort(key=lambda name: namespace.created_at(*name), reverse=True)
        start, limit = int(query.get("cursor", 0)), int(query["limit"])
        results = [
            {
                "entity": {"details": {"namespace": namespace_name, kind: name}, "type": kind},
                "metadata": {
                    "tags": [],
                    "properties": [
                        {"scope": "SYSTEM", "name": "entity-name", "value": name},
                        {
                            "scope": "SYSTEM",
                            "name": "creation-time",
                            "value": str(namespace.created_at(kind, name)),
                        },
                    ],
                },
            }
            for kind, name in names[start : start + limit]
        ]
        cursor = {"cursor": str(start + limit)} if start + limit < len(names) else {}
        return {
            "offset": 0,
            "limit": limit,
            "totalResults": len(names),
            "results": results,
        } | cursor


if __name__ == "__main__":
    # to try a connection without CDAP (docs/connections.md)
    tenant = Cdap()
    tenant.system_services = ["appfabric", "metrics"]
    tenant.namespaces["sales"] = Namespace(
        applications={"orders": ["1.0.0", "1.1.0"]},
        programs=[("workflows", "orders", "daily")],
        datasets=["orders", "customers"],
        secure_keys=["db-password"],
    )
    with running(tenant, port=11015):
        print(f"{tenant.url} answers as CDAP {tenant.version}; Ctrl-C stops it")
        threading.Event().wait()
