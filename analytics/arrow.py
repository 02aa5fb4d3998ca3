"""Arrow schemas of the tables in `analytics.tables`."""

import pyarrow as pa

from analytics.tables import ColumnType, Table

_TYPES = {ColumnType.LONG: pa.int64(), ColumnType.TEXT: pa.string(), ColumnType.FLAG: pa.bool_()}


def arrow_schema(table: Table) -> pa.Schema:
    """Return the Arrow schema of a table. The metadata of each field has the meaning of the column as `comment`."""
    return pa.schema(
        [
            pa.field(
                column.name,
                _TYPES[column.type],
                nullable=column.nullable,
                metadata={"comment": column.meaning} if column.meaning else None,
            )
            for column in table.columns
        ]
    )
