"""Read the narrower patterns of a report of `patterns`, for a plan that makes grants narrower (`grants.plans.sources.patterns`)."""

from collections.abc import Collection

from analytics.analyses import AnalysisError, AnalysisName
from analytics.models import AnalysisRun
from analytics.results.read import result_stream
from entities.address import parse_grantable
from entities.vocabulary import privilege_by_name
from grants.change_set import Revoke
from grants.errors import PlanError
from grants.plans.create import MAX_PLAN_ITEMS
from grants.plans.sources.patterns import Narrowing


def narrowings(run: AnalysisRun, grants: Collection[Revoke] | None = None) -> list[Narrowing]:
    """Return what a report proposes for these grants on patterns; by default for all with narrower patterns, and those on
    patterns that match nothing.

    Raise AnalysisError if the run has no such report, StorageError if it cannot be read, and PlanError for more than a plan
    can have.
    """
    if run.type != AnalysisName.PATTERNS:
        raise AnalysisError(
            f"run {run.pk} is a run of {run.type}: only a report of {AnalysisName.PATTERNS} has narrower patterns"
        )
    narrower: dict[Revoke, list[str]] = {}
    if grants is not None:
        narrower = {grant: [] for grant in grants}
    else:
        for batch in result_stream(run, "rows"):
            narrower |= {_grant_of(row): [] for row in batch.to_pylist() if row["matches"] == 0}
    total = len(narrower)
    for batch in result_stream(run, "narrower"):
        for row in batch.to_pylist():
            grant = _grant_of(row)
            if grants is None or grant in narrower:
                narrower.setdefault(grant, []).append(row["narrower"])
                total += 1
        if total > MAX_PLAN_ITEMS:
            raise PlanError(
                f"the report proposes more than {MAX_PLAN_ITEMS:,} narrower patterns, which is the limit of a plan: choose grants"
            )
    return [Narrowing(grant, tuple(map(parse_grantable, texts))) for grant, texts in narrower.items()]


def _grant_of(row: dict) -> Revoke:
    return Revoke(row["principal"], parse_grantable(row["pattern"]), privilege_by_name(row["privilege"]))
