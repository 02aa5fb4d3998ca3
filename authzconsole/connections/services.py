"""Add connections, bring the console in line with a platform or the platform in line with the console, and list where
they differ.

INVARIANT: a platform is read completely before anything is compared, and what the console holds is compared at one
revision, at which the changes are made.
"""

import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import TypeVar
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.module_loading import import_string

from authzconsole.common.encryption import UnknownKey, decrypt, encrypt
from authzconsole.connections.peers import check_host
from authzconsole.connections.platform import (
    ChangedSinceShown,
    ConnectionFault,
    MadeBy,
    Platform,
    PlatformChange,
    Unsupported,
)
from authzconsole.models import Connection
from entities.address import Address
from entities.frozen import frozen
from entities.models import Entity, State
from entities.selectors import entities_at
from entities.vocabulary import clip, quantity
from grants.authority.persons import accounts_of
from grants.authority.transactions import administrator_transaction, check_administrator
from grants.bulk_rows import chunks, insert_rows
from grants.change_set import (
    AddGroup,
    AddUser,
    Change,
    ChangeSet,
    Delete,
    Exclude,
    Grant,
    Include,
    Join,
    Key,
    Leave,
    Recreate,
    Register,
    Revoke,
    ending_of,
)
from grants.changes import apply
from grants.consistent_read import consistent_read
from grants.evaluation.remarks import replace_remarks
from grants.journal import Author, JournalEntry, append_to_journal, current_revision
from grants.models import PRINCIPAL_TYPES, USER, Job, Plan, PlanState, PlanVerb, Remark, RoleGroup
from grants.plans.apply import discard_plan
from grants.plans.create import PlanDraft, PlanOrigin, store_plan
from grants.policies.principals import ROLE_PREFIX, principal_text
from grants.principal_names import parse_principal, principals_by_name
from grants.principals.new_names import look_keys, new_name_faults
from grants.querysets import memberships
from grants.roles.capabilities import Capability
from grants.validity import VALIDITY_COLUMNS, Validity, in_force, not_over_condition, question_time

MAX_NAME_CHARACTERS = 60
JOB_PREFIX = "connection-"
SECRET_PURPOSE = b"secrets of connections\n"
_ORDER = attrgetter("sort_key")
# of the plan of a sync
MAX_SYNC_ITEMS = 1_000_000
T = TypeVar("T")
# The class of each type. It is imported on first use, because it needs optional packages.
TYPES = {
    "cdap": "authzconsole.connections.cdap.CdapPlatform",
    "hive": "authzconsole.connections.hive.HiveMetastore",
    "ranger": "authzconsole.connections.ranger_admin.RangerAdmin",
}
HIDDEN = "left as it is: the platform does not list it any more, but does not say that it was deleted"
# a namespace with fewer entities of a kind may lose them without a confirmation
MIN_LIST_ROWS = 20


@dataclass(slots=True)
class PlatformState:
    """What was read from a platform.

    unsupported: what the console cannot express. remarks: what it may change in answers. made_by: see `Platform`. digest: of all grants, also those
    in `unsupported`, to find out whether they changed in the meantime.
    """

    entities: set[Address] = field(default_factory=set)
    principals: set[str] = field(default_factory=set)
    members: set[Join | Include] = field(default_factory=set)
    grants: set[Grant] = field(default_factory=set)
    unsupported: list[Unsupported] = field(default_factory=list)
    remarks: Collection[Remark] = ()
    made_by: Mapping[Key, MadeBy] = field(default_factory=dict)
    digest: str = ""

    @property
    def all_principals(self) -> set[str]:
        """The principals of the platform, the holders of grants, the roles and their members."""
        holders = (grant.principal for grant in self.grants)
        return {*holders, *self.principals, *chain.from_iterable(change.key for change in self.members)}


@frozen
class SyncResult:
    """What a sync changes. found: entities of the platform that no earlier sync found, or the addresses of its policies.
    creations, remarks: of the platform. revision: at which the console was compared.
    """

    change_set: ChangeSet
    found: set[Address]
    creations: Mapping[str, str]
    unsupported: list[Unsupported]
    remarks: Collection[Remark]
    revision: int

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        def count(*types: type[Change]) -> int:
            return sum(isinstance(change, types) for change in self.change_set)

        roles = sum(
            isinstance(change, AddGroup) and change.group.startswith(ROLE_PREFIX)
            for change in self.change_set
        )
        return {
            "entities": {
                "new": count(Register),
                "live": count(Recreate),
                "deleted": count(Delete),
            },
            "grants": {"granted": count(Grant), "revoked": count(Revoke)},
            "principals": {
                "users": count(AddUser),
                "groups": count(AddGroup) - roles,
                "roles": roles,
                "joined": count(Join, Include),
                "left": count(Leave, Exclude),
            },
        }


def add_connection(
    *, author: Author, type_name: str, name: str, url: str, options: Mapping[str, str]
) -> Connection:
    """Add a connection. Raise ConnectionFault if its type, address or an option is invalid, or the name is taken."""
    _check_platform(type_name, url, options)
    if not name.isidentifier() or not name.isascii() or len(name) > MAX_NAME_CHARACTERS:
        raise ConnectionFault(
            f"`{clip(name)}` cannot name a connection: use at most {MAX_NAME_CHARACTERS} letters, digits and underscores",
            field="name",
        )
    with administrator_transaction(author, capability=Capability.MANAGE_SETTINGS) as head:
        if Connection.objects.filter(name=name).exists():
            raise ConnectionFault(f"the connection {name} exists already: choose another name", field="name")
        connection = Connection.objects.create(
            type=type_name,
            name=name,
            url=url,
            options=dict(options),
            maker_ids=sorted(accounts_of(author)),
        )
        detail = f"{type_name} {name}: {url}"
        append_to_journal(head, [JournalEntry("connection-add", detail=detail)], author=author)
    return connection


def change_connection(
    connection: Connection,
    *,
    author: Author,
    url: str,
    options: Mapping[str, str],
    interval_hours: int,
    applies_syncs: bool,
) -> None:
    """Change a connection. Raise ConnectionFault if the address or an option is invalid.

    Its token is removed if the address changes, so that it is not sent to another server.
    """
    _check_platform(connection.type, url, options)
    if applies_syncs and settings.FOUR_EYES:
        raise ConnectionFault(
            "FOUR_EYES is on, so a sync without a request only prepares a plan, which a person applies",
            field="applies_syncs",
        )
    with administrator_transaction(author, capability=Capability.MANAGE_SETTINGS) as head:
        connection.refresh_from_db()
        if connection.url != url:
            # nothing of an earlier maker is used with another address
            connection.secret, connection.maker_ids = "", sorted(accounts_of(author))
        elif connection.options != dict(options):
            connection.maker_ids = _makers_with(connection, author)
        connection.url, connection.options = url, dict(options)
        connection.interval_hours, connection.applies_syncs = interval_hours, applies_syncs
        connection.save(
            update_fields=["secret", "url", "options", "interval_hours", "applies_syncs", "maker_ids"]
        )
        syncs = (
            f"every {interval_hours} h{', applied' if applies_syncs else ''}"
            if interval_hours
            else "on request"
        )
        detail = f"{connection.name}: {url}; syncs {syncs}"
        append_to_journal(head, [JournalEntry("connection-change", detail=detail)], author=author)


def delete_connection(connection: Connection, *, author: Author) -> None:
    """Delete a connection with its jobs. The entities and grants of the console stay as they are."""
    with administrator_transaction(author, capability=Capability.MANAGE_SETTINGS) as head:
        append_to_journal(head, [JournalEntry("connection-delete", detail=connection.name)], author=author)
        Job.objects.filter(type__startswith=JOB_PREFIX, options__connection=connection.name).delete()
        replace_remarks([], _remark_source(connection))
        connection.delete()


def store_token(connection: Connection, token: str, *, author: Author) -> str:
    """Store the token or password of a connection encrypted; an empty one removes it. Return the word for it. Raise
    ConnectionFault if it cannot be one.
    """
    type_ = platform_type(connection.type)
    word = type_.secret_name or "token"
    if token and not type_.secret_name:
        raise ConnectionFault(f"a platform of the type {connection.type} has no token", field="token")
    type_(connection.url, connection.options, token)
    with administrator_transaction(author, capability=Capability.MANAGE_SETTINGS) as head:
        secret = encrypt(token, SECRET_PURPOSE) if token else ""
        connection.refresh_from_db(fields=["maker_ids"])
        connection.maker_ids, connection.secret = _makers_with(connection, author), secret
        connection.save(update_fields=["secret", "maker_ids"])
        detail = f"{connection.name}: {word} {'stored' if token else 'removed'}"
        append_to_journal(head, [JournalEntry("connection-change", detail=detail)], author=author)
    return word


def _makers_with(connection: Connection, author: Author) -> list[int]:
    """Return the makers of a connection after the author changed it."""
    return sorted({*connection.maker_ids, *accounts_of(author)})


def connection_by_name(name: str) -> Connection:
    connection = Connection.objects.filter(name=name).first()
    if connection is None:
        names = ", ".join(Connection.objects.order_by("name").values_list("name", flat=True))
        raise ConnectionFault(
            f"there is no connection `{clip(name)}`"
            + (f"; there are {names}" if names else ": add one with `connection add`")
        )
    return connection


def computed_sync(
    connection: Connection,
    *,
    accepts_shrunken: bool = False,
    progress: Callable[[int], None] = lambda count: None,
) -> SyncResult:
    """Return the changes after which the console has what the platform has.

    They are about the entities and roles of the platform only, and about the privileges that it can express. An entity is deleted if an
    earlier sync found it and it does not exist any more, and deleted and recreated if the platform did so. If the
    platform has policies, they are about the addresses of these policies and of those that earlier syncs found. Raise
    ConnectionFault if the platform cannot be read, or if it or a namespace has less than half of what it had, unless
    `accepts_shrunken`. progress: see `read_state`.
    """
    settle(connection)
    with open_platform(connection) as platform:
        platform.creations = dict(connection.creations)
        state = read_state(platform, progress)
        with consistent_read():
            revision = current_revision()
            entities = entities_at(state.entities)
            known, hidden = _known_entities(connection, state, platform)
            recreated = {
                address for address in platform.recreated if address in entities and entities[address].is_live
            }
            present = _console_grants(platform, state.entities)
            if platform.policy_kinds:
                found = {grant.address for grant in state.grants}
                addresses = found | _linked_addresses(connection)
                present = {grant for grant in present if grant.address in addresses}
            else:
                found = state.entities - known
            if not accepts_shrunken:
                _check_counts(connection, platform, state, known, recreated, present)
            added, unknown = new_principals(state.all_principals)
            members = _console_members(state.principals)
    granted = {grant for grant in state.grants - present if grant.principal not in unknown}
    joined = {change for change in state.members - members if unknown.keys().isdisjoint(change.key)}
    changes = [
        *added,
        *sorted(joined, key=attrgetter("key")),
        *map(ending_of, sorted(members - state.members, key=attrgetter("key"))),
        *(Delete(address) for address in _topmost(recreated)),
        *_live_changes(state, entities, recreated),
        *sorted(granted, key=_ORDER),
        *sorted(_revocations(present) - _revocations(state.grants), key=_ORDER),
        *(
            Delete(address)
            for address in _topmost(known - state.entities)
            if not _is_inside(address, recreated)
        ),
    ]
    named = {row.subject for row in state.unsupported}
    unsupported = sorted(
        [
            *state.unsupported,
            *(Unsupported(*item) for item in unknown.items()),
            *(Unsupported(text, HIDDEN) for text in map(str, hidden) if text not in named),
        ]
    )
    return SyncResult(
        ChangeSet(tuple(changes)), found, platform.creations, unsupported, state.remarks, revision
    )


def sync(connection: Connection, result: SyncResult, *, author: Author) -> None:
    """Make the changes of a sync in one transaction. Raise StaleBase if the console changed since they were computed."""
    with transaction.atomic():
        apply(result.change_set, author=author, base_revision=result.revision)
        _link(connection, result.found)
        _replace_remarks(connection, result)
        connection.creations = dict(result.creations)
        connection.synced_at = timezone.now()
        connection.save(update_fields=["creations", "synced_at"])
        _record(author, connection, "connection-sync", len(result.change_set))


def prepare_sync(
    connection: Connection, result: SyncResult, *, author: Author, confirm: Callable[[], None] = lambda: None
) -> Plan | None:
    """Store the changes of a sync as a plan, in place of the plan of an earlier one. Return None if there are none.

    The people who configured the connection are makers of the plan. With FOUR_EYES, another person must apply it.

    confirm: called in the transaction. Raise NotAdministrator.
    """
    check_administrator(author)
    with transaction.atomic():
        confirm()
        if connection.plan is not None and connection.plan.is_proposed:
            discard_plan(author=author, plan_id=connection.plan.pk)
        _link(connection, result.found)
        _replace_remarks(connection, result)
        connection.plan = None
        if len(result.change_set):
            draft = PlanDraft(
                title=f"Sync of {connection.name}",
                changes=result.change_set,
                recipe={"connection": connection.name},
                base_revision=result.revision,
                maker_ids=connection.maker_ids,
                max_items=MAX_SYNC_ITEMS,
            )
            connection.plan = store_plan(author, PlanOrigin.SYNC, draft)
            connection.plan_creations = dict(result.creations)
        else:
            connection.creations = dict(result.creations)
            connection.synced_at = timezone.now()
        connection.save(update_fields=["creations", "synced_at", "plan", "plan_creations"])
    return connection.plan


def _replace_remarks(connection: Connection, result: SyncResult) -> None:
    """Store the remarks of a sync with Ranger, also in place of those of an imported file of the same service."""
    if service := connection.options.get("service"):
        replace_remarks(result.remarks, _remark_source(connection), import_source(service))


def _remark_source(connection: Connection) -> str:
    return f"connection {connection.name}"


def import_source(service: str) -> str:
    """Return the source of the remarks of an imported file."""
    return f"import {clip(service, 200)}"


def settle(connection: Connection) -> None:
    """Take over what the plan of the last sync did, if it was applied."""
    plan = connection.plan
    if plan is None or plan.is_proposed:
        return
    with transaction.atomic():
        if plan.state == PlanState.APPLIED:
            found = plan.items.filter(verb__in=(PlanVerb.REGISTER, PlanVerb.RECREATE, PlanVerb.GRANT))
            _link(connection, [Address(*row) for row in found.values_list("kind", "key")])
            connection.creations = connection.plan_creations
            connection.synced_at = plan.decided_at
        connection.plan, connection.plan_creations = None, {}
        connection.save(update_fields=["creations", "synced_at", "plan", "plan_creations"])


def _link(connection: Connection, addresses: Collection[Address]) -> None:
    """Remember that the connection found these entities. Some may be known from a time before they were deleted."""
    links = Connection.entities.through
    linked = set(links.objects.filter(connection=connection).values_list("entity_id", flat=True))
    for chunk in chunks(addresses):
        rows = Entity.rows.filter(kind__in={a.kind for a in chunk}, key__in=[a.key for a in chunk])
        found = set(chunk)
        insert_rows(
            links,
            ("connection_id", "entity_id"),
            [
                (connection.pk, pk)
                for pk, kind, key in rows.values_list("pk", "kind", "key")
                if pk not in linked and Address(kind, key) in found
            ],
        )


def _linked_addresses(connection: Connection) -> set[Address]:
    """Return what earlier syncs found, also patterns."""
    links = Connection.entities.through.objects.filter(connection=connection)
    return {Address(*row) for row in links.values_list("entity__kind", "entity__key")}


@frozen
class Comparison:
    """The grants of a platform and of the console. intended: those that the platform is to have: of the console, and its own of
    principals that the console cannot have.

    changes: after which the platform has them. unsupported: of them, what the platform or the console cannot express.
    """

    state: PlatformState
    intended: set[Grant]
    changes: list[PlatformChange]
    unsupported: list[Unsupported]

    @property
    def drift(self) -> Iterator[tuple[Grant, bool, bool]]:
        """Yield each privilege that only one side grants, in order, with whether the console and the platform grant it.
        Both do so where only the period differs.
        """
        console, enforced = ({grant.key for grant in grants} for grants in (self.intended, self.state.grants))
        for grant in sorted({Grant(*grant.key) for grant in self.intended ^ self.state.grants}, key=_ORDER):
            yield grant, grant.key in console, grant.key in enforced

    @property
    def digest(self) -> str:
        """A hash of what the platform has and of the changes, to find out whether either changed since they were shown."""
        texts = [self.state.digest, *map(str, self.changes)]
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def compare(platform: Platform, progress: Callable[[int], None] = lambda count: None) -> Comparison:
    """Read a platform, and compare its grants with those of the console. progress: see `read_state`."""
    state = read_state(platform, progress)
    with consistent_read():
        intended = _console_grants(platform, state.entities, is_effective=True)
        _, unknown = new_principals({grant.principal for grant in state.grants})
    intended |= {grant for grant in state.grants if grant.principal in unknown}
    found = [*platform.changes_to(intended), *(Unsupported(*item) for item in unknown.items())]
    changes = [change for change in found if isinstance(change, PlatformChange)]
    # what replaces a privilege is granted before it is revoked
    changes.sort(key=lambda change: (change.principal, str(change.entity or ""), change.verb))
    unsupported = sorted(row for row in found if isinstance(row, Unsupported))
    return Comparison(state, intended, changes, unsupported)


def compare_connection(
    connection: Connection, progress: Callable[[int], None] = lambda count: None
) -> Comparison:
    """Compare a platform with the console. Raise ConnectionFault if it shows no grants."""
    with _open_platform_with_grants(connection) as platform:
        return compare(platform, progress)


def show_push(connection: Connection) -> Comparison:
    """Return the comparison with the changes of a push, and remember it, so that `push` can tell whether it changed."""
    comparison = compare_connection(connection)
    Connection.objects.filter(pk=connection.pk).update(shown_digest=comparison.digest)
    return comparison


def push(connection: Connection, *, author: Author, shown: str = "") -> Comparison:
    """Make the changes of a push, read the platform again, and return the comparison from before.

    shown: the digest of the comparison that was shown; by default, of the last `show_push`. Raise ConnectionFault if
    either side changed since then, or if the platform does not have afterwards what the console has.
    """
    with _open_platform_with_grants(connection) as platform:
        comparison = compare(platform)
        shown, connection.shown_digest = shown or connection.shown_digest, ""
        connection.save(update_fields=["shown_digest"])
        if shown and shown != comparison.digest:
            raise ChangedSinceShown(
                f"{connection.name} or the console changed since its changes were shown: show them again, with "
                f"`connection push {connection.name}` or `Compare now`; nothing was changed"
            )
        # before the changes, and without the lock of the journal while the platform makes them
        _record(author, connection, "connection-push", len(comparison.changes))
        try:
            platform.write_changes(comparison.changes)
        except ConnectionFault as error:
            raise ConnectionFault(
                f"{error}; a part of the changes may have been made: compare with `connection drift {connection.name}`"
            ) from error
        rest = compare(platform).changes
        if rest:
            raise ConnectionFault(
                f"{connection.name} accepted the changes, but {quantity(len(rest), 'grant differs', 'grants differ')} "
                f"afterwards: another program may have changed them; compare with `connection drift {connection.name}`"
            )
    return comparison


def open_platform(connection: Connection) -> Platform:
    """Return the platform, which connects when it is entered. Its secret is in the environment, or stored.

    Raise ConnectionFault if the environment has a secret for another address.
    """
    type_ = platform_type(connection.type)
    word = type_.secret_name
    secret = _variable(connection, word) if word else ""
    if secret and _variable(connection, "url") not in ("", connection.url):
        raise ConnectionFault(
            f"the {word} of {connection.name} in the environment is for another address than {connection.url}: whoever sets "
            f"the environment must change CONNECTION_{connection.name.upper()}_URL too"
        )
    if not secret and connection.secret:
        try:
            secret = decrypt(connection.secret, SECRET_PURPOSE)
        except UnknownKey:
            raise ConnectionFault(
                f"the {word} of {connection.name} cannot be decrypted, because neither MFA_KEYS nor SECRET_KEY has its "
                f"key: store it again with `connection token {connection.name}`"
            ) from None
    platform = type_(connection.url, connection.options, secret)
    check_host(urlsplit(connection.url).hostname or "")
    return platform


def _variable(connection: Connection, name: str) -> str:
    return os.environ.get(f"CONNECTION_{connection.name}_{name}".upper(), "")


def _open_platform_with_grants(connection: Connection) -> Platform:
    platform = open_platform(connection)
    if not platform.capabilities:
        raise ConnectionFault(
            f"{connection.name} shows no grants, so there is nothing to compare or to push: a platform of the type "
            f"{connection.type} has its entities only, which `connection sync {connection.name}` takes over"
        )
    return platform


def read_state(platform: Platform, progress: Callable[[int], None] = lambda count: None) -> PlatformState:
    """Read everything. progress: called with the number of items so far; may raise an error that ends the reading."""
    state = PlatformState()
    lines: list[str] = []
    numbers = itertools.count(1)

    def supported_items(items: Iterator[T | Unsupported]) -> Iterator[T]:
        for item in items:
            progress(next(numbers))
            if isinstance(item, Unsupported):
                state.unsupported.append(item)
            else:
                yield item

    def with_lines(grants: Iterator[Grant | Unsupported]) -> Iterator[Grant | Unsupported]:
        for grant in grants:
            lines.append(str(grant))
            yield grant

    state.entities.update(supported_items(platform.read_entities()))
    state.principals.update(supported_items(platform.read_principals()))
    state.members.update(supported_items(platform.read_members()))
    for grant in supported_items(with_lines(platform.read_grants())):
        if platform.policy_kinds or grant.address in state.entities:
            state.grants.add(grant)
        else:
            state.unsupported.append(Unsupported(str(grant), "the platform does not list this entity"))
    state.remarks, state.made_by = platform.remarks, platform.made_by
    state.digest = hashlib.sha256("\n".join([platform.grants_version, *sorted(lines)]).encode()).hexdigest()
    return state


def _record(author: Author, connection: Connection, action: str, changes: int) -> None:
    detail = f"{connection.name}: {quantity(changes, 'change', 'changes')}"
    with administrator_transaction(author) as head:
        append_to_journal(head, [JournalEntry(action, detail=detail)], author=author)


def _check_platform(type_name: str, url: str, options: Mapping[str, str]) -> None:
    """Raise ConnectionFault if the type, the address or an option is invalid."""
    if type_name not in TYPES:
        raise ConnectionFault(
            f"`{clip(type_name)}` is not a type of platform; the types are {', '.join(TYPES)}", field="type"
        )
    type_ = platform_type(type_name)
    names = type_.option_names
    if unknown := sorted(options.keys() - set(names)):
        raise ConnectionFault(
            f"`{clip(unknown[0])}` is not an option of {type_name}; its options are {', '.join(names)}"
        )
    if missing := [name for name in type_.required_options if not options.get(name)]:
        raise ConnectionFault(
            f"the option `{missing[0]}` of {type_name} is missing: set it", field=f"option_{missing[0]}"
        )
    type_(url, options)


def platform_type(type_name: str) -> type[Platform]:
    """Return the class of a type of platform. Raise ConnectionFault if its client is not installed."""
    try:
        return import_string(TYPES[type_name])
    except ImportError:
        raise ConnectionFault(
            f"the client for {type_name} is not installed: install requirements/extra-{type_name}.txt, as in docs/connections.md"
        ) from None


def _check_counts(
    connection: Connection,
    platform: Platform,
    state: PlatformState,
    known: Collection[Address],
    recreated: Collection[Address],
    present: Collection[Grant],
) -> None:
    """Raise ConnectionFault if the platform, or one kind in a namespace that it still has, lost more than half, or if a
    platform with policies gives less than half of the grants.
    """

    def check(place: str, count: int, before: int) -> None:
        if count * 2 < before:
            raise ConnectionFault(
                f"{place} has {quantity(count, 'entity', 'entities')}, and had {before:,}: check "
                f"the platform, or confirm that they were deleted (--accept-shrunken)"
            )

    if platform.policy_kinds and len(state.grants) * 2 < len(present):
        raise ConnectionFault(
            f"{connection.name} gives {quantity(len(state.grants), 'grant', 'grants')}, and the console has "
            f"{len(present):,} on the same addresses: check the platform, or confirm that the others are revoked "
            f"(--accept-shrunken)"
        )
    check(connection.name, len(state.entities), len(known))
    counts = Counter((address.namespace, address.kind) for address in state.entities)
    for (namespace, kind), before in Counter((address.namespace, address.kind) for address in known).items():
        if before >= MIN_LIST_ROWS and namespace in state.entities and namespace not in recreated:
            check(f"{namespace} of {connection.name}, of the kind {kind},", counts[namespace, kind], before)


def _console_grants(
    platform: Platform, entities: Collection[Address], *, is_effective: bool = False
) -> set[Grant]:
    """Return the grants to compare with the platform: those in force on these entities, or those that policies can give.
    is_effective: only those of active principals.
    """
    if not platform.capabilities:
        return set()
    if platform.policy_kinds:
        listed = Connection.entities.through.objects.filter(connection__type__in=_types_with_entity_grants())
        return {
            grant
            for grant in exported_grants(
                platform.policy_kinds, is_effective=is_effective, without=listed.values("entity_id")
            )
            if grant.privilege in platform.capabilities
        }
    namespaces = {str(address.namespace.key) for address in entities if address.namespace}
    kinds = {address.kind for address in entities}
    result = set()
    for principal_type in PRINCIPAL_TYPES.values():
        grants = (
            principal_type.held_grants.effective()
            if is_effective
            else principal_type.grants.filter(**in_force())
        )
        for chunk in chunks(sorted(namespaces)):
            rows = grants.filter(namespace__key__in=chunk, entity_kind__in=kinds)
            result |= {
                Grant(*key)
                for key in rows.grant_keys()
                if key[1] in entities and key[2] in platform.capabilities
            }
    return result


def exported_grants(
    kinds: Collection[str] = (), *, is_effective: bool = True, without: Collection[int] | QuerySet = ()
) -> Iterator[Grant]:
    """Yield the grants, also on patterns, that are in force or begin later, with their periods.

    kinds: only those on these kinds. is_effective: only those of active principals. without: skip the grants on these
    entities, which are primary keys.
    """
    for principal_type in PRINCIPAL_TYPES.values():
        rows = principal_type.grants.filter(not_over_condition(question_time()))
        if kinds:
            rows = rows.filter(entity_kind__in=kinds)
        if is_effective:
            rows = rows.filter(principal_type.has_active_holder)
        rows = rows.exclude(content_object_id__in=without)
        for principal, address, privilege, *period in rows.grant_keys(*VALIDITY_COLUMNS):
            yield Grant(principal, address, privilege, Validity(*period))


def _types_with_entity_grants() -> list[str]:
    """Return the types of the connections to platforms that list their entities with the grants on these."""
    names = Connection.objects.values_list("type", flat=True).distinct()
    types = {name: platform_type(name) for name in names}
    return [name for name, type_ in types.items() if type_.capabilities and not type_.policy_kinds]


def _revocations(grants: Iterable[Grant]) -> set[Revoke]:
    return {Revoke(*grant.key) for grant in grants}


def _live_changes(
    state: PlatformState, entities: Mapping[Address, Entity], recreated: Collection[Address]
) -> Iterator[Register | Recreate]:
    """Yield the changes that make the entities of the platform live, containers first.

    recreated: what is deleted with its contents before.
    """
    for address in sorted(state.entities, key=lambda address: (len(address.ancestors), str(address))):
        row = entities.get(address)
        if row is None or row.state == State.PLANNED:
            yield Register(address)
        elif not row.is_live or _is_inside(address, recreated):
            yield Recreate(address)


def new_principals(names: Collection[str]) -> tuple[list[AddUser | AddGroup], dict[str, str]]:
    """Return the changes that add the unknown ones of these principals, and by name why one cannot be added. Of names that
    look alike, the first one is added.
    """
    names = sorted(names)
    known = principals_by_name(names)
    added: list[AddUser | AddGroup] = []
    looks: dict[tuple[str, int, str], str] = {}
    new = [name for name in names if name not in known]
    faults = {
        principal_text(type_, name): fault
        for type_ in PRINCIPAL_TYPES
        for name, fault in new_name_faults(
            type_, [name for other, name in map(parse_principal, new) if other == type_]
        ).items()
    }
    for name in [name for name in new if name not in faults]:
        principal_type, plain_name = parse_principal(name)
        keys = [(principal_type, number, key) for number, key in enumerate(look_keys(plain_name))]
        alike = [looks[key] for key in keys if key in looks]
        if alike:
            faults[name] = (
                f"`{clip(plain_name)}` looks like {clip(alike[0])}, which the console does not know either"
            )
        else:
            looks |= dict.fromkeys(keys, name)
            added.append(AddUser(plain_name) if principal_type == USER.name else AddGroup(plain_name))
    return added, faults


def _console_members(roles: Collection[str]) -> set[Join | Include]:
    """Return the memberships in these roles that are in force. Runs two queries."""
    users = memberships().filter(**in_force(), group__name__among=list(roles))
    groups = RoleGroup.objects.filter(**in_force(), role__name__among=list(roles))
    return {
        *(Join(*names) for names in users.values_list("user__username", "group__name")),
        *(Include(*names) for names in groups.values_list("group__name", "role__name")),
    }


def _known_entities(
    connection: Connection, state: PlatformState, platform: Platform
) -> tuple[set[Address], list[Address]]:
    """Return the live entities of earlier syncs, without those that the platform may hide from the account, and the
    namespaces among these.
    """
    if platform.policy_kinds:
        return set(), []
    rows = connection.entities.filter(state=State.LIVE).values_list("kind", "key")
    known = {Address(*row) for row in rows.iterator(chunk_size=2_000)}
    hidden = [address for address in _topmost(known - state.entities) if not platform.is_absent(address)]
    places = set(hidden)
    seen = {address for address in known if address in state.entities or not _is_inside(address, places)}
    return seen, [address for address in hidden if address.kind == "namespace"]


def _topmost(addresses: set[Address]) -> list[Address]:
    """Return the addresses without those inside others of them, in order."""
    return sorted((one for one in addresses if addresses.isdisjoint(one.ancestors)), key=str)


def _is_inside(address: Address, containers: Collection[Address]) -> bool:
    """Return whether the address is one of the containers, or inside one."""
    return address in containers or any(container in containers for container in address.ancestors)
