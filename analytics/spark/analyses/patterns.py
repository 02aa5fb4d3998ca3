"""The `patterns` analysis: what grants on patterns give, and what of it is used.

A use of anything inside a container counts as a use of the container, because rules also ask for privileges on containers.
What patterns match, and uses, grow with the tenant: they are joined by sorting, and never broadcast.
"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.joins import direct_grants, principal_names, users_of_principals
from analytics.spark.schemas import Tables
from entities.address import kinds_inside

_HOLDER = ("principal_type", "principal_id")
_GRANT = (*_HOLDER, "pattern_id", "privilege")
_ROW = ("principal", "pattern", "privilege")


def rows(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.SURPLUS: one row per grant on a pattern, of a group or an active user."""
    tables = analysis_input.tables
    has_records = not tables.extra["uses"].isEmpty()
    same = Window.partitionBy(*_HOLDER, "privilege", "entity_id")
    direct = direct_grants(tables).select(*_HOLDER, "entity_id", "privilege", F.lit(True).alias("is_direct"))
    given = (
        _matches_by_grant(tables)
        .withColumn("givers", F.count("*").over(same))
        .join(direct.hint("merge"), on=[*_HOLDER, "entity_id", "privilege"], how="left")
        .join(_uses(tables).hint("merge"), on=[*_HOLDER, "entity_id"], how="left")
        .groupBy(*_GRANT)
        .agg(
            F.count("*").alias("entities"),
            F.count_if((F.col("givers") == 1) & F.col("is_direct").isNull()).alias("only"),
            F.count_if(F.col("last_day").isNull()).alias("unused"),
            F.count_if(F.col("registered_at") > F.col("granted_at")).alias("added"),
            F.max("last_day").alias("last_day"),
        )
    )
    matches = tables.extra["matches"].groupBy("pattern_id").agg(F.count("*").alias("matches"))

    def number(name: str) -> Column:
        return F.coalesce(name, F.lit(0)).cast("long").alias(name)

    return (
        tables.extra["patterns"]
        .join(matches, on="pattern_id", how="left")
        .join(given, on=list(_GRANT), how="left")
        .join(_containing(tables), on=list(_GRANT), how="left")
        .join(principal_names(tables), on=list(_HOLDER))
        .select(
            *_ROW,
            number("matches"),
            number("entities"),
            number("only"),
            F.when(F.lit(has_records), F.coalesce("unused", F.lit(0))).cast("long").alias("unused"),
            number("added"),
            F.coalesce("last_day", F.lit("")).alias("last_use"),
            F.coalesce("inside", F.lit("")).alias("inside"),
            (_kind().isin(kinds_inside("namespace")) & _key().startswith("*")).alias("reveals_all"),
        )
    )


def narrower(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.SURPLUS_NARROWER: for each grant that gives something that is not used, the patterns that keep what is used.

    There is one for each namespace: the begin and the end that all used addresses have. A pattern with several wildcards
    has the used addresses instead, because such a pattern might not be inside it.
    """
    tables = analysis_input.tables
    wildcards = F.regexp_replace(_key(), "[^*?]", "")
    by_namespace = F.coalesce("namespace_id", F.lit(-1))
    given = (
        _matches_by_grant(tables)
        .withColumn("place", F.when(wildcards == "*", by_namespace).otherwise(-2 - F.col("entity_id")))
        .withColumn("after", F.length(F.substring_index(_key(), "*", -1)))
    )
    used = (
        given.join(_uses(tables).hint("merge"), on=[*_HOLDER, "entity_id"])
        .groupBy(*_GRANT, "pattern", "place", "after")
        .agg(
            F.min("key").alias("first"),
            F.max("key").alias("last"),
            F.min(F.reverse("key")).alias("first_reversed"),
            F.max(F.reverse("key")).alias("last_reversed"),
            F.min(F.length("key")).alias("least"),
            F.count("*").alias("used"),
        )
    )
    begin, end = _common("first", "last"), _common("first_reversed", "last_reversed")
    # both must fit into the shortest address, and the end of the pattern stays
    end = F.greatest("after", F.least(end, F.col("least") - begin))
    is_one = F.col("first") == F.col("last")
    found = (
        used.withColumn("end", F.when(is_one, F.lit(0)).otherwise(end))
        .withColumn("begin", F.least(begin, F.col("least") - F.col("end")))
        .select(
            *_GRANT,
            "place",
            "used",
            is_one.alias("is_one"),
            F.col("first").substr(F.lit(1), F.col("begin")).alias("begin"),
            F.reverse(F.col("first_reversed").substr(F.lit(1), F.col("end"))).alias("end"),
        )
    )
    key = F.col("key")
    is_between = (
        key.startswith(F.col("begin"))
        & key.endswith(F.col("end"))
        & (F.length(key) >= F.length("begin") + F.length("end"))
    )
    text = F.concat(_kind(), F.lit(":"), "begin", F.when(F.col("is_one"), "").otherwise("*"), "end")
    return (
        given.join(found, on=[*_GRANT, "place"])
        .where(F.when(F.col("is_one"), key == F.col("begin")).otherwise(is_between))
        .groupBy(*_GRANT, "pattern", text.alias("narrower"), "used")
        .agg(F.count("*").alias("entities"))
        .where(F.col("narrower") != F.col("pattern"))
        .join(principal_names(tables), on=list(_HOLDER))
        .join(
            analysis_input.earlier["rows"].where("unused > 0").select(*_ROW), on=list(_ROW), how="left_semi"
        )
        .select(*_ROW, "narrower", "entities", "used")
    )


def kinds(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.SURPLUS_KINDS: what grants on patterns give, by kind."""
    return (
        analysis_input.earlier["rows"]
        .groupBy(_kind().alias("kind"))
        .agg(
            F.count_distinct("pattern").alias("patterns"),
            F.count("*").alias("grants"),
            F.count_if(F.col("matches") == 0).alias("matching_nothing"),
            F.sum("entities").alias("given"),
            F.sum("only").alias("only"),
            F.coalesce(F.sum("unused"), F.lit(0)).alias("unused"),
        )
    )


def _matches_by_grant(tables: Tables) -> DataFrame:
    """Return the grants on patterns with each live entity that the pattern matches, its key and its namespace."""
    live = tables.entities.where(F.col("state") == "live").select(
        F.col("id").alias("entity_id"), "key", "namespace_id"
    )
    matches = tables.extra["matches"].join(live.hint("merge"), on="entity_id")
    return tables.extra["patterns"].join(matches, on="pattern_id")


def _uses(tables: Tables) -> DataFrame:
    """Return the last use of entities, or of something inside them, by the active users of each principal with a grant on a
    pattern: principal_type, principal_id, entity_id and last_day.
    """
    places = F.array_distinct(F.array_compact(F.array("id", "namespace_id", "application_id")))
    entities = tables.entities.select(F.col("id").alias("entity_id"), places.alias("places"))
    holders = tables.extra["patterns"].select(*_HOLDER).distinct()
    users = users_of_principals(tables).join(holders, on=list(_HOLDER), how="left_semi")
    return (
        tables.extra["uses"]
        .join(entities.hint("merge"), on="entity_id")
        .select("user_id", "last_day", F.explode("places").alias("entity_id"))
        .join(users, on="user_id")
        .groupBy(*_HOLDER, "entity_id")
        .agg(F.max("last_day").alias("last_day"))
    )


def _containing(tables: Tables) -> DataFrame:
    """Return for each grant on a pattern, as `inside`, the first other pattern with the same privilege of the principal that
    contains it: that matches its text, where `*` matches all characters, and `?` one that is no `*`.

    A pattern is compared only with those that begin with all that is before its first wildcard.
    """
    literal = F.regexp_extract("pattern", "^[^*?]*", 0)
    patterns = tables.extra["patterns"].withColumn("begin", literal)
    expression: Column | str = "pattern"
    for old, new in (("\\", r"\E\\\Q"), ("*", r"\E.*\Q"), ("?", r"\E[^*]\Q")):
        expression = F.replace(expression, F.lit(old), F.lit(new))
    others = patterns.select(
        *_HOLDER,
        "privilege",
        "begin",
        F.col("pattern").alias("other"),
        F.concat(F.lit(r"^\Q"), expression, F.lit(r"\E$")).alias("expression"),
    )
    begins = F.expr("explode(transform(sequence(1, length(begin)), n -> substr(begin, 1, n)))")
    return (
        patterns.withColumn("begin", begins)
        .join(others, on=[*_HOLDER, "privilege", "begin"])
        .where((F.col("other") != F.col("pattern")) & F.rlike("pattern", F.col("expression")))
        .groupBy(*_GRANT)
        .agg(F.min("other").alias("inside"))
    )


def _common(one: str, other: str) -> Column:
    """Return how many characters two texts have in common at their begin."""
    return F.expr(
        f"coalesce(array_min(filter(sequence(1, length({one})), i -> substr({one}, i, 1) <> substr({other}, i, 1))) - 1, "
        f"length({one}))"
    )


def _kind() -> Column:
    return F.substring_index("pattern", ":", 1)


def _key() -> Column:
    return F.expr("substring(pattern, locate(':', pattern) + 1)")
