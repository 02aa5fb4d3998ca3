"""Create a plan from a policy-impact report, with the fewest grants that keep the permissions that users would lose.

The plan grants to users only. A grant to a group would also give permissions to members who lose nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

import pyarrow.compute as pc
from django.contrib.auth.models import Group

from analytics.analyses import AnalysisError, AnalysisName, analysis_by_name
from analytics.models import AnalysisRun, RunState
from analytics.results.read import result_batches, result_page
from entities.address import Address, parse_address
from grants.errors import PlanError
from grants.journal import Author
from grants.models import Plan, PlanBreadth, User
from grants.plans.create import MAX_PLAN_ITEMS, PlanChange, PlanDraft, PlanOrigin, changes_from_grants, create_plan
from grants.plans.minimal_grants import MinimalGrants, minimal_grants
from grants.plans.staleness import first_relevant_line_since, line_summary
from grants.policies.catalogue import generation_by_name
from grants.policies.policy import Generation

MAX_LOST_PERMISSIONS = 1_000_000


@dataclass(slots=True)
class _Regrant:
    """The grants of the plan. kept: the number of permissions that they keep. The other fields are as in `MinimalGrants`."""

    changes: list[PlanChange] = field(default_factory=list)
    kept: int = 0
    only_way: int = 0
    is_smallest: bool = True

    def add(self, user: str, minimal: MinimalGrants) -> None:
        self.changes += changes_from_grants(f"user:{user}", minimal.grants)
        self.only_way += minimal.only_way
        self.is_smallest = self.is_smallest and minimal.is_smallest

    @property
    def note(self) -> str:
        total, with_choice = len(self.changes), len(self.changes) - self.only_way
        kept = f"It keeps {self.kept:,} permission{'' if self.kept == 1 else 's'} that would be lost"
        if not with_choice:
            return f"{kept}. There is no other way to keep them: it is the smallest set of grants."
        text = (f"{kept}. {self.only_way:,} of its {total:,} grants are the only way; {with_choice:,} keep permissions that "
                f"could be kept in several ways")
        if self.is_smallest:
            return f"{text}, and fewer would not be enough."
        return f"{text}: none of them can be left out, but another choice might need fewer."


def create_regrant_plan(*, author: Author, run: AnalysisRun, user: str = "", group: str = "", namespace: str = "") -> Plan:
    """Create a plan from the report of a policy-impact run.

    user, group, namespace: names; they limit the plan to the permissions of this user, of the members of this group, or in this
    namespace. Raise AnalysisError if the run has no such report or no detail, StorageError if the report cannot be read,
    PlanError if data changed since the run, nothing is lost or the plan would be too large. Memory is bounded by
    MAX_LOST_PERMISSIONS and MAX_PLAN_ITEMS. Takes one statement for every few hundred lost permissions.
    """
    before, after = _validated_generations(run)
    names = _user_names(user, group)
    regrant = _Regrant()
    for name, lost in _lost_permissions(run, names, namespace):
        regrant.kept += len(lost)
        regrant.add(name, minimal_grants(name, lost, after, max_grants=MAX_PLAN_ITEMS - len(regrant.changes)))
    scope = _scope_text(user, group, namespace)
    recipe = {"run": run.pk, "generation": before.name, "to_generation": after.name, "user": user, "group": group,
              "namespace": namespace, "answers": regrant.kept, "only_way": regrant.only_way,
              "is_smallest": regrant.is_smallest, "note": regrant.note}
    return create_plan(author=author, draft=PlanDraft(
        title=f"Keep current permissions, from {before.name} to {after.name}{scope}", origin=PlanOrigin.POLICY_IMPACT,
        changes=regrant.changes, base_revision=run.revision, recipe=recipe, breadth=PlanBreadth.NAMESPACES,
        empty_message=f"nothing is lost{scope} by going from {before.name} to {after.name}: no grant is needed"))


def _validated_generations(run: AnalysisRun) -> tuple[Generation, Generation]:
    """Return the two generations of the run after checking that its report can be used. Raise as `create_regrant_plan`."""
    if run.analysis != AnalysisName.POLICY_IMPACT:
        raise AnalysisError(f"run {run.pk} is a run of {run.analysis}: only a report of {AnalysisName.POLICY_IMPACT} contains "
                            f"the lost permissions")
    if run.state != RunState.DONE:
        raise AnalysisError(f"run {run.pk} is {run.state}: it has no report")
    if not run.summary.get("detail_is_written", True):
        raise AnalysisError(f"run {run.pk} has no detail table, because the table would have more rows than the console keeps: "
                            f"the lost permissions are not listed")
    # raises for unreadable files before anything is computed
    result_page(run, "detail", max_rows=1)
    if (line := first_relevant_line_since(run.revision)) is not None:
        raise PlanError(f"run {run.pk} is for revision {run.revision:,}, and the data has changed since: {line_summary(line)}; "
                        f"run {AnalysisName.POLICY_IMPACT} again, and create a plan from its new report")
    return generation_by_name(run.options["generation"]), generation_by_name(run.options["to_generation"])


def _user_names(user: str, group: str) -> set[str] | None:
    """Return the names of the users that the plan is for; None for all users."""
    if user and not User.objects.filter(username=user).exists():
        raise PlanError(f"user:{user} does not exist: add it first, or correct the name")
    if not group:
        return {user} if user else None
    row = Group.objects.filter(name=group).first()
    if row is None:
        raise PlanError(f"group:{group} does not exist: add it first, or correct the name")
    members = set(row.user_set.values_list("username", flat=True))
    return members & {user} if user else members


def _lost_permissions(run: AnalysisRun, names: set[str] | None,
                      namespace: str) -> Iterator[tuple[str, list[tuple[Address, str]]]]:
    """Yield each user with the (address, operation) pairs that the user would lose, in the order of the report."""
    total = 0
    for name, rows in groupby(_lost_rows(run, names), key=itemgetter(0)):
        pairs = [(parse_address(entity), operation) for _, entity, operation in rows]
        lost = [(address, operation) for address, operation in pairs if _is_in_namespace(address, namespace)]
        total += len(lost)
        if total > MAX_LOST_PERMISSIONS:
            raise PlanError(f"more than {MAX_LOST_PERMISSIONS:,} permissions would be lost, which is the limit of one plan: "
                            f"create it for one namespace, one group or one user at a time")
        if lost:
            yield name, lost


def _is_in_namespace(address: Address, namespace: str) -> bool:
    return not namespace or (address.namespace is not None and address.namespace.key == namespace)


def _lost_rows(run: AnalysisRun, names: set[str] | None) -> Iterable[tuple[str, str, str]]:
    """Yield (user, entity, operation) for each row of the detail table that is a lost permission."""
    for batch in result_batches(analysis_by_name(AnalysisName.POLICY_IMPACT).table("detail"), run.result_folder):
        lost = batch.filter(pc.invert(batch.column("after")))
        columns = [lost.column(name).to_pylist() for name in ("user", "entity", "operation")]
        yield from (row for row in zip(*columns, strict=True) if names is None or row[0] in names)


def _scope_text(user: str, group: str, namespace: str) -> str:
    parts = [f"by user:{user}" if user else "", f"by group:{group}" if group else "",
             f"in namespace:{namespace}" if namespace else ""]
    scope = " ".join(filter(None, parts))
    return f", {scope}," if scope else ""
