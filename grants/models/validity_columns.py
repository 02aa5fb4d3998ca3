"""The columns of a validity period, which grants, memberships and plan items have, and the lookup that
compares them.
"""

from collections.abc import Sequence
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import F, Lookup, Q
from django.db.models.sql.compiler import SQLCompiler

from grants.validity import Validity, in_force_sql


class ValidityColumns(models.Model):
    """From when and until when a row counts; null for no limit. `grants.validity` defines the meaning.

    INVARIANT: both times are whole seconds, and `valid_from` is before `valid_until`.
    """

    valid_from = models.DateTimeField(null=True, blank=True)
    valid_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        abstract = True

    @property
    def validity(self) -> Validity:
        return Validity(self.valid_from, self.valid_until)


def validity_constraint(prefix: str) -> models.CheckConstraint:
    """Return the constraint that a period does not end before it begins."""
    return models.CheckConstraint(condition=Q(valid_from__lt=F("valid_until")), name=f"{prefix}_validity")


def validity_indexes(prefix: str) -> list[models.Index]:
    """Return the indexes that find the next row to begin or to end.

    Few rows have a period, so they are small.
    """
    return [
        models.Index(fields=[column], name=f"{prefix}_{column}", condition=Q(**{f"{column}__isnull": False}))
        for column in ("valid_from", "valid_until")
    ]


class InForce(Lookup):
    """`pk__in_force=at` selects the rows whose validity includes a time. Only for models with
    ValidityColumns.

    It is a lookup of the primary key, because Django adds conditions to negated lookups of columns that can
    be null. One lookup takes Django a fraction of the time of four comparisons.
    """

    lookup_name = "in_force"
    prepare_rhs = False

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, Sequence[Any]]:  # type: ignore[override]
        column, parameters = self.process_lhs(compiler, connection)
        table, _, _ = column.rpartition(".")
        at = connection.ops.adapt_datetimefield_value(self.rhs)
        return f"({in_force_sql(table, '%s')})", (*parameters, at, at)
