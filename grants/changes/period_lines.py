"""Write one journal line for each grant and membership whose period began or ended.

Periods take effect to the second without these lines, which change no stored state: rows stay until they are
revoked. The lines are the record and the notification (webhooks) of what time alone changed.

INVARIANT: the position of a source only moves forward. So no line is written twice, also if the clock is set
back; the journal gives no line an earlier time than the line before.
"""

from datetime import datetime
from operator import itemgetter
from time import monotonic
from typing import NamedTuple

from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from grants.authority.transactions import administrator_transaction
from grants.journal import Author, JournalEntry, append_to_journal
from grants.journal_details import period_detail
from grants.models import PRINCIPAL_TYPES, GrantDetails, Membership, PeriodPosition, RoleGroup, privilege_of
from grants.policies.principals import group_text, principal_text
from grants.validity import VALIDITY_COLUMNS, Validity, next_change_of_time

AUTHOR = Author("periods")
EXPIRE_ACTION = "expire"
ACTIONS = dict(zip(VALIDITY_COLUMNS, ("begin", EXPIRE_ACTION), strict=True))
# A transaction holds the lock of the journal, for which every other change waits.
LINES_PER_TRANSACTION = 1_000
# The queue of the task also serves other tasks. The next task continues.
MAX_SECONDS = 20.0
_LAST_ROW = 2**63 - 1


class PeriodColumn(NamedTuple):
    """A column of a table: `valid_from` or `valid_until` of the grants of users, those of groups, or the
    memberships of users or groups.
    """

    model: type[models.Model]
    column: str
    names: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.model._meta.model_name}.{self.column}"


_GRANT_COLUMNS = ("content_object__kind", "content_object__key", "permission_id")
_TABLES = [
    *((row.grant_model, (row.name_path, *_GRANT_COLUMNS)) for row in PRINCIPAL_TYPES.values()),
    (Membership, ("user__username", "group__name")),
    (RoleGroup, ("group__name", "role__name")),
]
SOURCES = [PeriodColumn(model, column, names) for model, names in _TABLES for column in VALIDITY_COLUMNS]


def write_period_lines() -> int:
    """Write the lines that are due, in transactions of LINES_PER_TRANSACTION lines, for MAX_SECONDS. Return
    their number.

    Runs two queries, and takes no lock, if nothing is due. Raise JournalReadOnly if the journal cannot be
    written.
    """
    total, deadline = 0, monotonic() + MAX_SECONDS
    while monotonic() < deadline and _is_due(timezone.now()):
        total += _write_batch()
    return total


def _is_due(now: datetime) -> bool:
    positions = list(PeriodPosition.objects.values_list("at", "row"))
    if len(positions) < len(SOURCES) or any(row != _LAST_ROW for _, row in positions):
        return True
    next_change = next_change_of_time(min(at for at, _ in positions))
    return next_change is not None and next_change <= now


def _write_batch() -> int:
    """Write the first lines that are due, in the order of their times. Return their number."""
    with administrator_transaction(AUTHOR) as head:
        # under the lock of the journal, so that no period changes after it was read and before its line is
        # written
        now = timezone.now()
        positions = {position.source: position for position in PeriodPosition.objects.all()}
        due_by_source = {
            source: _due_rows(source, positions[source.name], now)
            for source in SOURCES
            if source.name in positions
        }
        due = sorted(
            ((at, source, pk, change) for source, rows in due_by_source.items() for at, pk, change in rows),
            key=itemgetter(0),
        )
        written = due[:LINES_PER_TRANSACTION]
        if changes := [change for *_, change in written if change is not None]:
            append_to_journal(head, changes, author=AUTHOR)
        is_done = len(due) == len(written) and all(
            len(rows) < LINES_PER_TRANSACTION for rows in due_by_source.values()
        )
        if is_done:
            for source in SOURCES:
                at = max(now, positions[source.name].at) if source.name in positions else now
                _move(source, at, _LAST_ROW)
        else:
            for at, source, pk, _ in written:
                positions[source.name].at, positions[source.name].row = at, pk
            PeriodPosition.objects.bulk_update(positions.values(), ["at", "row"])
    return len(changes)


def _move(source: PeriodColumn, at: datetime, row: int) -> None:
    PeriodPosition.objects.update_or_create(source=source.name, defaults={"at": at, "row": row})


def _due_rows(
    source: PeriodColumn, position: PeriodPosition, now: datetime
) -> list[tuple[datetime, int, JournalEntry | None]]:
    """Return time, primary key and change of the next rows after the position, at most LINES_PER_TRANSACTION.

    For a grant that was made after its beginning or end, the change is None, because the line of the grant
    says when it counts.
    """
    column = source.column
    # the first condition uses the index of the column
    rows = source.model._default_manager.filter(
        Q(**{f"{column}__gt": position.at}) | Q(pk__gt=position.row),
        **{f"{column}__gte": position.at, f"{column}__lte": now},
    ).order_by(column, "pk")
    granted_at = "granted_at" if issubclass(source.model, GrantDetails) else column
    values = rows.values_list(column, "pk", F(granted_at), *VALIDITY_COLUMNS, *source.names)
    return [
        (at, pk, None if granted_at > at else _change(source, Validity(valid_from, valid_until), names))
        for at, pk, granted_at, valid_from, valid_until, *names in values[:LINES_PER_TRANSACTION]
    ]


def _change(source: PeriodColumn, period: Validity, names: list) -> JournalEntry:
    action = ACTIONS[source.column]
    if source.model in (Membership, RoleGroup):
        member, group = names
        principal = principal_text("user" if source.model is Membership else "group", member)
        return JournalEntry(action, principal=principal, detail=period_detail(period, group_text(group)))
    name, kind, key, permission = names
    return JournalEntry(
        action,
        principal_text(source.model.principal_type, name),
        f"{kind}:{key}",
        privilege_of(permission).value,
        period_detail(period),
    )
