"""Create plans that copy the direct grants of one principal to another principal."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from django.db.models import Exists, OuterRef
from django.utils import timezone

from entities.address import Address
from entities.vocabulary import INNER_CONTAINER_KINDS
from grants.change_set import Grant
from grants.errors import PlanError
from grants.plans.create import PlanDraft, PlanOrigin, plan_source
from grants.plans.sources.recipes import read_address, read_period
from grants.principal_names import format_principal, grants_of, principals_by_name
from grants.querysets import on_and_inside
from grants.stored_changes import stored_grants
from grants.validity import Validity, not_over_condition


@plan_source(PlanOrigin.COPY)
def copy_plan(
    *, source: str, target: str, within: Address | str | None = None, period: Validity | Sequence[str] = ()
) -> PlanDraft:
    """Return a plan that grants `target` the direct grants of `source` that `target` does not hold directly,
    with their periods.

    Expired grants are not copied, and do not count as held.
    within: a namespace or an application, to copy only the grants on and inside it. period: see PlanDraft. Raise PlanError if there
    is nothing to copy.
    """
    source, target, within = format_principal(source), format_principal(target), read_address(within)
    known = principals_by_name([source, target])
    for name in (source, target):
        if name not in known:
            raise PlanError(f"{name} does not exist: add it first, or correct the name")
    if source == target:
        raise PlanError(f"{source} is both source and target: name two different principals")
    if within is not None and within.kind not in INNER_CONTAINER_KINDS:
        raise PlanError(f"{within} is neither a namespace nor an application: name one of those, or none")
    where = f" in {within}" if within else ""
    return PlanDraft(
        title=f"Copy the grants of {source} to {target}{where}",
        watches=[source, target],
        changes=(replace(grant, principal=target) for grant in grants_only_of(source, target, within)),
        recipe={"source": source, "target": target, "within": str(within or "")},
        period=read_period(period),
        empty_message=f"there is nothing to copy: {target} holds every direct grant of {source}{where}",
    )


def grants_only_of(source: str, target: str, within: Address | None = None) -> Iterator[Grant]:
    """Yield the direct grants of `source` that `target` does not hold directly, by address. Expired ones are
    left out.

    Runs one query.
    """
    is_current = not_over_condition(timezone.now())
    target_grants = grants_of(target).filter(
        is_current,
        content_object_id=OuterRef("content_object_id"),
        permission_id=OuterRef("permission_id"),
    )
    grants = grants_of(source).filter(is_current, ~Exists(target_grants))
    if within is not None:
        grants = grants.filter(**on_and_inside(within))
    return stored_grants(grants)
