"""Spark's schemas of the tables, and reading and writing them as Parquet."""

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from analytics.spark.in_order import InOrder, files_write, is_shared
from analytics.tables import SNAPSHOT_TABLES, ColumnType, Table

_TYPES = {ColumnType.LONG: LongType(), ColumnType.TEXT: StringType(), ColumnType.FLAG: BooleanType()}


@dataclass(frozen=True, slots=True)
class Tables:
    """One revision of the tenant; each frame as in analytics.tables.

    is_little: so small that one Python worker is given all of it; each frame is one partition then.
    """

    entities: DataFrame
    users: DataFrame
    groups: DataFrame
    memberships: DataFrame
    grants: DataFrame
    is_little: bool = False


def schema_of(table: Table) -> StructType:
    return StructType([StructField(c.name, _TYPES[c.type], c.nullable) for c in table.columns])


def table_read(spark: SparkSession, table: Table, uri: str) -> DataFrame:
    # the schema is given, so an empty folder of a table without rows reads as a table without rows
    return spark.read.schema(schema_of(table)).parquet(uri)


def snapshot_read(spark: SparkSession, uri: str, *, is_little: bool = False) -> Tables:
    """uri: the folder that holds one folder per table. is_little: as Tables."""
    frames = {table.name: table_read(spark, table, f"{uri}/{table.name}") for table in SNAPSHOT_TABLES}
    return Tables(**{name: frame.coalesce(1) if is_little else frame for name, frame in frames.items()}, is_little=is_little)


def table_write(made: DataFrame | InOrder, table: Table, uri: str) -> None:
    """Write sorted by the table's key; file names follow that order. Replaces what is there."""
    if isinstance(made, InOrder) and is_shared(uri):
        files_write(made, uri)
        return
    frame = made.frame if isinstance(made, InOrder) else made.orderBy(*table.key)
    chosen = frame.select(*[F.col(c.name).cast(c.type.value).alias(c.name) for c in table.columns])
    chosen.write.mode("overwrite").parquet(uri)
