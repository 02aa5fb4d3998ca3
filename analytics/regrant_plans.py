"""A plan from the report of a policy impact: the smallest re-grant that keeps what people have.

For every answer that a user would lose by the other generation, the fewest grants to that user which keep it; to groups
nothing is granted, as that would give something to those who lose nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

import pyarrow.compute as pc
from django.contrib.auth.models import Group

from analytics.analyses import AnalysisError, AnalysisName, analysis_named
from analytics.models import AnalysisRun, RunState
from analytics.results.read import result_batches, result_page
from entities.address import Address, parse_address
from grants.errors import PlanError
from grants.journal import Author
from grants.models import Plan, PlanBreadth, User
from grants.plans.create import MAX_PLAN_ITEMS, PlanChange, PlanDraft, create_plan, grant_changes
from grants.plans.minimal_grants import Cover, minimal_grants
from grants.plans.staleness import first_relevant_line_since, line_summary
from grants.policies.catalogue import generation_by_name
from grants.policies.policy import Generation

# the plan's origin; stored
ORIGIN = str(AnalysisName.POLICY_IMPACT)
MAX_LOST_DECISIONS = 1_000_000


@dataclass(slots=True)
class _Regrant:
    """What is to be granted, and how it came about."""

    changes: list[PlanChange] = field(default_factory=list)
    answers: int = 0
    only_way: int = 0
    is_smallest: bool = True

    def add(self, user: str, cover: Cover) -> None:
        self.changes += grant_changes(f"user:{user}", cover.gaps)
        self.only_way += cover.only_way
        self.is_smallest = self.is_smallest and cover.is_smallest

    @property
    def note(self) -> str:
        total, chosen = len(self.changes), len(self.changes) - self.only_way
        kept = f"It keeps {self.answers:,} answer{'' if self.answers == 1 else 's'} that would be lost"
        if not chosen:
            return f"{kept}. There is no other way to keep them: it is the smallest set of grants."
        some = (f"{kept}. {self.only_way:,} of its {total:,} grants are the only way; {chosen:,} keep answers that could be kept "
                f"in several ways")
        if self.is_smallest:
            return f"{some}, and fewer would not do."
        return f"{some}: none of them can be left out, but it is not proven that another choice would not need fewer."


def create_regrant_plan(*, author: Author, run: AnalysisRun, user: str = "", group: str = "", namespace: str = "") -> Plan:
    """user, group: their names; only what this user, or the members of this group, would lose. namespace: only in it; its name.

    Raises AnalysisError where the run has no such report or its detail was left out, StorageError where it cannot be read,
    PlanError where data changed since, where nothing is lost, or where it is more than a plan holds. Memory is bounded by
    MAX_LOST_DECISIONS and MAX_PLAN_ITEMS; statements grow with the answers, by one for some hundreds.
    """
    before, after = _checked(run)
    names = _names(user, group)
    regrant = _Regrant()
    for name, answers in _lost(run, names, namespace):
        regrant.answers += len(answers)
        cover = minimal_grants(name, answers, after, most_gaps=MAX_PLAN_ITEMS - len(regrant.changes))
        regrant.add(name, cover)
    title = f"Keep what people have, from {before.name} to {after.name}{_scope(user, group, namespace)}"
    recipe = {"run": run.pk, "generation": before.name, "to_generation": after.name, "user": user, "group": group,
              "namespace": namespace, "answers": regrant.answers, "only_way": regrant.only_way,
              "is_smallest": regrant.is_smallest, "note": regrant.note}
    return create_plan(author=author, draft=PlanDraft(
        title=title, origin=ORIGIN, changes=regrant.changes, base_revision=run.revision, recipe=recipe,
        breadth=PlanBreadth.NAMESPACES, nothing=f"nothing is lost{_scope(user, group, namespace)} by going from {before.name} to "
                                                f"{after.name}: no grant is needed"))


def _checked(run: AnalysisRun) -> tuple[Generation, Generation]:
    if run.analysis != AnalysisName.POLICY_IMPACT:
        raise AnalysisError(f"run {run.pk} is of {run.analysis}: only a report of {AnalysisName.POLICY_IMPACT} "
                            f"says what would be lost")
    if run.state != RunState.DONE:
        raise AnalysisError(f"run {run.pk} is {run.state}: it has no report")
    if not run.summary.get("detail_is_written", True):
        raise AnalysisError(f"the detail was left out of run {run.pk}, as it has more rows than the console keeps: it does not "
                            f"say answer by answer what would be lost")
    # what the files cannot give is said before anything is computed
    result_page(run, "detail", most_rows=1)
    if (line := first_relevant_line_since(run.revision)) is not None:
        raise PlanError(f"run {run.pk} looked at revision {run.revision:,}, and data was changed since: {line_summary(line)}; "
                        f"run {AnalysisName.POLICY_IMPACT} again, and make a plan from its new report")
    return generation_by_name(run.options["generation"]), generation_by_name(run.options["to_generation"])


def _names(user: str, group: str) -> set[str] | None:
    """The users it is about; None for everybody."""
    if user and not User.objects.filter(username=user).exists():
        raise PlanError(f"user:{user} is not known here: add it first, or correct the name")
    if not group:
        return {user} if user else None
    found = Group.objects.filter(name=group).first()
    if found is None:
        raise PlanError(f"group:{group} is not known here: add it first, or correct the name")
    members = set(found.user_set.values_list("username", flat=True))
    return members & {user} if user else members


def _lost(run: AnalysisRun, names: set[str] | None, namespace: str) -> Iterator[tuple[str, list[tuple[Address, str]]]]:
    """(user, the answers that the user would lose), user by user, as the report is sorted."""
    total = 0
    for name, rows in groupby(_rows(run, names), key=itemgetter(0)):
        answers = [(address, operation) for _, entity, operation in rows
                   if _is_in(address := parse_address(entity), namespace)]
        total += len(answers)
        if total > MAX_LOST_DECISIONS:
            raise PlanError(f"more than {MAX_LOST_DECISIONS:,} answers would be lost, the limit of one plan: "
                            f"make it for one namespace, one group or one user at a time")
        if answers:
            yield name, answers


def _is_in(address: Address, namespace: str) -> bool:
    return not namespace or (address.namespace is not None and address.namespace.key == namespace)


def _rows(run: AnalysisRun, names: set[str] | None) -> Iterable[tuple[str, str, str]]:
    for batch in result_batches(analysis_named(AnalysisName.POLICY_IMPACT).table("detail"), run.result_folder):
        lost = batch.filter(pc.invert(batch.column("after")))
        columns = [lost.column(name).to_pylist() for name in ("user", "entity", "operation")]
        yield from (row for row in zip(*columns, strict=True) if names is None or row[0] in names)


def _scope(user: str, group: str, namespace: str) -> str:
    words = [f"by user:{user}" if user else "", f"by group:{group}" if group else "",
             f"in namespace:{namespace}" if namespace else ""]
    found = " ".join(filter(None, words))
    return f", {found}," if found else ""
