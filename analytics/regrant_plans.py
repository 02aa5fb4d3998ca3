"""Create a plan from a policy-impact report, with grants that keep the permissions that users would lose.

By default the grants give nothing else (`Prefer.NARROWEST`). They are computed from the current data
(`grants.plans.regrants`); the report only decides whether there is something to keep. The plan grants to
users only: a grant to a group would also give permissions to members who lose nothing.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from analytics.analyses import AnalysisError, AnalysisName
from analytics.lost_permissions import LostPermission, LostPermissions, Row, lost_rows
from analytics.models import AnalysisRun
from analytics.results.read import result_page
from entities.address import Address, AddressError, parse_address
from entities.vocabulary import Privilege, quantity
from grants.change_set import Grant
from grants.errors import PlanError
from grants.journal import Author
from grants.journal_queries import first_relevant_line_since
from grants.models import JobState, Plan, PlanBreadth
from grants.plans.create import MAX_PLAN_ITEMS, PlanDraft, PlanOrigin, create_plan
from grants.plans.minimal_grants import minimal_grants
from grants.plans.regrants.compute import Prefer, Regrants, RegrantScope, compute_regrants, count_regrants
from grants.plans.regrants.create import kept_not_recipe
from grants.plans.regrants.scope import regrant_scope
from grants.plans.staleness import line_summary
from grants.policies.catalogue import generation_by_name
from grants.policies.policy import Generation

logger = logging.getLogger(__name__)

MAX_LOST_PERMISSIONS = 1_000_000


@dataclass(slots=True)
class Regrant:
    """The grants of a plan, and their effect.

    effect: see `Regrants`. kept: the number of lost permissions that the grants keep. left_out: the number of
    rows of the report that the rule engine does not confirm. has_side_effects: whether the grants may give
    other permissions too.
    """

    effect: Regrants
    kept: int = 0
    left_out: int = 0
    has_side_effects: bool = True

    @property
    def changes(self) -> list[Grant]:
        return [Grant(f"user:{user}", *grant) for user, *grant in self.effect.grants]

    @property
    def note(self) -> str:
        return self._choice_note + self._side_effect_note + self._left_out_note

    @property
    def _side_effect_note(self) -> str:
        if self.has_side_effects:
            return ""
        text = " The grants give nothing else."
        if not self.effect.kept_not:
            return text
        count = quantity(self.effect.kept_not, "permission", "permissions")
        return (
            f"{text} {count} cannot be kept without also giving others and {'is' if self.effect.kept_not == 1 else 'are'} "
            f"left out."
        )

    @property
    def _left_out_note(self) -> str:
        if not self.left_out:
            return ""
        rows = f"{self.left_out:,} row{'' if self.left_out == 1 else 's'}"
        return (
            f" Left out: {rows} of the report that the rule engine does not confirm. The report may have been changed "
            f"outside the console."
        )

    @property
    def _choice_note(self) -> str:
        total, with_choice = len(self.effect.grants), len(self.effect.grants) - self.effect.only_way
        kept = f"It keeps {self.kept:,} permission{'' if self.kept == 1 else 's'} that would be lost"
        if not with_choice:
            return f"{kept}. There is no other way to keep them: it is the smallest set of grants."
        text = (
            f"{kept}. {self.effect.only_way:,} of its {total:,} grants are the only way; {with_choice:,} keep permissions "
            f"that could be kept in several ways"
        )
        if self.effect.is_smallest:
            return f"{text}, and fewer would not be enough."
        return f"{text}: none of them can be left out, but another choice might need fewer."


def compute_regrant(
    run: AnalysisRun,
    *,
    user: str = "",
    group: str = "",
    namespace: str = "",
    prefer: Prefer = Prefer.NARROWEST,
) -> Regrant:
    """Return the grants of a plan from the report of a policy-impact run, without creating it.

    The arguments, errors and costs are those of `create_regrant_plan`. Reads the tenant once to count the
    effect.
    """
    before, after = _validated_generations(run)
    scope = regrant_scope(user, group, namespace)
    permissions, confirmed_total = LostPermissions(before, after), 0
    grants: list[tuple[str, Address, Privilege]] = []
    only_way, is_smallest = 0, True
    confirmed = permissions.confirmed_losses(_rows_in_namespace(lost_rows(run, scope.users), namespace))
    for name, lost in _permissions_by_user(confirmed):
        confirmed_total += len(lost)
        if prefer == Prefer.FEWEST:
            minimal = minimal_grants(name, lost, after, max_grants=MAX_PLAN_ITEMS - len(grants))
            grants += ((name, *grant) for grant in minimal.grants)
            only_way, is_smallest = only_way + minimal.only_way, is_smallest and minimal.is_smallest
    if prefer == Prefer.NARROWEST and confirmed_total:
        regrant = _narrowest(before, after, scope, _scope_text(user, group, namespace))
    else:
        effect = count_regrants(before, after, grants, scope=scope)
        effect.only_way, effect.is_smallest = only_way, is_smallest
        regrant = Regrant(effect, kept=confirmed_total)
    regrant.left_out = permissions.left_out
    return regrant


@dataclass(frozen=True, slots=True)
class RegrantWay:
    """The effect of one preference for the grants. fault: why there is no such plan; otherwise None, and the
    effect is known.
    """

    prefer: Prefer
    effect: Regrants | None = None
    fault: str = ""


def regrant_ways(
    run: AnalysisRun, *, user: str = "", group: str = "", namespace: str = ""
) -> list[RegrantWay]:
    """Return the effect of the plan for each preference, without creating a plan.

    The arguments, errors and costs are those of `compute_regrant`, except that a preference without a plan
    returns its fault.
    """
    _validated_generations(run)
    regrant_scope(user, group, namespace)
    ways = []
    for prefer in Prefer:
        try:
            regrant = compute_regrant(run, user=user, group=group, namespace=namespace, prefer=prefer)
            ways.append(RegrantWay(prefer, regrant.effect))
        except PlanError as error:
            ways.append(RegrantWay(prefer, fault=str(error)))
    return ways


def create_regrant_plan(
    *,
    author: Author,
    run: AnalysisRun,
    user: str = "",
    group: str = "",
    namespace: str = "",
    prefer: Prefer | str = Prefer.NARROWEST,
) -> Plan:
    """Create a plan from the report of a policy-impact run.

    prefer: `narrowest` leaves out what cannot be kept without other permissions; `fewest` keeps everything.
    user, group, namespace: names that limit the plan to the permissions of this user, of the members of this
    group, or in this namespace. Raise AnalysisError if the run has no such report or no detail, StorageError
    if the report cannot be read, PlanError if data changed since the run, nothing is lost or the plan would
    be too large. Memory is bounded by MAX_LOST_PERMISSIONS and MAX_PLAN_ITEMS. Runs one statement for every
    few hundred lost permissions. The rule engine is asked about each lost permission; those that it does not
    confirm are left out and counted.
    """
    before, after = _validated_generations(run)
    regrant = compute_regrant(run, user=user, group=group, namespace=namespace, prefer=Prefer(prefer))
    if regrant.left_out:
        logger.warning(
            "The rule engine does not confirm %s rows of the report of run %s", regrant.left_out, run.pk
        )
    scope = _scope_text(user, group, namespace)
    recipe = {
        "run": run.pk,
        "generation": before.name,
        "to_generation": after.name,
        "user": user,
        "group": group,
        "namespace": namespace,
        "prefer": str(prefer),
        "kept_not": regrant.effect.kept_not,
        "answers": regrant.kept,
        "only_way": regrant.effect.only_way,
        "left_out": regrant.left_out,
        **kept_not_recipe(regrant.effect),
        "activation": regrant.effect.activation,
        "is_smallest": regrant.effect.is_smallest,
        "note": regrant.note,
    }
    return create_plan(
        author=author,
        draft=PlanDraft(
            title=f"Keep current permissions, from {before.name} to {after.name}{scope}",
            origin=PlanOrigin.POLICY_IMPACT,
            changes=regrant.changes,
            base_revision=run.revision,
            recipe=recipe,
            breadth=PlanBreadth.NAMESPACES,
            empty_message=_empty_message(before, after, scope, regrant.left_out),
        ),
    )


def _narrowest(before: Generation, after: Generation, scope: RegrantScope, scope_text: str) -> Regrant:
    """Return the grants that give nothing else.

    Raise PlanError if no permission can be kept without others.
    """
    regrants = compute_regrants(before, after, scope=scope, max_grants=MAX_PLAN_ITEMS)
    if regrants.lost and not regrants.grants:
        count = quantity(regrants.lost, "lost permission", "lost permissions")
        raise PlanError(
            f"none of the {count}{scope_text.rstrip(',')} can be kept without also giving others: "
            f"prefer the fewest grants, and review the effect of the plan"
        )
    return Regrant(regrants, kept=regrants.lost - regrants.kept_not, has_side_effects=False)


def _validated_generations(run: AnalysisRun) -> tuple[Generation, Generation]:
    """Return the two generations of the run after checking that its report can be used.

    Raise the errors of `create_regrant_plan`.
    """
    if run.type != AnalysisName.POLICY_IMPACT:
        raise AnalysisError(
            f"run {run.pk} is a run of {run.type}: only a report of {AnalysisName.POLICY_IMPACT} contains "
            f"the lost permissions"
        )
    if run.state != JobState.DONE:
        raise AnalysisError(f"run {run.pk} is {run.state}: it has no report")
    if not run.summary.get("detail_is_written", True):
        raise AnalysisError(
            f"run {run.pk} has no detail table, because the table would have more rows than the console keeps: "
            f"the lost permissions are not listed"
        )
    # raises for unreadable files before anything is computed
    result_page(run, "detail", max_rows=1)
    if (line := first_relevant_line_since(run.revision)) is not None:
        raise PlanError(
            f"run {run.pk} is for revision {run.revision:,}, and the data has changed since: {line_summary(line)}; "
            f"run {AnalysisName.POLICY_IMPACT} again, and create a plan from its new report"
        )
    return generation_by_name(run.options["generation"]), generation_by_name(run.options["to_generation"])


def _permissions_by_user(
    permissions: Iterable[LostPermission],
) -> Iterator[tuple[str, list[tuple[Address, str]]]]:
    """Yield each user with the (address, operation) pairs that the user would lose, in the order of the
    report.
    """
    total = 0
    for name, of_user in groupby(permissions, key=itemgetter(0)):
        lost = [(address, operation) for _, address, operation in of_user]
        total += len(lost)
        if total > MAX_LOST_PERMISSIONS:
            raise PlanError(
                f"more than {MAX_LOST_PERMISSIONS:,} permissions would be lost, which is the limit of one plan: "
                f"create it for one namespace, one group or one user at a time"
            )
        yield name, lost


def _rows_in_namespace(rows: Iterable[Row], namespace: str) -> Iterator[Row]:
    return (row for row in rows if not namespace or _namespace_of(row[1]) == namespace)


def _namespace_of(entity: str) -> str:
    """Return the name of the namespace of an address; empty if it has none, or if the text is not an address."""
    try:
        namespace = parse_address(entity).namespace
    except AddressError:
        return ""
    return namespace.key if namespace else ""


def _empty_message(before: Generation, after: Generation, scope: str, left_out: int) -> str:
    if left_out:
        return (
            f"the rule engine confirms none of the {left_out:,} lost permission{'' if left_out == 1 else 's'} of the report"
            f"{scope}: the report may have been changed outside the console; run {AnalysisName.POLICY_IMPACT} again"
        )
    return f"nothing is lost{scope} by going from {before.name} to {after.name}: no grant is needed"


def _scope_text(user: str, group: str, namespace: str) -> str:
    parts = [
        f"by user:{user}" if user else "",
        f"by group:{group}" if group else "",
        f"in namespace:{namespace}" if namespace else "",
    ]
    scope = " ".join(filter(None, parts))
    return f", {scope}," if scope else ""
