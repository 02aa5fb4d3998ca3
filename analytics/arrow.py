"""Arrow schemas of the tables in `analytics.tables`."""

import pyarrow as pa

from analytics.tables import ColumnType, Table

_TYPES = {ColumnType.LONG: pa.int64(), ColumnType.TEXT: pa.string(), ColumnType.FLAG: pa.bool_()}


def arrow_schema(table: Table) -> pa.Schema:
    """Return the Arrow schema of a table."""
    return pa.schema(
        [pa.field(column.name, _TYPES[column.type], nullable=column.nullable) for column in table.columns]
    )
