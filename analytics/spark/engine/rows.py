"""The rows that describe a tenant to the engine: targets, and holdings of principals.

All rows have the same columns. The column `form` says what a row is: a target, or a grant or fact that a
principal holds. Columns that a form does not use contain NONE.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

Array = np.ndarray
# No number: the subtree of an entity outside namespaces, the application of an entity outside applications,
# an unused column.
NONE = -1
USER, GROUP = range(2)
# The id of the group that contains every user. No stored group has it.
EVERYONE = -1
# TARGET: an entity for which rules are evaluated
# GRANT: a grant, in the block of the granted entity
# NAMESPACE_GRANT: a grant on the namespace `entity`, in another block of the namespace
# BELOW: a grant inside the namespace `entity`, sent to the block of the namespace from another block
# ANYWHERE: a privilege that is held anywhere in the namespace `entity`
# PRECOMPUTED: a fact that is known to be true of a principal on `entity`; `selector` is its number
TARGET, GRANT, NAMESPACE_GRANT, BELOW, ANYWHERE, PRECOMPUTED = range(6)

# subtree: the id of the namespace (or application) that contains the entity; all entities of a subtree are evaluated together
# block: the number of a piece of a subtree that is too large for one unit; 0 in subtrees that are not split
# kind: of a target, the number of its kind in the rule set
# entity: the id of the target, or of the granted entity
# application: the id of the application that contains the entity; an application contains itself
# principal_type: USER or GROUP
# principal: the id of the user or group; in a unit, its principal number
# selector: the number of the privilege or fact
COLUMNS: dict[str, str] = {
    "form": "tinyint",
    "subtree": "bigint",
    "block": "int",
    "kind": "int",
    "entity": "bigint",
    "application": "bigint",
    "principal_type": "tinyint",
    "principal": "bigint",
    "selector": "int",
}


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Some rows, by column."""

    form: Array
    subtree: Array
    block: Array
    kind: Array
    entity: Array
    application: Array
    principal_type: Array
    principal: Array
    selector: Array

    def select(self, selection: Array) -> "Rows":
        """Return the selected rows. selection: an array of row indexes, or a mask."""
        return Rows(*(getattr(self, name)[selection] for name in COLUMNS))


def decode_batches(batches: list[pa.RecordBatch]) -> tuple[Rows, pa.Array | None]:
    """Return (rows, the column `name` if there is one: the addresses of the targets)."""
    table = pa.Table.from_batches(batches).combine_chunks()
    names = table["name"].combine_chunks() if "name" in table.column_names else None
    return Rows(*(table[name].to_numpy() for name in COLUMNS)), names
