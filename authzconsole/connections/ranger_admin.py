"""Ranger Admin: the policies of one service of the type `cdap`, over its REST API.

Ranger has no list of entities: its policies are about any address and pattern of the kinds of CDAP, whether it exists
or not. Sources: `PublicAPIsv2`, `ServiceREST`, `RoleREST` and `RangerPolicyValidator` of apache/ranger, 0.7 to 2.6.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import requests
from requests.auth import HTTPBasicAuth

from authzconsole.connections.http import HttpPlatform, base_url
from authzconsole.connections.platform import (
    ConnectionFault,
    PlatformChange,
    Unsupported,
    principal_or_fault,
)
from authzconsole.connections.ranger.matching import KINDS_IN_RANGER
from authzconsole.connections.ranger.policies import (
    SERVICE_TYPE,
    Note,
    PolicyFile,
    PolicyFileError,
    read_policies,
)
from authzconsole.connections.ranger_changes import PolicyChange, changed_policies
from authzconsole.connections.ranger_grants import merged_grants
from authzconsole.connections.ranger_remarks import remarks_of, remarks_of_tag_service
from entities.address import Address
from entities.vocabulary import Privilege, clip
from grants.change_set import Grant, Include, Join
from grants.models import Remark
from grants.policies.principals import ROLE_PREFIX

API = "service/public/v2/api"


class RangerAdmin(HttpPlatform):
    """A connection to Ranger Admin, with the name and the password of an account that administers the service.

    url: `https://HOST:PORT`. options: `service`, the name of the service in Ranger; `user`; `verify`, as of CDAP.
    """

    capabilities = frozenset(Privilege)
    policy_kinds = KINDS_IN_RANGER
    option_names = ("service", "user", "verify")
    required_options = ("service", "user")
    product, secret_name = "Ranger Admin", "password"

    def __init__(self, url: str, options: Mapping[str, str], secret: str = ""):
        super().__init__(base_url(url, self.product), options)
        self.service, self.user = options.get("service", ""), options.get("user", "")
        if ":" in self.user:
            raise ConnectionFault("`user` has a colon, which no account with a password can have: check it")
        self.auth = HTTPBasicAuth(self.user.encode(), secret.encode()) if secret else None
        self.grants_version = self._tag_service = ""
        self.remarks: list[Remark] = []
        self._entries: list[dict[str, Any]] = []
        self._file = PolicyFile((), ())
        # the roles of Ranger by name; None before it had roles
        self._roles: dict[str, dict[str, Any]] | None = None
        self._changes: dict[str, PolicyChange] = {}

    def read_entities(self) -> Iterator[Address | Unsupported]:
        if self.auth is None:
            raise ConnectionFault(
                f"the password of `{self.user}` is missing: store it with `connection token NAME`, or set "
                f"CONNECTION_NAME_PASSWORD in the environment"
            )
        notes = list(self._service_notes())
        name = quote(self.service, safe="")
        response = self.get(
            f"service/plugins/policies/exportJson?serviceName={name}&checkPoliciesExists=false"
        )
        self.check(response)
        # Ranger answers without content if there is no policy
        content = b'{"policies": []}' if response.status_code == 204 else response.content
        try:
            self._file = read_policies(content, file_name=response.url)
        except PolicyFileError as error:
            raise ConnectionFault(str(error)) from error
        self._entries = json.loads(content)["policies"]
        if without_id := [entry for entry in self._entries if entry.get("id") is None]:
            raise self.unknown_answer(
                response.url, f"a policy without an id, {clip(without_id[0].get('name'))}"
            )
        yield from notes

    def _service_notes(self) -> Iterator[Unsupported]:
        """Read the service, and yield what is to know about it."""
        response = self.get(f"{API}/service/name/{quote(self.service, safe='')}")
        if response.status_code in (400, 404) and not response.text.lstrip().startswith("<"):
            raise ConnectionFault(
                f"{self.url} has no service `{clip(self.service)}`: check the option `service`"
            )
        service = self.checked_json(response)
        if not isinstance(service, dict) or "type" not in service:
            raise self.unknown_answer(response.url)
        if service["type"] != SERVICE_TYPE:
            raise ConnectionFault(
                f"the service `{clip(self.service)}` is of the type `{clip(service['type'])}`, not `{SERVICE_TYPE}`: name "
                f"the service of CDAP"
            )
        self.grants_version = str(service.get("policyVersion") or "")
        subject = f"service {self.service}"
        self._tag_service = str(service.get("tagService") or "")
        if self._tag_service:
            yield Unsupported(subject, f"the policies of its tag service `{clip(self._tag_service)}`")
        if service.get("isEnabled") is False:
            yield Unsupported(subject, "the service is disabled, so CDAP gets none of its policies")

    def is_absent(self, entity: Address) -> bool:
        return False

    def read_principals(self) -> Iterator[str | Unsupported]:
        """Yield the roles that the policies name. Ranger before 2.1 has none."""
        response = self.get(f"{API}/roles")
        self._roles = None
        if response.status_code in (404, 405):
            return
        rows = self.checked_json(response)
        if not isinstance(rows, list) or not all(isinstance(row, dict) and row.get("name") for row in rows):
            raise self.unknown_answer(response.url)
        self._roles = {row["name"]: row for row in rows}
        for name in self._named_roles():
            yield principal_or_fault(ROLE_PREFIX + name)

    def _named_roles(self) -> list[str]:
        items = (item for policy in self._file.policies for item in policy.items)
        return sorted((self._roles or {}).keys() & {role for item in items for role in item.roles})

    def read_members(self) -> Iterator[Join | Include | Unsupported]:
        for role in self._named_roles():
            written, row = ROLE_PREFIX + role, (self._roles or {})[role]
            for type_ in ("user", "group", "role"):
                for member in row.get(f"{type_}s") or ():
                    principal = f"{type_}:{member.get('name')}"
                    subject, supported = f"{principal} in {written}", principal_or_fault(principal)
                    if isinstance(supported, Unsupported):
                        yield Unsupported(subject, supported.reason)
                        continue
                    if type_ == "role":
                        yield Unsupported(subject, "the console has no roles in roles")
                        continue
                    if member.get("isAdmin"):
                        yield Unsupported(subject, "the right to change the members of the role")
                    if isinstance(principal_or_fault(written), str):
                        yield (Join if type_ == "user" else Include)(member["name"], written)

    def read_grants(self) -> Iterator[Grant | Unsupported]:
        self.remarks = remarks_of(self._file)
        if self._tag_service:
            self.remarks += remarks_of_tag_service(self.service, self._tag_service)
        grants, notes = merged_grants(self._file)
        yield from map(_item_of_note, notes)
        yield from grants.values()

    def changes_to(self, intended: Collection[Grant]) -> Iterator[PlatformChange | Unsupported]:
        if self._roles is None:
            for grant in intended:
                if grant.principal.startswith(ROLE_PREFIX):
                    yield Unsupported(str(grant), "this version of Ranger has no roles")
            intended = [grant for grant in intended if not grant.principal.startswith(ROLE_PREFIX)]
        changes, notes = changed_policies(self._entries, self._file, intended, service=self.service)
        yield from map(_item_of_note, notes)
        self._changes = {}
        roles = set()
        for change in changes:
            version = f", version {change.before.get('version')}" if change.before else ""
            number = f" {change.before['id']}" if change.before else ""
            policy = f"{change.verb}{number} `{change.name}`{version}"
            self._changes[policy] = change
            roles |= {grant.principal for grant in change.added if grant.principal.startswith(ROLE_PREFIX)}
            for verb, grants in (("grant", change.added), ("revoke", change.removed)):
                privileges: dict[tuple[str, Address], set[Privilege]] = defaultdict(set)
                for grant in grants:
                    privileges[grant.principal, grant.address].add(grant.privilege)
                for key, held in privileges.items():
                    words = tuple(privilege.lower() for privilege in Privilege if privilege in held)
                    yield PlatformChange(verb, *key, words, policy)
        for role in sorted(roles - {ROLE_PREFIX + name for name in self._roles or ()}):
            yield PlatformChange("create", role)

    def write_changes(self, changes: Collection[PlatformChange]) -> None:
        for change in changes:
            if change.verb == "create":
                body = {
                    "name": change.principal.removeprefix(ROLE_PREFIX),
                    "users": [],
                    "groups": [],
                    "roles": [],
                }
                self.check(self.request("POST", f"{API}/roles", body))
        policies = {change.policy for change in changes} - {""}
        # what replaces a privilege is granted before it is revoked
        order = {"create": 0, "update": 1, "delete": 2}
        for written in sorted(
            (self._changes[policy] for policy in policies),
            key=lambda written: (order[written.verb], not written.added, written.name),
        ):
            self._write(written)

    def _write(self, change: PolicyChange) -> None:
        """Write one policy. Raise ConnectionFault if it is not the version any more that was read."""
        if change.before is None:
            self.check(self.request("POST", f"{API}/policy", change.after))
            return
        place = f"{API}/policy/{change.before['id']}"
        stored = self.json(place)
        if not isinstance(stored, dict) or stored.get("version") != change.before.get("version"):
            raise ConnectionFault(
                f"the policy `{clip(change.name)}` changed in the meantime: show the changes again"
            )
        if change.after is None:
            self.check(self.request("DELETE", place))
        else:
            body = {**stored, "policyItems": change.after["policyItems"]}
            self.check(self.request("PUT", place, body))

    def text(self, response: requests.Response) -> str:
        """Return the message of an error, which is JSON (`VXResponse`) or text."""
        try:
            message = response.json()["msgDesc"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return super().text(response)
        return clip(" ".join(str(message).split()), 400)


def _item_of_note(note: Note) -> Unsupported:
    subject = f"policy {note.id} `{note.policy}`" if note.id is not None else note.policy or "service"
    return Unsupported(subject, note.reason)
