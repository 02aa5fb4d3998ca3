"""A stand-in for Ranger Admin: a server with the REST API for the policies of a service, and with faults on request.

Ranger cannot be installed for these tests. Each part names the class of apache/ranger that it stands for.
"""

import base64
import json
import threading
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.stand_in import Answer, running

USER, PASSWORD = "console", "rangerR0cks!"
API = "/service/public/v2/api"
ACCESSES = {"read", "write", "execute", "admin"}


@dataclass
class Ranger:
    """The state of the stand-in. policy_version: of the service. roles: None before Ranger had them. faults: by path, the
    answers before it answers as usual, or one for ever.
    """

    service: str = "cdapdev"
    service_type: str = "cdap"
    tag_service: str = ""
    password: str = PASSWORD
    policy_version: int = 1
    policies: dict[int, dict[str, Any]] = field(default_factory=dict)
    roles: list[dict[str, Any]] | None = field(default_factory=list)
    faults: dict[str, Answer | list[Answer]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""

    def add(self, policy: dict[str, Any]) -> dict[str, Any]:
        """Add a policy, as its author would in Ranger Admin."""
        answer = self.create(policy | {"service": self.service})
        assert answer.status == 200, answer.body
        return self.policies[json.loads(answer.body)["id"]]

    def named(self, name: str) -> dict[str, Any]:
        return next(policy for policy in self.policies.values() if policy["name"] == name)

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        parts = urlsplit(target)
        path = unquote(parts.path)
        self.requests.append((method, path))
        fault = self.faults.get(f"{method} {path}")
        if isinstance(fault, list):
            fault = fault.pop(0) if fault else None
        if fault:
            return fault
        account = base64.b64encode(f"{USER}:{self.password}".encode()).decode()
        if headers.get("Authorization") != f"Basic {account}":
            # `RangerAuthenticationEntryPoint`
            return Answer(401, json.dumps({"statusCode": 401, "msgDesc": "Authentication Failed"}))
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        return self._content(method, path, query, body)

    def _content(self, method: str, path: str, query: dict[str, str], body: bytes) -> Answer:
        if path == f"{API}/service/name/{self.service}":
            # `PublicAPIsv2.getServiceByName`, `RangerService`
            row = {"id": 11, "name": self.service, "type": self.service_type, "isEnabled": True}
            row |= {
                "policyVersion": self.policy_version,
                "configs": {"username": "cdap", "password": "*****"},
            }
            return ok(row | ({"tagService": self.tag_service} if self.tag_service else {}))
        if path.startswith(f"{API}/service/name/"):
            return failed(404, "Not found")
        if path == "/service/plugins/policies/exportJson":
            # `ServiceREST.getPoliciesInJson`, `RangerExportPolicyList`
            rows = [row for row in self.policies.values() if row["service"] == query["serviceName"]]
            meta = {"Host name": "ranger", "Exported by": USER, "Ranger apache version": "2.6.0"}
            return ok({"metaDataInfo": meta, "policies": rows}) if rows else Answer(204)
        if path == f"{API}/roles" and self.roles is not None:
            # `PublicAPIsv2.getAllRoles` and `createRole`, `RangerRole`
            if method == "POST":
                self.roles.append(json.loads(body))
            return ok(self.roles[-1] if method == "POST" else self.roles)
        if path == f"{API}/policy" and method == "POST":
            return self.create(json.loads(body))
        number = path.removeprefix(f"{API}/policy/")
        if not number.isdigit():
            return Answer(404, "<html><head><title>Error 404</title></head></html>")
        if int(number) not in self.policies:
            return failed(404, "Data Not Found for given Id")
        if method == "PUT":
            return self._store(json.loads(body) | {"id": int(number)}, self.policies[int(number)])
        if method == "DELETE":
            self.policy_version += 1
            del self.policies[int(number)]
            return Answer(204)
        return ok(self.policies[int(number)])

    def create(self, policy: dict[str, Any]) -> Answer:
        number = max([354, *self.policies]) + 1
        return self._store(policy | {"id": number, "guid": f"guid-{number}", "version": 0}, None)

    def _store(self, policy: dict[str, Any], before: dict[str, Any] | None) -> Answer:
        """`ServiceREST.createPolicy` and `updatePolicy`, which do not compare the version; `RangerPolicyValidator`."""
        others = [row for row in self.policies.values() if row["id"] != policy["id"]]
        if any(row["name"].lower() == policy["name"].lower() for row in others):
            return invalid(3001, "A policy already exists with this name", "policy name")
        if policy.get("isEnabled", True):
            for row in others:
                if row.get("isEnabled", True) and signature(row) == signature(policy):
                    text = f"Another policy already exists for matching resource: policy-name=[{row['name']}]"
                    return invalid(3010, text, "resources")
        for item in policy.get("policyItems", ()):
            if not any(item.get(names) for names in ("users", "groups", "roles")):
                return invalid(3021, "All of users, user groups and roles are null or empty", "policy items")
            accesses = item.get("accesses") or ()
            if not accesses and not item.get("delegateAdmin"):
                return invalid(3019, "Policy items must have accesses", "policy items")
            if wrong := {access["type"] for access in accesses} - ACCESSES:
                return invalid(3023, f"Invalid access type {wrong}", "policy item access")
            unknown = set(item.get("roles") or ()) - {role["name"] for role in self.roles or ()}
            if unknown:
                # `PolicyRefUpdater`
                return failed(
                    400, f"Operation denied. Role name: {unknown} specified in policy does not exist"
                )
        self.policy_version += 1
        self.policies[policy["id"]] = policy | {"version": (before or policy)["version"] + 1}
        return ok(self.policies[policy["id"]])


def signature(policy: dict[str, Any]) -> str:
    """`RangerPolicyResourceSignature`."""
    resources = {
        level: [sorted(part["values"]), part.get("isExcludes", False), part.get("isRecursive", False)]
        for level, part in policy["resources"].items()
    }
    rest = [
        policy.get(name) or None for name in ("policyType", "validitySchedules", "policyPriority", "zoneName")
    ]
    return json.dumps([resources, rest], sort_keys=True)


def ok(content: Any) -> Answer:
    return Answer(200, json.dumps(content), {"Content-Type": "application/json"})


def failed(status: int, message: str) -> Answer:
    """`RESTErrorUtil`, `VXResponse`."""
    content = json.dumps({"statusCode": 1, "msgDesc": message})
    return Answer(status, content, {"Content-Type": "application/json"})


def invalid(code: int, reason: str, name: str) -> Answer:
    """`ValidationFailureDetails`."""
    return failed(400, f"(0) Validation failure: error code[{code}], reason[{reason}], field[{name}]")


def example() -> Ranger:
    """Return a service with three policies and a role."""
    ranger = Ranger()
    ranger.roles = [
        {"id": 1, "name": "stewards", "users": [{"name": "carol", "isAdmin": False}], "groups": []}
    ]
    nothing = {"values": ["*"], "isExcludes": True, "isRecursive": False}

    def part(*values: str) -> dict[str, Any]:
        return {"values": list(values), "isExcludes": False, "isRecursive": False}

    def item(accesses: str, **names: list[str]) -> dict[str, Any]:
        types = [{"type": access, "isAllowed": True} for access in accesses.split()]
        return {"users": [], "groups": [], "roles": [], **names, "accesses": types, "delegateAdmin": False}

    for name, resources, *items in (
        (
            "bookings data",
            {"dataset": part("orders", "customers")},
            item("read", users=["alice"], groups=["analysts"]),
        ),
        ("bookings namespace", {"artifact": nothing}, item("read write", roles=["stewards"])),
        ("bookings reports", {"dataset": part("reports_*")}, item("read", groups=["analysts"])),
    ):
        place = {"instance": part("cdap"), "namespace": part("bookings")}
        ranger.add({"name": name, "isEnabled": True, "resources": place | resources, "policyItems": items})
    ranger.named("bookings reports")["denyPolicyItems"] = [item("read", users=["mallory"])]
    return ranger


if __name__ == "__main__":
    # to try a connection without Ranger (docs/connections.md)
    with running(example(), port=6080) as server:
        print(f"{server.url} answers as Ranger Admin; {USER} has the password {PASSWORD}; Ctrl-C stops it")
        threading.Event().wait()
