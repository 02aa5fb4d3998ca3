"""The Hive metastore: its databases are namespaces, its tables datasets, and its privileges those of the console.

SELECT is READ, INSERT, UPDATE and DELETE together are WRITE, and ALL is READ, WRITE and ADMIN. Its roles are roles, except
for roles in roles and its built-in roles. The metastore stores privileges without evaluating them. Source:
`hive_metastore.thrift` of Hive 2.3, and `org.apache.hadoop.hive.metastore.HiveMetaStore`.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Self
from urllib.parse import urlsplit

from pymetastore.hive_metastore import ttypes
from pymetastore.hive_metastore.ThriftHiveMetastore import Client
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from authzconsole.connections.peers import check_peer
from authzconsole.connections.platform import (
    ConnectionFault,
    MadeBy,
    Platform,
    PlatformChange,
    Unsupported,
    address_or_fault,
    principal_or_fault,
)
from entities.address import Address
from entities.vocabulary import Privilege, clip
from grants.change_set import Grant, Include, Join, Key
from grants.models import USER
from grants.policies.principals import ROLE_PREFIX
from grants.principal_names import parse_principal

# it logs what it raises, with a traceback
logging.getLogger("thrift.transport.TSocket").disabled = True
DEFAULT_PORT = 9083
TIMEOUT_SECONDS = 60
CHANGES_PER_CALL = 1_000
ALL = "ALL"
# every metastore has these roles, and a global privilege of the first one; everybody is in the second one
BUILT_IN_ROLES = ("admin", "public")
OWN_ROLE = "Hive has this role by itself: the console does not know who is in it"
# the privileges of Hive that together are one of the console
PARTS = {
    Privilege.READ: frozenset({"SELECT"}),
    Privilege.WRITE: frozenset({"INSERT", "UPDATE", "DELETE"}),
}
_UNKNOWN_TIME = datetime.min.replace(tzinfo=UTC)
OF_ALL = frozenset({Privilege.READ, Privilege.WRITE, Privilege.ADMIN})


class HiveMetastore(Platform):
    """A connection to a metastore over Thrift without SASL, as one user.

    url: `thrift://HOST:PORT`. options: `user`, the name under which the metastore stores grants as their grantor.
    """

    capabilities = OF_ALL
    option_names = ("user",)

    def __init__(self, url: str, options: Mapping[str, str], secret: str = ""):
        self.host, self.port = _host_and_port(url)
        self.user = options.get("user", "console")
        # by principal and entity, the privileges in the words of Hive
        self._privileges: dict[tuple[str, Address], set[str]] = {}
        self.made_by: dict[Key, MadeBy] = {}
        self._roles: list[str] = []

    def __enter__(self) -> Self:
        socket = TSocket(self.host, self.port)
        socket.setTimeout(TIMEOUT_SECONDS * 1000)
        self._transport = TBufferedTransport(socket)
        self._client = Client(TBinaryProtocolAccelerated(self._transport))
        try:
            with self._faults():
                self._transport.open()
                check_peer(self.host, socket.handle)
                self._client.set_ugi(self.user, [])
        except ConnectionFault:
            self._transport.close()
            raise
        return self

    def __exit__(self, *error) -> None:
        self._transport.close()

    def read_entities(self) -> Iterator[Address | Unsupported]:
        with self._faults():
            databases = sorted(self._client.get_all_databases())
        for database in databases:
            yield address_or_fault("namespace", database)
            with self._faults():
                tables = sorted(self._client.get_all_tables(database))
            yield from (address_or_fault("dataset", f"{database}.{table}") for table in tables)

    def read_principals(self) -> Iterator[str | Unsupported]:
        with self._faults():
            names = sorted(self._client.get_role_names())
        self._roles = [name for name in names if name not in BUILT_IN_ROLES]
        yield from (_supported(ROLE_PREFIX + name) for name in self._roles)

    def read_members(self) -> Iterator[Join | Include | Unsupported]:
        for role in map(ROLE_PREFIX.__add__, self._roles):
            request = ttypes.GetPrincipalsInRoleRequest(role.removeprefix(ROLE_PREFIX))
            with self._faults():
                rows = self._client.get_principals_in_role(request).principalGrants
            for row in rows:
                member = _principal(row)
                subject, supported = f"{member} in {role}", _supported(member)
                if isinstance(supported, Unsupported):
                    yield Unsupported(subject, supported.reason)
                elif member.startswith(ROLE_PREFIX):
                    yield Unsupported(subject, "the console has no roles in roles")
                elif isinstance(_supported(role), str):
                    principal_type, name = parse_principal(member)
                    yield (Join if principal_type == USER.name else Include)(name, role)

    def read_grants(self) -> Iterator[Grant | Unsupported]:
        with self._faults():
            rows = self._client.list_privileges(None, None, ttypes.HiveObjectRef())
        by_key: dict[tuple[str, Address], dict[str, MadeBy]] = defaultdict(dict)
        for row in rows:
            if (
                row.hiveObject.objectType == ttypes.HiveObjectType.GLOBAL
                and row.principalName in BUILT_IN_ROLES
            ):
                continue
            privilege = row.grantInfo.privilege.upper()
            key = _key(row)
            if isinstance(key, Unsupported):
                yield key
                continue
            if row.grantInfo.grantOption:
                yield Unsupported(_text(privilege, *key), "the console has no grant option")
            created = row.grantInfo.createTime or 0
            at = datetime.fromtimestamp(created, UTC) if created > 0 else None
            made = MadeBy(row.grantInfo.grantor or "", at)
            # the same privilege can have several grantors
            by_key[key][privilege] = max(made, by_key[key].get(privilege, made), key=_time_of)
        self._privileges = {key: set(privileges) for key, privileges in by_key.items()}
        self.made_by = {}
        for (principal, entity), privileges in by_key.items():
            held, others = _console_privileges(privileges)
            for privilege in held:
                parts = [ALL] if ALL in privileges else PARTS[privilege]
                newest = max((privileges[part] for part in parts), key=_time_of)
                self.made_by[principal, entity, privilege] = newest
                yield Grant(principal, entity, privilege)
            for other, reason in others:
                yield Unsupported(_text(other, principal, entity), reason)

    def changes_to(self, intended: Collection[Grant]) -> Iterator[PlatformChange | Unsupported]:
        wanted: dict[tuple[str, Address], set[Privilege]] = defaultdict(set)
        for grant in intended:
            if isinstance(supported := _supported(grant.principal), Unsupported):
                yield Unsupported(str(grant), supported.reason)
            else:
                wanted[grant.principal, grant.address].add(grant.privilege)
        roles = {principal for principal, _ in wanted if principal.startswith(ROLE_PREFIX)}
        for role in sorted(roles - {ROLE_PREFIX + name for name in self._roles}):
            yield PlatformChange("create", role)
        for key in wanted.keys() | self._privileges.keys():
            has, want = self._privileges.get(key, set()), wanted.get(key, set())
            held, _ = _console_privileges(has)
            if Privilege.ADMIN in want and not want >= OF_ALL:
                yield Unsupported(
                    _text("ADMIN", *key), "Hive has no ADMIN without READ and WRITE: grant these too"
                )
                want = want - {Privilege.ADMIN}
            if held == want:
                continue
            target = {ALL} if want == OF_ALL else {part for one in want for part in PARTS[one]}
            # what the console cannot express stays as it is
            surplus = {part for one in held & PARTS.keys() for part in PARTS[one] if ALL not in has} | {ALL}
            if revoked := sorted((has & surplus) - target):
                yield PlatformChange("revoke", *key, tuple(revoked))
            if granted := sorted(target - has):
                yield PlatformChange("grant", *key, tuple(granted))

    def write_changes(self, changes: Collection[PlatformChange]) -> None:
        for change in changes:
            if change.verb == "create":
                name = change.principal.removeprefix(ROLE_PREFIX)
                with self._faults():
                    self._client.create_role(ttypes.Role(name, int(time.time()), self.user))
        # what replaces a privilege is granted before it is revoked
        for verb, call in (("grant", "grant_privileges"), ("revoke", "revoke_privileges")):
            rows = [
                self._row(change, privilege)
                for change in changes
                if change.verb == verb
                for privilege in change.privileges
            ]
            for start in range(0, len(rows), CHANGES_PER_CALL):
                bag = ttypes.PrivilegeBag(rows[start : start + CHANGES_PER_CALL])
                with self._faults():
                    getattr(self._client, call)(bag)

    def _row(self, change: PlatformChange, privilege: str) -> Any:
        assert change.entity is not None
        principal_type, _, name = change.principal.partition(":")
        database, _, table = change.entity.key.partition(".")
        type_ = ttypes.HiveObjectType.TABLE if table else ttypes.HiveObjectType.DATABASE
        info = ttypes.PrivilegeGrantInfo(
            privilege, int(time.time()), self.user, ttypes.PrincipalType.USER, False
        )
        return ttypes.HiveObjectPrivilege(
            ttypes.HiveObjectRef(type_, database, table or None, [], None),
            name,
            getattr(ttypes.PrincipalType, principal_type.upper()),
            info,
        )

    @contextmanager
    def _faults(self):
        """Turn the errors of Thrift and of the metastore into ConnectionFault."""
        place = f"the metastore at {self.host}:{self.port}"
        try:
            yield
        except TException as error:
            if isinstance(error, TTransportException) and error.type == TTransportException.END_OF_FILE:
                # the message of the client is about a number of bytes
                message = "ended the connection"
            else:
                message = f"failed: {clip(str(getattr(error, 'message', '') or type(error).__name__))}"
            raise ConnectionFault(
                f"{place} {message}; check its address, that it runs, and that it accepts connections without TLS and SASL"
            ) from error
        except (OSError, EOFError) as error:
            raise ConnectionFault(f"{place} cannot be reached: {error}") from error


def _time_of(made: MadeBy) -> datetime:
    return made.at or _UNKNOWN_TIME


def _host_and_port(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or DEFAULT_PORT
    except ValueError:
        host = None
    if not host or parts.scheme != "thrift" or parts.path.strip("/") or parts.query or parts.username:
        raise ConnectionFault(
            f"`{clip(url)}` is not the address of a metastore: write thrift://HOST:PORT", field="url"
        ) from None
    return host, port


def _key(row: Any) -> tuple[str, Address] | Unsupported:
    """Return the principal and the entity of a privilege, or why the console cannot express it."""
    reference = row.hiveObject
    type_name = ttypes.HiveObjectType._VALUES_TO_NAMES[reference.objectType]
    principal = _principal(row)
    place = ".".join(filter(None, [reference.dbName, reference.objectName, reference.columnName]))
    subject = (
        f"{row.grantInfo.privilege.upper()} on {type_name.lower()} {place}".rstrip() + f" for {principal}"
    )
    if type_name not in ("DATABASE", "TABLE"):
        return Unsupported(subject, f"the console has no privileges on a {type_name.lower()}")
    supported = _supported(principal)
    if isinstance(supported, Unsupported):
        return Unsupported(subject, supported.reason)
    address = address_or_fault("dataset" if reference.objectName else "namespace", place)
    return Unsupported(subject, address.reason) if isinstance(address, Unsupported) else (principal, address)


def _principal(row: Any) -> str:
    """Return the written form of the principal of a privilege or of a membership in a role."""
    principal_type = ttypes.PrincipalType._VALUES_TO_NAMES[row.principalType].lower()
    return f"{principal_type}:{row.principalName}"


def _supported(principal: str) -> str | Unsupported:
    """Return the principal, or why the console cannot have it."""
    if principal in map(ROLE_PREFIX.__add__, BUILT_IN_ROLES):
        return Unsupported(principal, OWN_ROLE)
    return principal_or_fault(principal)


def _console_privileges(privileges: Collection[str]) -> tuple[set[Privilege], list[tuple[str, str]]]:
    """Return the privileges of the console that these of Hive are, and those without a counterpart, each with the reason."""
    if ALL in privileges:
        return set(OF_ALL), []
    held = {one for one, parts in PARTS.items() if parts <= set(privileges)}
    rest = set(privileges).difference(*(PARTS[one] for one in held))
    partial = sorted(rest & PARTS[Privilege.WRITE])
    reasons = [("+".join(partial), "WRITE is INSERT, UPDATE and DELETE together")] if partial else []
    others = sorted(rest - PARTS[Privilege.WRITE])
    return held, reasons + [(other, "the console has no such privilege") for other in others]


def _text(privilege: str, principal: str, entity: Address) -> str:
    return f"{privilege} on {entity} for {principal}"
