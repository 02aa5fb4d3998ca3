"""Bring the periods up to date with the journal.

Each batch of lines is one transaction under the lock of the position, which it moves to its last line. So the
work can stop and continue anywhere, two processes cannot write the same lines, and memory does not grow with
the journal.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connection, models, transaction

from entities.address import is_pattern
from grants.author_names import account_of_actor
from grants.bulk_rows import chunks, database_time, insert_rows, refresh_statistics, update_rows
from grants.history.errors import HistoryNotReady
from grants.history.events import (
    LINE_COLUMNS,
    Event,
    Events,
    events_of_lines,
    late_principals,
    line_position,
    new_users,
    rename_of_line,
)
from grants.history.identities import Place, places, principal_ids, rename_principal
from grants.history.keyed_rows import rows_of_keys
from grants.models import JournalHead, JournalLine, Role, User, permission_ids
from grants.models.history import (
    GRANT_PERIODS,
    PERIOD_MODELS,
    EntityPeriod,
    GenerationPeriod,
    GroupPeriod,
    HistoryAddress,
    HistoryPosition,
    HistoryPrincipal,
    MembershipPeriod,
    RoleGroupPeriod,
    UserPeriod,
)
from grants.policies.principals import is_group_text, type_and_name
from grants.validity import VALIDITY_COLUMNS
from grants.verification import period_of_value, previous_generation

Key = tuple[int, ...]


def _replace(key: Key, before: tuple | None, value: tuple | None) -> tuple | None:
    return value


@dataclass(frozen=True)
class PeriodTable:
    """How events become rows of a period table.

    key_columns: the integers that identify what the period is about. value_columns: what an event sets; empty
    for a fact that only holds or does not. extra_columns: the other columns, which `extra_values` returns for
    a key and the event that began the period. next_value: returns the value after an event, from the key, the
    value before and the value of the event; by default the latter. A value is a tuple in the order of
    `value_columns`.
    """

    model: type[models.Model]
    key_columns: tuple[str, ...]
    value_columns: tuple[str, ...] = ()
    extra_columns: tuple[str, ...] = ()
    extra_values: Callable[[Key, Event], tuple] = lambda key, event: ()
    next_value: Callable[[Key, tuple | None, Any], tuple | None] = _replace

    def write(self, events: Mapping[Key, Sequence[Event]]) -> None:
        """Write the events of each key, which are in the order of their lines.

        An event that changes nothing is skipped.
        """
        ended: list[tuple[int, int]] = []
        begun: list[tuple] = []
        open_periods = self._open_periods(events)
        for key, key_events in events.items():
            pk, value = open_periods.get(key, (None, None))
            first: Event | None = None
            for event in key_events:
                new_value = self.next_value(key, value, event.value)
                if new_value == value:
                    continue
                if first is not None:
                    begun.append(self._row(key, value, first, event.revision))
                elif value is not None:
                    ended.append((event.revision, pk))
                first, value = (event if new_value is not None else None), new_value
            if first is not None:
                begun.append(self._row(key, value, first, None))
        update_rows(self.model, ("until_revision",), ended)
        insert_rows(self.model, self._columns, begun)

    @property
    def _columns(self) -> tuple[str, ...]:
        return (
            *self.key_columns,
            *self.value_columns,
            *self.extra_columns,
            "from_revision",
            "until_revision",
            "since",
        )

    def _row(self, key: Key, value: tuple, begin: Event, until: int | None) -> tuple:
        return (*key, *value, *self.extra_values(key, begin), begin.revision, until, database_time(begin.at))

    def _open_periods(self, keys: Iterable[Key]) -> dict[Key, tuple[int, tuple]]:
        """Return primary key and value of the open period of each key that has one."""
        periods: dict[Key, tuple[int, tuple]] = {}
        if not self.key_columns:
            for pk, *values in self.model._default_manager.filter(until_revision=None).values_list(
                "pk", *self.value_columns
            ):
                periods[()] = pk, tuple(values)
            return periods
        rows = rows_of_keys(
            self.model, self.key_columns, list(keys), ("id", *self.value_columns), "p.until_revision IS NULL"
        )
        width = len(self.key_columns)
        for values in rows:
            periods[tuple(values[:width])] = values[width], tuple(self._python_values(values[width + 1 :]))
        return periods

    def _python_values(self, values: Sequence) -> Iterable:
        """Convert the values of a raw statement to those of events: SQLite has no booleans and no time zones."""
        for name, value in zip(self.value_columns, values, strict=True):
            if isinstance(self.model._meta.get_field(name), models.BooleanField):
                yield bool(value)
            elif isinstance(value, datetime):
                yield database_time(value if value.tzinfo else value.replace(tzinfo=UTC))
            else:
                yield value


LINES_PER_BATCH = 20_000
# A read that finds more new lines than this, a few seconds of work, leaves them to the periodic task.
MAX_LINES_PER_READ = 50_000
# With this many lines, outdated planner statistics would slow down the questions.
MIN_LINES_TO_ANALYZE = 5_000
_GRANT_DETAILS = ("namespace", "application", "granted_by", "reason", "is_on_pattern")
_USER_COLUMNS = ("name", "is_active", "is_principal", "role", "is_service")
_POSITION = f"""
SELECT COALESCE(h.revision, 0), COALESCE(h.hash, ''), COALESCE(p.revision, 0), COALESCE(p.hash, '')
FROM (SELECT 1 AS id) one LEFT JOIN {JournalHead._meta.db_table} h ON h.id = one.id
LEFT JOIN {HistoryPosition._meta.db_table} p ON p.id = one.id"""


def catch_up() -> int:
    """Process all new journal lines. Return their number. Runs one query if there are none."""
    total = analyzed = 0
    while not _is_current() and (count := _process_batch()):
        total += count
        if total >= max(MIN_LINES_TO_ANALYZE, 2 * analyzed):
            analyzed = total
            refresh_statistics(*PERIOD_MODELS, HistoryPrincipal, HistoryAddress)
    return total


def catch_up_for_read() -> None:
    """Process the new journal lines before a question. Raise HistoryNotReady if there are too many.

    Runs one query if there are none.
    """
    head, _, position, _ = _heads()
    if head - position > MAX_LINES_PER_READ:
        raise HistoryNotReady(
            f"the history is being prepared ({position:,} of {head:,} journal lines): try again in a minute"
        )
    catch_up()


def _heads() -> tuple[int, str, int, str]:
    """Return revision and hash of the journal's head, and those of the position."""
    with connection.cursor() as cursor:
        cursor.execute(_POSITION)
        return cursor.fetchone()


def _is_current() -> bool:
    head, head_hash, position, position_hash = _heads()
    return head == position and (head_hash == position_hash or not head)


def _process_batch() -> int:
    """Process one batch of lines in one transaction. Return their number."""
    with transaction.atomic():
        HistoryPosition.objects.get_or_create(pk=1)
        position = HistoryPosition.objects.select_for_update().get(pk=1)
        _delete_periods_of_replaced_journal(position)
        lines = JournalLine.objects.filter(revision__gt=position.revision).order_by("revision")
        batch = _without_rename(list(lines.values_list(*LINE_COLUMNS)[:LINES_PER_BATCH]))
        if not batch:
            return 0
        if rename := rename_of_line(batch[0]):
            _write_rename(batch[0], *rename)
        else:
            _write_lines(batch)
        position.revision, _ = line_position(batch[-1])
        position.hash = JournalLine.objects.values_list("hash", flat=True).get(pk=position.revision)
        position.save()
        return len(batch)


def _without_rename(lines: list[tuple]) -> list[tuple]:
    """Return the lines before the first rename, or only the rename if it is the first line."""
    for index, line in enumerate(lines):
        if rename_of_line(line):
            return lines[: index or 1]
    return lines


def _delete_periods_of_replaced_journal(position: HistoryPosition) -> None:
    """Delete all periods if the journal is another one than that from which they were derived, such as after
    a restore.
    """
    if not position.revision:
        return
    hashes = JournalLine.objects.filter(pk=position.revision).values_list("hash", flat=True)
    if list(hashes) == [position.hash]:
        return
    _delete_periods(position)


def rebuild() -> None:
    """Derive all periods from the journal again, in batches."""
    with transaction.atomic():
        position, _ = HistoryPosition.objects.select_for_update().get_or_create(pk=1)
        _delete_periods(position)
        position.save()
    catch_up()


def _delete_periods(position: HistoryPosition) -> None:
    for model in (*PERIOD_MODELS, HistoryPrincipal, HistoryAddress):
        model._default_manager.all().delete()
    position.revision, position.hash = 0, ""


def _write_rename(line: tuple, old: str, new: str) -> None:
    """Let the periods of the principal continue under its new name."""
    pk, (revision, at) = rename_principal(old, new), line_position(line)
    event, name = Event(revision, {}, at, "", ""), type_and_name(new)[1]
    if new.startswith("user:"):
        _user_table({pk: name}).write({(pk,): [event]})
    else:
        _GROUP_TABLE.write({(pk,): [event._replace(value=(name,))]})


def _write_lines(lines: Sequence[tuple]) -> None:
    events = events_of_lines(lines)
    ids = principal_ids(_principals(events), known_only=_authors(events))
    addresses = places({names[1] for names in events["grant"]} | {names[0] for names in events["entity"]})
    _write_users(events, ids, lines)
    _GROUP_TABLE.write(
        {
            (ids[name],): [
                event._replace(value=event.value and (type_and_name(name)[1],)) for event in key_events
            ]
            for (name,), key_events in events["group"].items()
        }
    )
    for table, is_of_role in ((_MEMBERSHIP_TABLE, False), (_ROLE_GROUP_TABLE, True)):
        table.write(
            {
                (ids[member], ids[group]): _validities(key_events)
                for (member, group), key_events in events["member"].items()
                if is_group_text(member) is is_of_role
            }
        )
    _write_entities(events, addresses)
    _write_grants(events, ids, addresses)
    _write_generations(events, lines)


def _principals(events: Events) -> set[str]:
    return {name for names in events["member"] for name in names} | {
        names[0] for type_ in ("grant", "user", "group") for names in events[type_]
    }


def _authors(events: Events) -> set[str]:
    return {_author(event) for key_events in events["grant"].values() for event in key_events}


def _author(event: Event) -> str:
    return f"user:{account_of_actor(event.actor)}"


def _validities(events: Sequence[Event]) -> list[Event]:
    """Return the events of a grant or a membership with the columns of its validity as the value."""
    return [
        event._replace(value=tuple(map(database_time, period_of_value(event.value))) if event.value else None)
        for event in events
    ]


_GROUP_TABLE = PeriodTable(GroupPeriod, ("group",), ("name",))
_MEMBERSHIP_TABLE = PeriodTable(MembershipPeriod, ("user", "group"), VALIDITY_COLUMNS)
_ROLE_GROUP_TABLE = PeriodTable(RoleGroupPeriod, ("group", "role"), VALIDITY_COLUMNS)
_GENERATION_TABLE = PeriodTable(GenerationPeriod, (), ("name",))


def _user_table(names: dict[int, str], account_only: Collection[int] = ()) -> PeriodTable:
    """Return the table of users. names: of the users of the events. account_only: new users that are not
    principals.
    """

    def next_value(key: Key, before: tuple | None, changes: dict | None) -> tuple | None:
        if changes is None:
            return None
        (pk,) = key
        new = {
            "is_active": True,
            "is_principal": pk not in account_only,
            "role": str(Role.ORDINARY),
            "is_service": False,
        }
        columns = new if before is None else dict(zip(_USER_COLUMNS, before, strict=True))
        columns |= changes | {"name": names[pk]}
        return tuple(columns[name] for name in _USER_COLUMNS)

    return PeriodTable(UserPeriod, ("user",), _USER_COLUMNS, next_value=next_value)


def _write_users(events: Events, ids: dict[str, int], lines: Sequence[tuple]) -> None:
    late = late_principals(lines)
    for name, revision in late.items():
        # the periods can have been initialized from a table of users that already contained this change
        UserPeriod.objects.filter(user=ids[name], from_revision__lt=revision).update(is_principal=False)
    account_only = {ids[name] for name in _account_only(new_users(lines)) | late.keys()}
    names = {ids[name]: name.partition(":")[2] for (name,) in events["user"]}
    _user_table(names, account_only).write(
        {(ids[name],): key_events for (name,), key_events in events["user"].items()}
    )


def _account_only(names: set[str]) -> set[str]:
    """Return the users that are not principals now. They never were principals. The journal lines of new
    accounts do not contain this."""
    return {
        f"user:{name}"
        for chunk in chunks(name.partition(":")[2] for name in names)
        for name in User.objects.filter(username__in=chunk, is_principal=False).values_list(
            "username", flat=True
        )
    }


def _write_entities(events: Events, addresses: dict[str, Place]) -> None:
    texts = {addresses[text].id: text for (text,) in events["entity"]}

    def containers(key: Key, _: Event) -> tuple:
        kind, _, name = texts[key[0]].partition(":")
        return kind, name, *addresses[texts[key[0]]][1:]

    table = PeriodTable(
        EntityPeriod,
        ("entity",),
        ("state",),
        ("kind", "key", "parent", "namespace", "application"),
        containers,
    )
    table.write(
        {
            (addresses[text].id,): [
                event._replace(value=event.value and (event.value,)) for event in key_events
            ]
            for (text,), key_events in events["entity"].items()
        }
    )


def _write_grants(events: Events, ids: dict[str, int], addresses: dict[str, Place]) -> None:
    places_by_id = {place.id: place for place in addresses.values()}
    patterns = {place.id for text, place in addresses.items() if is_pattern(text)}
    permissions = {str(privilege): pk for privilege, pk in permission_ids().items()}

    def details(key: Key, event: Event) -> tuple:
        place = places_by_id[key[1]]
        return (
            place.namespace,
            place.application,
            ids.get(_author(event)),
            event.reason,
            place.id in patterns,
        )

    for model in GRANT_PERIODS:
        kind = model.principal_type
        table = PeriodTable(model, (kind, "entity", "permission"), VALIDITY_COLUMNS, _GRANT_DETAILS, details)
        table.write(
            {
                (ids[principal], addresses[address].id, permissions[privilege]): _validities(key_events)
                for (principal, address, privilege), key_events in events["grant"].items()
                if type_and_name(principal)[0] == kind and privilege in permissions
            }
        )


def _write_generations(events: Events, lines: Sequence[tuple]) -> None:
    key_events = [event._replace(value=(event.value,)) for event in events["generation"].get((), ())]
    if not key_events:
        return
    if not GenerationPeriod.objects.exists():
        # the first line also names the generation before it
        before = next(filter(None, map(previous_generation, lines)), None)
        if before:
            key_events.insert(0, key_events[0]._replace(revision=0, value=(before,)))
    _GENERATION_TABLE.write({(): key_events})
