"""Write differences between two revisions as CSV and JSON Lines."""

import dataclasses
from collections.abc import Iterable

from django.http import StreamingHttpResponse

from analytics.tables import Column, ColumnType, Table
from authzconsole.common.downloads.table_files import table_file
from grants.history.differences import Difference

_COLUMNS = tuple(field.name for field in dataclasses.fields(Difference))
_TABLE = Table(
    "differences",
    tuple(Column(name, ColumnType.TEXT) for name in _COLUMNS),
    ("what", "principal", "entity", "value"),
)


def difference_as_json(difference: Difference) -> dict:
    """Return the members of a difference; its time is a text."""
    at = difference.at.isoformat().replace("+00:00", "Z") if difference.at else None
    return dataclasses.asdict(difference) | {"at": at}


def difference_file(differences: Iterable[Difference], extension: str) -> StreamingHttpResponse:
    """Return the response with one line for each difference."""
    return table_file(
        _TABLE,
        extension,
        _TABLE.name,
        objects=(difference_as_json(difference) for difference in differences),
        rows=(
            {name: str(value or "") for name, value in difference_as_json(difference).items()}
            for difference in differences
        ),
    )
