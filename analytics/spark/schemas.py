"""Spark schemas of the tables in `analytics.tables`, and functions that read and write them as Parquet."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from analytics.spark.sorted_table import SortedTable, is_shared, write_files
from analytics.tables import SNAPSHOT_TABLES, ColumnType, Table

# where Spark stores the schema with the comments in a Parquet file
_SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"
_TYPES = {ColumnType.LONG: LongType(), ColumnType.TEXT: StringType(), ColumnType.FLAG: BooleanType()}


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """The snapshot of a tenant at one revision. The columns of each frame are in `analytics.tables`.

    is_small: one Python worker can process the whole tenant. Each frame then has one partition.
    extra: by name, the EXTRA_TABLES that the analysis reads.
    """

    entities: DataFrame
    users: DataFrame
    inactive_users: DataFrame
    groups: DataFrame
    memberships: DataFrame
    grants: DataFrame
    revealed: DataFrame
    is_small: bool = False
    extra: Mapping[str, DataFrame] = field(default_factory=dict)


def schema_of(table: Table) -> StructType:
    """Return the Spark schema of a table, with the meanings of the columns as comments."""
    return StructType(
        [StructField(c.name, _TYPES[c.type], c.nullable, {"comment": c.meaning}) for c in table.columns]
    )


def read_table(spark: SparkSession, table: Table, uri: str) -> DataFrame:
    """Return a stored table.

    The given schema makes it possible to read the folder of a table without rows.
    """
    return spark.read.schema(schema_of(table)).parquet(uri)


def read_snapshot(
    spark: SparkSession, uri: str, *, is_small: bool = False, extra_tables: Iterable[Table] = ()
) -> Tables:
    """Return a snapshot. uri: the URI of the folder with one folder for each table. is_small, extra_tables: see `Tables`."""

    def frames(tables: Iterable[Table]) -> dict[str, DataFrame]:
        stored = {table.name: read_table(spark, table, f"{uri}/{table.name}") for table in tables}
        return {name: frame.coalesce(1) if is_small else frame for name, frame in stored.items()}

    return Tables(**frames(SNAPSHOT_TABLES), is_small=is_small, extra=frames(extra_tables))


def write_table(rows: DataFrame | SortedTable, table: Table, uri: str) -> None:
    """Write a table sorted by its key, and replace an existing table.

    The file names have the order of the key.
    """
    if isinstance(rows, SortedTable) and is_shared(uri):
        write_files(rows, uri, {_SPARK_SCHEMA: schema_of(table).json()})
        return
    frame = rows.frame if isinstance(rows, SortedTable) else rows.orderBy(*table.key)
    typed = frame.select(
        *[
            F.col(c.name).cast(c.type.value).alias(c.name, metadata={"comment": c.meaning})
            for c in table.columns
        ]
    )
    typed.write.mode("overwrite").parquet(uri)
