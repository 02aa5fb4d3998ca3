"""Query the state at an earlier revision: inside `as_of`, the names of the tables refer to temporary views
over the periods.

A temporary view takes precedence over a table of the same name, on PostgreSQL and on SQLite. So every query
answers for the past unchanged. The views are created in a transaction that is always rolled back, so no other
connection and no later query sees them.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime

from django.contrib.auth.models import Group
from django.db import connection, models, transaction

from entities.models import PATTERN, Entity
from entities.patterns import matches_sql, reveals_sql
from grants.history.errors import HistoryError
from grants.history.moments import Moment, check_revision, revision_time
from grants.history.periods import catch_up_for_read
from grants.models import (
    BELONGING_SELECT,
    PRINCIPAL_TYPES,
    ActiveGeneration,
    Belonging,
    Remark,
    RoleGroup,
    RoleMembership,
    User,
)
from grants.models.history import (
    GRANT_PERIODS,
    EntityPeriod,
    GenerationPeriod,
    GrantPeriod,
    GroupPeriod,
    HistoryAddress,
    MembershipPeriod,
    RoleGroupPeriod,
    RoleMembershipPeriod,
    UserPeriod,
)
from grants.validity import at_time

_ATTRIBUTE = "history_revision"


@contextmanager
def as_of(revision: int, at: datetime | None = None) -> Iterator[None]:
    """Make the queries of this thread return the state after the journal line `revision`, until the context
    exits.

    at: the time of the questions inside, by default that of the line (grants.validity). Load all users,
    groups and entities inside: their ids differ from those outside, so rows of the present match nothing.
    Evaluate querysets inside too. Writing inside is an error of the database. Everything inside is rolled
    back. Runs three queries, and a statement for each table; more if the journal has new lines. Raise AsOfError
    for an unknown revision, HistoryNotReady if the periods are far behind, HistoryError if used inside
    itself.
    """
    if past_revision() is not None:
        raise HistoryError("a question about the past cannot be asked inside another one")
    # the query for the time also shows that the revision exists
    line_time = revision_time(revision)
    if line_time is None:
        check_revision(revision)
    catch_up_for_read()
    with at_time(at or line_time), _reading_transaction():
        try:
            with connection.cursor() as cursor, _statements_on_views():
                _create_views(cursor, revision)
                setattr(connection, _ATTRIBUTE, revision)
                yield
        finally:
            setattr(connection, _ATTRIBUTE, None)
            if connection.vendor == "sqlite":
                _set_read_only_on_sqlite(False)
            transaction.set_rollback(True)


@contextmanager
def at_moment(moment: Moment) -> Iterator[None]:
    """Answer the questions of this thread for the state and the time of a moment, until the context exits;
    see `as_of`.
    """
    with at_time(moment.at) if moment.revision is None else as_of(moment.revision, moment.at):
        yield


def past_revision() -> int | None:
    """Return the revision of the surrounding `as_of`; None in the present."""
    return getattr(connection, _ATTRIBUTE, None)


def _create_views(cursor, revision: int) -> None:
    statements = list(view_statements(revision))
    if connection.vendor == "postgresql":
        # in one round trip; also refuse changes until the end of the transaction, or of the savepoint
        cursor.execute(";".join([*statements, "SET TRANSACTION READ ONLY"]))
        return
    for statement in statements:
        cursor.execute(statement)
    _set_read_only_on_sqlite(True)


def _set_read_only_on_sqlite(is_read_only: bool) -> None:
    connection.connection.execute(f"PRAGMA query_only = {int(is_read_only)}")


@contextmanager
def _reading_transaction() -> Iterator[None]:
    """Open a transaction, or a savepoint in one. On SQLite, a new transaction does not wait for writers."""
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        with transaction.atomic():
            yield
        return
    connection.ensure_connection()
    # the settings use BEGIN IMMEDIATE, which takes the write lock
    mode, connection.transaction_mode = connection.transaction_mode, "DEFERRED"
    try:
        with transaction.atomic():
            connection.transaction_mode = mode
            yield
    finally:
        connection.transaction_mode = mode


@contextmanager
def _statements_on_views() -> Iterator[None]:
    """Let psycopg and Django write statements that PostgreSQL accepts for views.

    Prepared statements refer to the tables, so psycopg prepares none and uses none. Views have no primary
    key, so Django groups by all columns that it selects.
    """
    if connection.vendor != "postgresql":
        yield
        return
    database, features = connection.connection, connection.features
    threshold, groups_by_key = database.prepare_threshold, features.allows_group_by_selected_pks
    database.prepare_threshold, features.allows_group_by_selected_pks = None, False
    try:
        yield
    finally:
        database.prepare_threshold, features.allows_group_by_selected_pks = threshold, groups_by_key


# The table, its periods, and for each field with another name in the periods: the column there. A number is a constant.
_SOURCES: tuple[tuple[type[models.Model], type[models.Model], Mapping[str, str]], ...] = (
    (User, UserPeriod, {"id": "user", "username": "name", "date_joined": "since"}),
    (Group, GroupPeriod, {"id": "group"}),
    (User.groups.through, MembershipPeriod, {}),
    (RoleGroup, RoleGroupPeriod, {}),
    (RoleMembership, RoleMembershipPeriod, {"role": "group", "via": "role_group"}),
    *(
        (
            PRINCIPAL_TYPES[model.principal_type].grant_model,
            model,
            {"content_object": "entity", "granted_at": "since"},
        )
        for model in GRANT_PERIODS
    ),
    (Entity, EntityPeriod, {"id": "entity", "created_at": "since", "changed_at": "since"}),
    (ActiveGeneration, GenerationPeriod, {"id": "1"}),
)


def view_statements(revision: int) -> Iterator[str]:
    """Yield the statements that create the views of the state after the journal line `revision`."""
    quote = connection.ops.quote_name
    for table, periods, columns in _SOURCES:
        sources = {field.name: field.name for field in periods._meta.concrete_fields} | columns
        expressions = {
            field.name: _expression(field, sources.get(field.name)) for field in table._meta.concrete_fields
        }
        selects = [f"SELECT {_selected(table, expressions)} FROM {_rows(periods, revision, 'g')}"]
        if issubclass(periods, GrantPeriod):
            selects += _derived_selects(table, periods, expressions, revision)
        elif table is Entity:
            selects.append(_patterns_select(expressions))
        yield f"CREATE TEMPORARY VIEW {quote(table._meta.db_table)} AS {' UNION ALL '.join(selects)}"
    # the view of the present reads the tables of the present
    has_roles = RoleGroupPeriod.objects.filter(from_revision__lte=revision).exists()
    # without the join of periods, PostgreSQL reads the memberships of one group by an index
    select = BELONGING_SELECT if has_roles else BELONGING_SELECT.partition("UNION")[0]
    yield f"CREATE TEMPORARY VIEW {quote(Belonging._meta.db_table)} AS {select}"
    # the policies of that time are not known
    nothing = {
        field.name: f"CAST(NULL AS {field.db_type(connection)})" for field in Remark._meta.concrete_fields
    }
    yield f"CREATE TEMPORARY VIEW {quote(Remark._meta.db_table)} AS SELECT {_selected(Remark, nothing)} WHERE FALSE"


def _selected(table: type[models.Model], expressions: Mapping[str, str]) -> str:
    quote = connection.ops.quote_name
    return ", ".join(
        f"{expressions[field.name]} AS {quote(field.column)}" for field in table._meta.concrete_fields
    )


def _rows(periods: type[models.Model], revision: int, alias: str) -> str:
    """Return the table with the condition that a period includes the revision."""
    return (
        f"{connection.ops.quote_name(periods._meta.db_table)} {alias} WHERE {alias}.from_revision <= {int(revision)} "
        f"AND ({alias}.until_revision IS NULL OR {alias}.until_revision > {int(revision)})"
    )


def _derived_selects(
    table: type[models.Model], periods: type[GrantPeriod], expressions: Mapping[str, str], revision: int
) -> list[str]:
    """Select what follows from the grants on patterns: on addresses, and on the containers that they reveal."""
    of_address = dict(expressions) | {
        "content_object": "e.entity",
        "namespace": "e.namespace",
        "application": "e.application",
        "pattern": "p.id",
    }
    source = (
        f"{HistoryAddress._meta.db_table} p CROSS JOIN (SELECT * FROM {_rows(EntityPeriod, revision, 'x')}) e "
        f"CROSS JOIN {_rows(periods, revision, 'g')} AND g.is_on_pattern AND p.id = g.entity"
    )
    return [
        f"SELECT {_selected(table, of_address)} FROM {source} AND {matches_sql('p', 'e')}",
        f"SELECT {_selected(table, of_address | {'content_object': 'p.id'})} FROM {source} AND {reveals_sql('p', 'e')}",
    ]


def _patterns_select(expressions: Mapping[str, str]) -> str:
    """Select the rows of the patterns of all times."""
    of_pattern = {name: "NULL" if text.startswith("g.") else text for name, text in expressions.items()} | {
        "id": "p.id",
        "kind": "p.kind",
        "key": "p.key",
        "state": f"'{PATTERN}'",
    }
    grants = " UNION ".join(
        f"SELECT entity FROM {periods._meta.db_table} WHERE is_on_pattern" for periods in GRANT_PERIODS
    )
    return f"SELECT {_selected(Entity, of_pattern)} FROM {HistoryAddress._meta.db_table} p WHERE p.id IN ({grants})"


def _expression(field: models.Field, source: str | None) -> str:
    if source is not None:
        return source if source.isdecimal() else f"g.{connection.ops.quote_name(source)}"
    return f"CAST({_constant(field)} AS {field.db_type(connection)})"


def _constant(field: models.Field) -> str:
    """Return the literal for a column that the history does not know: null, or an empty value."""
    if field.null:
        return "NULL"
    if isinstance(field, models.BooleanField):
        return "FALSE"
    if isinstance(field, models.CharField | models.TextField):
        return "''"
    raise TypeError(f"the column {field} has no constant for the past: add it to the periods")
