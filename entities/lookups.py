"""Define lookups that pass any number of ids or texts as one parameter of a statement."""

import json
from collections.abc import Sequence
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Lookup
from django.db.models.sql.compiler import SQLCompiler

Statement = tuple[str, Sequence[Any]]


class Among(Lookup):
    """`pk__among=[...]` selects the same rows as `pk__in`, but with one parameter.

    `pk__in` passes each id as a parameter. Thousands of parameters take time to write, send and plan.
    """

    lookup_name = "among"
    prepare_rhs = False
    array_type = "bigint"

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> Statement:  # type: ignore[override]
        left, parameters = self._left_side(compiler, connection)
        return f"{left} IN (SELECT value FROM json_each(%s))", (*parameters, json.dumps(list(self.rhs)))

    def as_postgresql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> Statement:
        left, parameters = self._left_side(compiler, connection)
        return f"{left} = ANY(%s::{self.array_type}[])", (*parameters, list(self.rhs))

    def _left_side(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> Statement:
        if not self.rhs:
            # Django then executes no query, as with an empty `pk__in`
            raise EmptyResultSet
        return self.process_lhs(compiler, connection)


class AmongTexts(Among):
    """`name__among=[...]` selects the same rows as `name__in`, but with one parameter."""

    array_type = "text"
