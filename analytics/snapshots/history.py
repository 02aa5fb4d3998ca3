"""The rows of the history in a snapshot: `analytics.tables.HISTORY_TABLES`."""

from collections.abc import Iterator

from django.db.models import BooleanField, Case, CharField, F, Func, Q, QuerySet, Value, When

from analytics.tables import (
    JOURNAL,
    PAST_ADDRESSES,
    PAST_GRANTS,
    PAST_GROUPS,
    PAST_MEMBERSHIPS,
    PAST_USERS,
    Table,
)
from grants.models import JournalLine, permission_ids
from grants.models.history import (
    GRANT_PERIODS,
    GroupPeriod,
    HistoryAddress,
    HistoryPosition,
    MembershipPeriod,
    RoleMembershipPeriod,
    UserPeriod,
)

_PERIOD = ("from_revision", "until_revision")


class _ExactTime(Func):
    """A time in UTC as a text that sorts like the time: `2026-02-01 08:30:00.123456`."""

    output_field = CharField()

    def as_postgresql(self, compiler, connection, **context):
        template = "to_char(%(expressions)s AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"
        return self.as_sql(compiler, connection, template=template, **context)

    def as_sqlite(self, compiler, connection, **context):
        # SQLite stores times as such texts
        return self.as_sql(compiler, connection, template="CAST(%(expressions)s AS text)", **context)


_LIMITED_PERIOD = (_ExactTime("valid_from"), _ExactTime("valid_until"), *_PERIOD)


def history_revision() -> int:
    """Return the last journal line in the history; 0 if there is none. Runs one query."""
    return HistoryPosition.objects.values_list("revision", flat=True).first() or 0


def history_rows() -> Iterator[tuple[Table, tuple[QuerySet, ...]]]:
    """Yield each table with the querysets of its rows, with values in the order of the columns."""
    yield PAST_ADDRESSES, (HistoryAddress.objects.values_list("id", "kind", "key"),)
    is_active = Case(
        When(Q(is_active=True, is_principal=True), then=Value(True)),
        default=Value(False),
        output_field=BooleanField(),
    )
    yield PAST_USERS, (UserPeriod.objects.values_list("user", "name", is_active, *_PERIOD),)
    yield PAST_GROUPS, (GroupPeriod.objects.values_list("group", "name", *_PERIOD),)
    yield (
        PAST_MEMBERSHIPS,
        tuple(
            model.objects.values_list("user", "group", *_LIMITED_PERIOD)
            for model in (MembershipPeriod, RoleMembershipPeriod)
        ),
    )
    privilege = Case(
        *(When(permission=pk, then=Value(privilege.value)) for privilege, pk in permission_ids().items()),
        output_field=CharField(),
    )
    yield (
        PAST_GRANTS,
        tuple(
            model.objects.values_list(
                Value(model.principal_type), F(model.principal_type), "entity", privilege, *_LIMITED_PERIOD
            )
            for model in GRANT_PERIODS
        ),
    )
    lines = JournalLine.objects.filter(revision__lte=history_revision()).order_by()
    yield JOURNAL, (lines.values_list("revision", _ExactTime("at"), "action", "actor"),)
