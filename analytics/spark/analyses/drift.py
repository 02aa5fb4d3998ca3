"""The `drift` analysis: which privileges active users gained or lost between two revisions, directly and through groups,
and by which journal lines.

A difference needs a grant, a membership or an account that is not the same at both revisions. So the privileges that
such a change touches are the candidates, and only these are looked up at both revisions.
"""

from datetime import timedelta
from functools import lru_cache

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.analyses import DRIFT_DAYS, AnalysisError
from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.joins import principal_text
from analytics.spark.past import PRINCIPAL, Moment, State, lasting, past_addresses, state_at, time_text
from analytics.spark.schemas import Tables
from entities.frozen import frozen

_HELD = ("user_id", "entity_id", "privilege")
_DIFFERS = "before != after"


def rows(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.DRIFT: one row for each privilege that a user holds at one of the revisions only."""
    span = _Span.of(analysis_input)
    principals, grants = span.state.principals, span.state.grants
    candidates = (
        grants.where(_DIFFERS)
        .join(principals, on=PRINCIPAL)
        .select(*_HELD)
        .union(principals.where(_DIFFERS).join(grants, on=PRINCIPAL).select(*_HELD))
        .distinct()
    )
    return (
        candidates.join(
            principals.withColumnsRenamed({"before": "before_of", "after": "after_of"}), on="user_id"
        )
        .join(grants, on=[*PRINCIPAL, "entity_id", "privilege"])
        .groupBy(*_HELD)
        .agg(*(F.bool_or(F.col(name) & F.col(f"{name}_of")).alias(name) for name in ("before", "after")))
        .where(_DIFFERS)
        .join(span.names, on="user_id")
        .join(past_addresses(analysis_input.tables), on="entity_id")
        .select("user", "entity", "privilege", "before", "after")
    )


def lines(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.DRIFT_LINES: the journal lines between the revisions about a grant or membership that gives the
    privilege, or about the account. A period that ended by itself has no line.
    """
    span, extra = _Span.of(analysis_input), analysis_input.tables.extra
    principals = span.state.principals.select(*PRINCIPAL, "user_id")
    drifted = (
        analysis_input.earlier["rows"]
        .join(span.names, on="user")
        .join(past_addresses(analysis_input.tables), on="entity")
        .select("user", "entity", *_HELD)
    )
    through_grants = (
        drifted.join(principals, on="user_id")
        .join(
            span.revisions_of(extra["past_grants"], *PRINCIPAL, "entity_id", "privilege"),
            on=[*PRINCIPAL, "entity_id", "privilege"],
        )
        .select("user", "entity", "privilege", *PRINCIPAL, "revision")
    )
    memberships = span.revisions_of(extra["past_memberships"], "user_id", "group_id").select(
        "user_id", F.lit("group").alias("principal_type"), F.col("group_id").alias("principal_id"), "revision"
    )
    through_memberships = (
        drifted.join(memberships, on="user_id")
        .join(span.state.grants, on=[*PRINCIPAL, "entity_id", "privilege"], how="left_semi")
        .select("user", "entity", "privilege", *PRINCIPAL, "revision")
    )
    activated = span.state.users.where("after and not before")
    through_accounts = (
        drifted.join(activated, on="user_id", how="left_semi")
        .join(span.revisions_of(extra["past_users"], "user_id"), on="user_id")
        .select(
            "user",
            "entity",
            "privilege",
            F.lit("user").alias("principal_type"),
            F.col("user_id").alias("principal_id"),
            "revision",
        )
    )
    return (
        through_grants.union(through_memberships)
        .union(through_accounts)
        .distinct()
        .join(_names_of_principals(analysis_input.tables), on=PRINCIPAL)
        .join(extra["journal"], on="revision")
        .select(
            "user",
            "entity",
            "privilege",
            "revision",
            "through",
            F.concat(F.replace(F.substring("at", 1, 19), F.lit(" "), F.lit("T")), F.lit("Z")).alias("at"),
            "action",
            "author",
        )
    )


def people(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.DRIFT_PEOPLE: the users who gained or lost something."""
    return (
        analysis_input.earlier["rows"]
        .groupBy("user")
        .agg(
            F.count_if("after").alias("gained"),
            F.count_if("before").alias("lost"),
            F.count_distinct("entity").alias("entities"),
        )
    )


@frozen
class _Span:
    """The tenant at two revisions.

    names: user_id and user of the users who are active at the second one. Only these appear in the report.
    state: its flags are `before` and `after`.
    """

    first: Moment
    last: Moment
    names: DataFrame
    state: State

    @staticmethod
    @lru_cache(maxsize=1)
    def of(analysis_input: AnalysisInput) -> "_Span":
        """Return the span of the options. All outputs get the same one. Raise AnalysisError if a revision is not in the
        history.
        """
        tables = analysis_input.tables
        first, last = _moments(analysis_input)
        past_users = tables.extra["past_users"]
        names = past_users.where(F.col("is_active") & lasting(last)).select("user_id", "user")
        state = state_at(tables, names.select("user_id"), before=first, after=last)
        return _Span(first, last, names, state)

    def revisions_of(self, periods: DataFrame, *key: str) -> DataFrame:
        """Return the columns of the key and revision: the lines after the first revision with which a period began or ended."""
        ends = [
            periods.select(*key, F.col(name).alias("revision"))
            for name in ("from_revision", "until_revision")
        ]
        is_between = (F.col("revision") > self.first.revision) & (F.col("revision") <= self.last.revision)
        return ends[0].union(ends[1]).where(is_between).distinct()


def _moments(analysis_input: AnalysisInput) -> tuple[Moment, Moment]:
    """Return the moments of the options. Reads the journal once."""
    assert analysis_input.at is not None
    days_ago = time_text(analysis_input.at - timedelta(days=DRIFT_DAYS))
    defaults = {"from_revision": F.col("at") <= days_ago, "to_revision": F.lit(True)}
    found = (
        analysis_input.tables.extra["journal"]
        .agg(
            *(
                F.max(F.when(_is_line(analysis_input, name, default), F.struct("revision", "at"))).alias(name)
                for name, default in defaults.items()
            )
        )
        .first()
    )
    moments = []
    for name in defaults:
        line = found and found[name]
        revision = int(analysis_input.option(name) or 0)
        if revision and not line:
            raise AnalysisError(f"revision {revision:,} is not in the history of the snapshot")
        moments.append(Moment(*line) if line else Moment(0))
    first, last = moments
    if first.revision > last.revision:
        raise AnalysisError(
            f"revision {last.revision:,} is before revision {first.revision:,}, that of {DRIFT_DAYS} days ago: enter an earlier "
            "one to compare from (from_revision)"
        )
    return first, last


def _is_line(analysis_input: AnalysisInput, option: str, default: Column) -> Column:
    """Return whether a line of the journal can be the one of the option. default: without the option."""
    revision = analysis_input.option(option)
    return F.col("revision") == int(revision) if revision else default


def _names_of_principals(tables: Tables) -> DataFrame:
    """Return principal_type, principal_id and through: the last name of every user and group."""

    def names_of(principal_type: str) -> DataFrame:
        last = F.max_by(principal_type, "from_revision")
        return (
            tables.extra[f"past_{principal_type}s"]
            .groupBy(F.col(f"{principal_type}_id").alias("principal_id"))
            .agg(principal_text(principal_type, last).alias("through"))
            .select(F.lit(principal_type).alias("principal_type"), "principal_id", "through")
        )

    return names_of("user").union(names_of("group"))
