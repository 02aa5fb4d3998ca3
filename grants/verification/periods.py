"""Read the periods of the history as facts with the revisions between which they held, to compare them with
the journal.

The names of principals are their first names (`Renames`), which stay the same when a principal is renamed.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from django.db import connection, models

from entities.address import Address, AddressError, is_pattern, parse_address
from grants.author_names import account_of_actor
from grants.bulk_rows import ROWS_PER_FETCH, chunks
from grants.models import JournalLine, User, privilege_of
from grants.models.history import (
    GRANT_PERIODS,
    EntityPeriod,
    GenerationPeriod,
    GrantPeriod,
    GroupPeriod,
    HistoryAddress,
    HistoryPosition,
    HistoryPrincipal,
    MembershipPeriod,
    Period,
    RoleGroupPeriod,
    UserPeriod,
)
from grants.policies.principals import principal_text
from grants.validity import Validity
from grants.verification.facts import fact_key, held_value, title_of

# the types of facts that the periods contain
PERIOD_TYPES = ("grant", "member", "entity", "active", "role", "service", "name", "generation")
_RANGE = 'p.from_revision, p.until_revision, p.since IS DISTINCT FROM j."at"'
_JOURNAL = f"LEFT JOIN {JournalLine._meta.db_table} j ON j.revision = p.from_revision"
_CONTAINERS = ("parent", "namespace", "application")


class HistoryFault(Exception):
    """The tables of the history contradict the journal or each other; the message says where."""


class StoredPeriod(NamedTuple):
    """A fact that held from one revision until another; until is None while it lasts."""

    key: str
    from_revision: int
    until_revision: int | None
    value: str


class Names(Protocol):
    """The first names of principals (`grants.verification.replay.Renames`)."""

    def first_name(self, name: str) -> str: ...

    def first_name_at(self, name: str, revision: int) -> str: ...


def derived_revision() -> int:
    """Return the last journal line that the periods contain.

    Return 0 if they are from another journal. They are then derived again before anything reads them. Runs
    one query.
    """
    position = HistoryPosition.objects.filter(pk=1).first()
    if position is None or not JournalLine.objects.filter(pk=position.revision, hash=position.hash).exists():
        return 0
    return position.revision


def stored_periods(names: Names, *, is_current: bool) -> Iterator[StoredPeriod]:
    """Yield all periods of the history, in bounded memory.

    is_current: the periods contain all journal lines, so they can be compared with the tables. Raise HistoryFault if a row contradicts its journal line, or the tables of names and addresses.
    """
    principals = _Principals(names)
    _check_addresses()
    yield from _users(principals, is_current)
    yield from _name_periods(GroupPeriod, principals, "group")
    yield from _memberships(principals, MembershipPeriod, "user", "group")
    yield from _memberships(principals, RoleGroupPeriod, "group", "role")
    yield from _entities()
    for model in GRANT_PERIODS:
        yield from _grants(model, principals)
    for name, start, end, _ in _rows(f"SELECT p.name, {_RANGE} FROM {_table(GenerationPeriod)} p {_JOURNAL}"):
        yield StoredPeriod(fact_key("generation"), start, end, name)


class _Principals:
    """The first names of the principals of the history, by id.

    A removed principal whose name another one took over has no name; its last period names it.
    """

    def __init__(self, names: Names):
        self._names = names
        self._of_nameless: dict[int, str] = {}
        for type_, model in (("user", UserPeriod), ("group", GroupPeriod)):
            nameless = HistoryPrincipal.objects.filter(name=None, type=type_).values("pk")
            rows = model._default_manager.filter(**{f"{type_}__in": nameless}).order_by("from_revision")
            for pk, name, revision in rows.values_list(type_, "name", "from_revision"):
                self._of_nameless[pk] = names.first_name_at(principal_text(type_, name), revision)

    def first_name(self, type_: str, pk: int, name: str | None) -> str:
        """Return the first name of a principal. name: in HistoryPrincipal."""
        if name is not None:
            return self._names.first_name(principal_text(type_, name))
        if pk not in self._of_nameless:
            raise HistoryFault(f"a period is about the {type_} with the unknown id {pk}")
        return self._of_nameless[pk]


def _users(principals: _Principals, is_current: bool) -> Iterator[StoredPeriod]:
    """Yield a period for each value of each column; rows that follow each other share unchanged values."""
    rows = _rows(
        f"""SELECT h.name, p."user", p.name, p.is_active, p.role, p.is_service, p.is_principal, u.is_principal,
        {_RANGE} FROM {_table(UserPeriod)} p {_JOURNAL} {_principal("user")}
        LEFT JOIN {_table(User)} u ON u.username = p.name AND p.until_revision IS NULL
        ORDER BY p."user", p.from_revision"""
    )
    open_periods: dict[str, StoredPeriod] = {}
    previous: tuple[int, int | None, bool] | None = None
    for known_name, pk, name, is_active, role, is_service, is_principal, is_now, start, end, differs in rows:
        first_name = principals.first_name("user", pk, known_name)
        values = {
            "name": f"user:{name}",
            "active": "active" if is_active else "inactive",
            "role": role,
            "service": "yes" if is_service else None,
        }
        _check_line(differs, fact_key("active", first_name), start)
        follows = previous is not None and previous[:2] == (pk, start)
        # an account can become a principal, but not the other way round
        is_undone = follows and previous is not None and previous[2] and not is_principal
        if is_undone or is_current and is_now is not None and bool(is_now) != bool(is_principal):
            raise HistoryFault(
                f"the history and the table of users disagree whether user:{name} is a principal"
            )
        for type_, value in values.items():
            before = open_periods.pop(type_, None)
            if before is not None and follows and before.value == value:
                open_periods[type_] = before._replace(until_revision=end)
                continue
            if before is not None:
                yield before
            if value is not None:
                open_periods[type_] = StoredPeriod(fact_key(type_, first_name), start, end, value)
        previous = pk, end, bool(is_principal)
    yield from open_periods.values()


def _name_periods(model: type[Period], principals: _Principals, type_: str) -> Iterator[StoredPeriod]:
    rows = (
        f'SELECT h.name, p."{type_}", p.name, {_RANGE} FROM {_table(model)} p {_JOURNAL} {_principal(type_)}'
    )
    for known_name, pk, name, start, end, differs in _rows(rows):
        key = fact_key("name", principals.first_name(type_, pk, known_name))
        _check_line(differs, key, start)
        yield StoredPeriod(key, start, end, principal_text(type_, name))


def _memberships(
    principals: _Principals, model: type[Period], member_type: str, group_column: str
) -> Iterator[StoredPeriod]:
    rows = _rows(
        f"""SELECT h.name, p."{member_type}", g.name, p."{group_column}", p.valid_from, p.valid_until, {_RANGE}
        FROM {_table(model)} p {_JOURNAL} {_principal(member_type)} {_principal("group", "g", group_column)}"""
    )
    for member_name, member, group_name, group, valid_from, valid_until, start, end, differs in rows:
        key = fact_key(
            "member",
            principals.first_name(member_type, member, member_name),
            principals.first_name("group", group, group_name),
        )
        _check_line(differs, key, start)
        yield StoredPeriod(key, start, end, held_value(Validity(_time(valid_from), _time(valid_until))))


def _entities() -> Iterator[StoredPeriod]:
    columns = ", ".join(f"p.{name} IS DISTINCT FROM a.{name}" for name in ("kind", "key", *_CONTAINERS))
    rows = _rows(
        f"""SELECT a.kind, a.key, p.entity, p.state, {_RANGE}, {columns}
        FROM {_table(EntityPeriod)} p {_JOURNAL} {_ADDRESS}"""
    )
    for kind, name, pk, state, start, end, *differs in rows:
        key = fact_key("entity", _address(kind, name, pk))
        _check_line(any(differs), key, start)
        yield StoredPeriod(key, start, end, state)


def _grants(model: type[GrantPeriod], principals: _Principals) -> Iterator[StoredPeriod]:
    type_ = model.principal_type
    rows = _rows(
        f"""SELECT h.name, p."{type_}", a.kind, a.key, p.entity, p.permission, p.valid_from, p.valid_until,
        p.granted_by, j.actor, {_RANGE}, p.reason IS DISTINCT FROM j.reason,
        p.namespace IS DISTINCT FROM a.namespace, p.application IS DISTINCT FROM a.application, p.is_on_pattern
        FROM {_table(model)} p {_JOURNAL} {_principal(type_)} {_ADDRESS}"""
    )
    authors: set[tuple[int, str]] = set()
    for (
        known_name,
        pk,
        kind,
        name,
        entity,
        permission,
        *period,
        author,
        actor,
        start,
        end,
        a,
        b,
        c,
        d,
        is_on_pattern,
    ) in rows:
        key = fact_key(
            "grant",
            principals.first_name(type_, pk, known_name),
            _address(kind, name, entity),
            privilege_of(permission),
        )
        _check_line(a or b or c or d or bool(is_on_pattern) != is_pattern(name), key, start)
        if author is not None:
            authors.add((author, account_of_actor(actor)))
        yield StoredPeriod(key, start, end, held_value(Validity(*map(_time, period))))
    _check_authors(authors)


def _check_authors(authors: Iterable[tuple[int, str]]) -> None:
    """Raise HistoryFault if a grant names another author than its line. A principal has several names."""
    for chunk in chunks(authors):
        users = {pk for pk, _ in chunk}
        known = set(UserPeriod.objects.filter(user__in=users).values_list("user", "name"))
        known |= set(HistoryPrincipal.objects.filter(pk__in=users, type="user").values_list("pk", "name"))
        if wrong := [name for pk, name in chunk if (pk, name) not in known]:
            raise HistoryFault(f"the history names another author of a grant by `{wrong[0]}`")


def _check_addresses() -> None:
    """Raise HistoryFault if the containers of an address are not those of its name."""
    containers = ", ".join(f"{name}.kind, {name}.key" for name in _CONTAINERS)
    joins = " ".join(
        f"LEFT JOIN {_table(HistoryAddress)} {name} ON {name}.id = a.{name}" for name in _CONTAINERS
    )
    for kind, key, *stored in _rows(
        f"SELECT a.kind, a.key, {containers} FROM {_table(HistoryAddress)} a {joins}"
    ):
        try:
            address = parse_address(f"{kind}:{key}")
        except AddressError:
            continue
        expected: list[str | None] = []
        for container in (address.parent, address.namespace, address.application):
            expected += (container.kind, container.key) if container else (None, None)
        if stored != expected:
            raise HistoryFault(f"the history has another container of {kind}:{key}")


def _check_line(differs: bool, key: str, revision: int) -> None:
    if differs:
        raise HistoryFault(
            f"the history of {title_of(key)} differs from line {revision} of the journal in its details"
        )


def _address(kind: str | None, key: str | None, pk: int) -> Address:
    if kind is None or key is None:
        raise HistoryFault(f"a period is about the address with the unknown id {pk}")
    return Address(kind, key)


def _table(model: type[models.Model]) -> str:
    return connection.ops.quote_name(model._meta.db_table)


def _principal(type_: str, alias: str = "h", column: str = "") -> str:
    """Return the join with the principal in a column; by default, the column has the name of the type."""
    return f"""LEFT JOIN {_table(HistoryPrincipal)} {alias}
    ON {alias}.id = p."{column or type_}" AND {alias}.type = '{type_}'"""


_ADDRESS = f"LEFT JOIN {HistoryAddress._meta.db_table} a ON a.id = p.entity"


def _time(value: datetime | str | None) -> datetime | None:
    """Convert a time of a raw statement: SQLite has texts without a time zone."""
    if isinstance(value, str):
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return value


def _rows(statement: str) -> Iterator[Sequence]:
    """Yield the rows of a statement in bounded memory."""
    with connection.chunked_cursor() as cursor:
        cursor.execute(statement)
        while rows := cursor.fetchmany(ROWS_PER_FETCH):
            yield from rows
