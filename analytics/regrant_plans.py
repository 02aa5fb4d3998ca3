"""Create a plan from a policy-impact report, with grants that keep the permissions that users would lose.

By default the grants give nothing else (`Prefer.NARROWEST`). They are computed from the current data
(`grants.plans.regrants`); the report only decides whether there is something to keep. The plan grants to
users only: a grant to a group would also give permissions to members who lose nothing.
"""

import logging
from collections.abc import Iterable, Iterator

from analytics.analyses import AnalysisError, AnalysisName
from analytics.lost_permissions import LostPermissions, Row, lost_rows
from analytics.models import AnalysisRun
from analytics.results.read import result_page
from entities.address import AddressError, parse_address
from entities.vocabulary import quantity
from grants.errors import PlanError
from grants.journal_queries import first_relevant_line_since
from grants.models import JobState, PlanBreadth
from grants.plans.choices import PlanChoice
from grants.plans.create import MAX_PLAN_ITEMS, PlanDraft, PlanOrigin, plan_source
from grants.plans.regrants.compute import Prefer, Regrants, compute_regrants, regrant_scope
from grants.plans.staleness import line_summary
from grants.policies.catalogue import generation_by_name
from grants.policies.policy import Generation
from grants.policies.principals import group_text

logger = logging.getLogger(__name__)

MAX_LOST_PERMISSIONS = 1_000_000


def _note(regrants: Regrants, prefer: Prefer, answers: int, left_out: int) -> str:
    """Return what the plan keeps, whether there is another choice, and what is left out. answers: how many of
    the lost permissions it keeps. left_out: the rows of the report that the rule engine does not confirm.
    """
    total, kept_not = len(regrants.grants), regrants.counts["kept_not"]
    with_choice = total - regrants.only_way
    kept = f"It keeps {quantity(answers, 'permission', 'permissions')} that would be lost"
    if not with_choice:
        note = f"{kept}. There is no other way to keep them: it is the smallest set of grants."
    else:
        note = (
            f"{kept}. {regrants.only_way:,} of its {total:,} grants are the only way; {with_choice:,} keep permissions "
            f"that could be kept in several ways"
        )
        if regrants.is_smallest:
            note += ", and fewer would not be enough."
        else:
            note += ": none of them can be left out, but another choice might need fewer."
    if prefer == Prefer.NARROWEST:
        note += " The grants give nothing else."
        if kept_not:
            note += (
                f" {quantity(kept_not, 'permission', 'permissions')} cannot be kept without also giving others and "
                f"{'is' if kept_not == 1 else 'are'} left out."
            )
    if regrants.ends:
        note += f" {regrants.note_on_ends}"
    if left_out:
        note += (
            f" Left out: {quantity(left_out, 'row', 'rows')} of the report that the rule engine does not confirm. The report "
            f"may have been changed outside the console."
        )
    return note


def _regrants_of_report(
    run: AnalysisRun, user: str, group: str, namespace: str, prefer: Prefer
) -> tuple[Regrants, int, int]:
    """Return the grants of a plan from a report, and the numbers of rows of the report that the rule engine
    confirms and does not confirm.

    The arguments, errors and costs are those of `regrant_plan`.
    """
    before, after = validated_generations(run)
    scope = regrant_scope(user, group, namespace)
    permissions, confirmed = LostPermissions(before, after), 0
    for _ in permissions.confirmed_losses(_rows_in_namespace(lost_rows(run, scope.users), namespace)):
        confirmed += 1
        if confirmed > MAX_LOST_PERMISSIONS:
            raise PlanError(
                f"more than {MAX_LOST_PERMISSIONS:,} permissions would be lost, which is the limit of one plan: "
                f"create it for one namespace, one group or one user at a time"
            )
    regrants = compute_regrants(before, after, prefer=prefer, scope=scope, max_grants=MAX_PLAN_ITEMS)
    if not confirmed:
        regrants.grants = []
    elif prefer == Prefer.NARROWEST and regrants.lost and not regrants.grants:
        count = quantity(regrants.lost, "lost permission", "lost permissions")
        raise PlanError(
            f"none of the {count}{_scope_text(user, group, namespace).rstrip(',')} can be kept without also giving others: "
            f"prefer the fewest grants, and review the effect of the plan"
        )
    return regrants, confirmed, permissions.left_out


def regrant_choices(
    run: AnalysisRun, *, user: str = "", group: str = "", namespace: str = ""
) -> tuple[list[PlanChoice], dict[str, int] | None]:
    """Return a choice for each preference, without creating a plan, and what the activation changes (see
    `Regrants.activation`); None if it is not known.

    The arguments, errors and costs are those of `regrant_plan`, except that a preference without a plan has its
    fault.
    """
    validated_generations(run)
    regrant_scope(user, group, namespace)
    choices, activation = [], None
    for prefer in Prefer:
        try:
            regrants, *_ = _regrants_of_report(run, user, group, namespace, prefer)
        except PlanError as error:
            choices.append(PlanChoice(str(prefer), fault=str(error)))
            continue
        activation = regrants.activation
        if regrants.grants:
            choices.append(
                PlanChoice(
                    str(prefer),
                    grants=len(regrants.grants),
                    kept=regrants.counts["kept"],
                    kept_not=regrants.counts["kept_not"],
                    gained=regrants.counts["beyond_gained"],
                    lost=regrants.counts["beyond_lost"],
                    given=regrants.activation["given_with_plan"],
                    taken=regrants.activation["taken_with_plan"],
                )
            )
    return choices, activation


@plan_source(PlanOrigin.POLICY_IMPACT)
def regrant_plan(
    *,
    run: AnalysisRun,
    user: str = "",
    group: str = "",
    namespace: str = "",
    prefer: Prefer | str = Prefer.NARROWEST,
) -> PlanDraft:
    """Return a plan from the report of a policy-impact run.

    prefer: `narrowest` leaves out what cannot be kept without other permissions; `fewest` keeps everything.
    user, group, namespace: names that limit the plan to the permissions of this user, of the members of this
    group, or in this namespace. Raise AnalysisError if the run has no such report or no detail, StorageError
    if the report cannot be read, PlanError if data changed since the run, nothing is lost or the plan would
    be too large. Memory is bounded by MAX_LOST_PERMISSIONS and MAX_PLAN_ITEMS. Runs one statement for every
    few hundred lost permissions. The rule engine is asked about each lost permission; those that it does not
    confirm are left out and counted.
    """
    before, after = validated_generations(run)
    prefer = Prefer(prefer)
    regrants, confirmed, left_out = _regrants_of_report(run, user, group, namespace, prefer)
    answers = confirmed if prefer == Prefer.FEWEST else regrants.lost - regrants.counts["kept_not"]
    if left_out:
        logger.warning("The rule engine does not confirm %s rows of the report of run %s", left_out, run.pk)
    scope = _scope_text(user, group, namespace)
    return PlanDraft(
        title=f"Keep current permissions, from {before.name} to {after.name}{scope}",
        changes=regrants.changes,
        base_revision=run.revision,
        recipe={
            "run": run.pk,
            "generation": before.name,
            "to_generation": after.name,
            "user": user,
            "group": group,
            "namespace": namespace,
            "prefer": str(prefer),
            "kept_not": regrants.counts["kept_not"],
            "answers": answers,
            "only_way": regrants.only_way,
            "left_out": left_out,
            **regrants.kept_not_recipe,
            "activation": regrants.activation,
            "is_smallest": regrants.is_smallest,
            "note": _note(regrants, prefer, answers, left_out),
        },
        breadth=PlanBreadth.NAMESPACES,
        empty_message=_empty_message(before, after, scope, left_out),
    )


def validated_generations(run: AnalysisRun) -> tuple[Generation, Generation]:
    """Return the two generations of the run after checking that its report can be used.

    Raise the errors of `regrant_plan`.
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
        f"by {group_text(group)}" if group else "",
        f"in namespace:{namespace}" if namespace else "",
    ]
    scope = " ".join(filter(None, parts))
    return f", {scope}," if scope else ""
