"""Look up the rows of many keys with one statement."""

import json
from collections.abc import Collection, Iterator, Sequence

from django.db import connection, models

_TYPES = {int: "bigint", str: "text"}


def rows_of_keys(
    model: type[models.Model],
    key_columns: Sequence[str],
    keys: Collection[tuple],
    columns: Sequence[str],
    condition: str = "TRUE",
) -> Iterator[tuple]:
    """Yield the values of `key_columns` and `columns` of the rows with one of the keys. Runs one query; none
    without keys.

    keys: integers and texts in the order of `key_columns`; all keys have the same types. They are passed as
    one parameter.
    condition: an SQL condition on the row `p`.
    """
    first = next(iter(keys), None)
    if first is None:
        return
    quote, is_postgresql = connection.ops.quote_name, connection.vendor == "postgresql"
    selected = ", ".join(f"p.{quote(name)}" for name in (*key_columns, *columns))
    same_key = " AND ".join(f"p.{quote(name)} = k.c{number}" for number, name in enumerate(key_columns))
    values = ", ".join(
        f"CAST(value ->> {number} AS {_TYPES[type(part)]}) AS c{number}"
        if is_postgresql
        else f"json_extract(value, '$[{number}]') AS c{number}"
        for number, part in enumerate(first)
    )
    source = "jsonb_array_elements(CAST(%s AS jsonb)) AS element(value)" if is_postgresql else "json_each(%s)"
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {selected} FROM (SELECT {values} FROM {source}) k JOIN {quote(model._meta.db_table)} p "
            f"ON {same_key} AND {condition}",
            [json.dumps(list(keys))],
        )
        yield from cursor.fetchall()
