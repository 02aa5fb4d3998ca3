"""The `drift` analysis: which privileges active users gained or lost between two revisions, directly and through groups,
and by which journal lines.

A difference needs a grant, a membership or an account that is not the same at both revisions. So the privileges that
such a change touches are the candidates, and only these are looked up at both revisions.
"""

from dataclasses import dataclass
from datetime import timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.analyses import DRIFT_DAYS, AnalysisError
from analytics.spark.analysis_input import AnalysisInput
from analytics.spark.schemas import Tables

_PRINCIPAL = ["principal_type", "principal_id"]
_HELD = ("user_id", "entity_id", "privilege")
# like the texts of times in the tables of the history
_TIME_FORMAT = "%Y-%m-%d %H:%M:%S.%f"


@dataclass(frozen=True, slots=True)
class _Moment:
    """A journal line and its time; revision 0 is before the first line."""

    revision: int
    at: str = ""


@dataclass(frozen=True, slots=True)
class _State:
    """The tenant at a moment.

    users: user_id of the active users. principals: principal_type, principal_id and user_id, for each principal the
    users who get its grants. grants: principal_type, principal_id, entity_id and privilege.
    """

    users: DataFrame
    principals: DataFrame
    grants: DataFrame


def rows(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.DRIFT: one row for each privilege that a user holds at one of the revisions only."""
    span = _Span.of(analysis_input)
    principals, grants = span.both("principals"), span.both("grants")
    candidates = (
        span.differing("grants")
        .join(principals, on=_PRINCIPAL)
        .select(*_HELD)
        .union(span.differing("principals").join(grants, on=_PRINCIPAL).select(*_HELD))
        .distinct()
    )
    held = [
        candidates.join(state.principals, on="user_id")
        .join(state.grants, on=[*_PRINCIPAL, "entity_id", "privilege"], how="left_semi")
        .select(*_HELD, F.lit(is_after).alias("after"))
        .distinct()
        for state, is_after in ((span.before, False), (span.after, True))
    ]
    return (
        reduce(DataFrame.union, held)
        .groupBy(*_HELD)
        .agg(F.count("*").alias("times"), F.max("after").alias("after"))
        .where(F.col("times") == 1)
        .join(span.names, on="user_id")
        .join(_addresses(analysis_input.tables), on="entity_id")
        .select("user", "entity", "privilege", (~F.col("after")).alias("before"), "after")
    )


def lines(analysis_input: AnalysisInput) -> DataFrame:
    """Return tables.DRIFT_LINES: the journal lines between the revisions about a grant or membership that gives the
    privilege, or about the account. A period that ended by itself has no line.
    """
    span, extra = _Span.of(analysis_input), analysis_input.tables.extra
    drifted = (
        analysis_input.earlier["rows"]
        .join(span.names, on="user")
        .join(_addresses(analysis_input.tables), on="entity")
        .select("user", "entity", *_HELD)
    )
    through_grants = (
        drifted.join(span.both("principals"), on="user_id")
        .join(
            span.revisions_of(extra["past_grants"], *_PRINCIPAL, "entity_id", "privilege"),
            on=[*_PRINCIPAL, "entity_id", "privilege"],
        )
        .select("user", "entity", "privilege", *_PRINCIPAL, "revision")
    )
    memberships = span.revisions_of(extra["past_memberships"], "user_id", "group_id").select(
        "user_id", F.lit("group").alias("principal_type"), F.col("group_id").alias("principal_id"), "revision"
    )
    through_memberships = (
        drifted.join(memberships, on="user_id")
        .join(span.both("grants"), on=[*_PRINCIPAL, "entity_id", "privilege"], how="left_semi")
        .select("user", "entity", "privilege", *_PRINCIPAL, "revision")
    )
    activated = span.after.users.join(span.before.users, on="user_id", how="left_anti")
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
        .join(_names_of_principals(analysis_input.tables), on=_PRINCIPAL)
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


@dataclass(frozen=True, slots=True)
class _Span:
    """The tenant at two revisions.

    names: user_id and user of the users who are active at the second one. Only these appear in the report.
    """

    first: _Moment
    last: _Moment
    names: DataFrame
    before: _State
    after: _State

    @classmethod
    def of(cls, analysis_input: AnalysisInput) -> "_Span":
        """Return the span of the options. Raise AnalysisError if a revision is not in the history."""
        tables = analysis_input.tables
        first, last = _moments(analysis_input)
        names = _lasting(tables.extra["past_users"], last).where("is_active").select("user_id", "user")
        return cls(
            first,
            last,
            names,
            _state(tables, first, names.select("user_id")),
            _state(tables, last, names.select("user_id")),
        )

    def both(self, name: str) -> DataFrame:
        """Return the rows of a frame of the states that are in one of them or in both."""
        return getattr(self.before, name).union(getattr(self.after, name)).distinct()

    def differing(self, name: str) -> DataFrame:
        """Return the rows of a frame of the states that are in one of them only."""
        before, after = getattr(self.before, name), getattr(self.after, name)
        return before.subtract(after).union(after.subtract(before))

    def revisions_of(self, periods: DataFrame, *key: str) -> DataFrame:
        """Return the columns of the key and revision: the lines after the first revision with which a period began or ended."""
        ends = [
            periods.select(*key, F.col(name).alias("revision"))
            for name in ("from_revision", "until_revision")
        ]
        is_between = (F.col("revision") > self.first.revision) & (F.col("revision") <= self.last.revision)
        return ends[0].union(ends[1]).where(is_between).distinct()


def _moments(analysis_input: AnalysisInput) -> tuple[_Moment, _Moment]:
    journal = analysis_input.tables.extra["journal"]
    assert analysis_input.at is not None
    days_ago = (analysis_input.at - timedelta(days=DRIFT_DAYS)).strftime(_TIME_FORMAT)
    defaults = journal.agg(
        F.max(F.when(F.col("at") <= days_ago, F.col("revision"))).alias("from_revision"),
        F.max("revision").alias("to_revision"),
    ).first()
    first, last = (
        int(analysis_input.option(name) or (defaults and defaults[name]) or 0)
        for name in ("from_revision", "to_revision")
    )
    times = {
        row["revision"]: row["at"] for row in journal.where(F.col("revision").isin(first, last)).collect()
    }
    for revision in (first, last):
        if revision and revision not in times:
            raise AnalysisError(f"revision {revision:,} is not in the history of the snapshot")
    return _Moment(first, times.get(first, "")), _Moment(last, times.get(last, ""))


def _state(tables: Tables, moment: _Moment, users: DataFrame) -> _State:
    """Return the state of those of the users who were active then."""
    active = _lasting(tables.extra["past_users"], moment).where("is_active").select("user_id")
    active = active.join(users, on="user_id", how="left_semi")
    own = active.select(
        F.lit("user").alias("principal_type"), F.col("user_id").alias("principal_id"), "user_id"
    )
    members = (
        _in_force(tables.extra["past_memberships"], moment)
        .join(active, on="user_id", how="left_semi")
        .select(F.lit("group").alias("principal_type"), F.col("group_id").alias("principal_id"), "user_id")
    )
    grants = _in_force(tables.extra["past_grants"], moment).select(*_PRINCIPAL, "entity_id", "privilege")
    return _State(active, own.union(members), grants)


def _lasting(periods: DataFrame, moment: _Moment) -> DataFrame:
    is_over = F.col("until_revision") <= moment.revision
    return periods.where((F.col("from_revision") <= moment.revision) & ~F.coalesce(is_over, F.lit(False)))


def _in_force(periods: DataFrame, moment: _Moment) -> DataFrame:
    """Return the periods in force at the moment."""

    def is_true_or_null(condition: Column) -> Column:
        return F.coalesce(condition, F.lit(True))

    return _lasting(periods, moment).where(
        is_true_or_null(F.col("valid_from") <= moment.at) & is_true_or_null(F.col("valid_until") > moment.at)
    )


def _addresses(tables: Tables) -> DataFrame:
    return tables.extra["past_addresses"].select("entity_id", F.concat_ws(":", "kind", "key").alias("entity"))


def _names_of_principals(tables: Tables) -> DataFrame:
    """Return principal_type, principal_id and through: the last name of every user and group."""

    def names_of(principal_type: str) -> DataFrame:
        last = F.max_by(principal_type, "from_revision")
        return (
            tables.extra[f"past_{principal_type}s"]
            .groupBy(F.col(f"{principal_type}_id").alias("principal_id"))
            .agg(F.concat(F.lit(f"{principal_type}:"), last).alias("through"))
            .select(F.lit(principal_type).alias("principal_type"), "principal_id", "through")
        )

    return names_of("user").union(names_of("group"))
