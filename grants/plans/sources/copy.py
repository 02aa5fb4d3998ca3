"""Create plans that copy the direct grants of one principal to another principal."""

from collections.abc import Iterator

from django.db.models import Exists, OuterRef
from django.utils import timezone

from entities.address import Address, parse_address
from entities.vocabulary import Privilege
from grants.change_set import Grant
from grants.errors import PlanError
from grants.journal import Author, current_revision
from grants.models import GRANT_TABLES, NAME_COLUMNS, Plan, privilege_of
from grants.plans.create import PlanDraft, PlanOrigin, create_plan
from grants.plans.periods import not_over_condition
from grants.principal_names import format_principal, parse_principal
from grants.principal_rows import principals_by_name
from grants.validity import VALIDITY_COLUMNS, Validity


def create_plan_from_copy(
    *, author: Author, source: str, target: str, within: Address | None = None, renewal_of: Plan | None = None
) -> Plan:
    """Create a plan that grants `target` the direct grants of `source` that `target` does not hold directly,
    with their periods.

    Expired grants are not copied, and do not count as held.
    within: a namespace or an application, to copy only the grants on and inside it. Raise PlanError if there
    is nothing to copy.
    """
    source, target = format_principal(source), format_principal(target)
    revision, known = current_revision(), principals_by_name([source, target])
    for name in (source, target):
        if name not in known:
            raise PlanError(f"{name} does not exist: add it first, or correct the name")
    if source == target:
        raise PlanError(f"{source} is both source and target: name two different principals")
    where = f" in {within}" if within else ""
    changes = (Grant(target, *grant) for grant in _grants_to_copy(source, target, within))
    return create_plan(
        author=author,
        draft=PlanDraft(
            title=f"Copy the grants of {source} to {target}{where}",
            origin=PlanOrigin.COPY,
            base_revision=revision,
            watches=[source, target],
            changes=changes,
            renewal_of=renewal_of,
            recipe={"source": source, "target": target, "within": str(within or "")},
            empty_message=f"there is nothing to copy: {target} holds every direct grant of {source}{where}",
        ),
    )


def renew(author: Author, plan: Plan) -> Plan:
    """Copy the current grants of the same source to the same target."""
    recipe = plan.recipe
    within = parse_address(recipe["within"]) if recipe["within"] else None
    return create_plan_from_copy(
        author=author, source=recipe["source"], target=recipe["target"], within=within, renewal_of=plan
    )


def _grants_to_copy(
    source: str, target: str, within: Address | None
) -> Iterator[tuple[Address, Privilege, Validity]]:
    """Yield the direct grants of `source` that `target` does not hold directly, by address.

    Runs one query.
    """
    source_kind, source_name = parse_principal(source)
    target_kind, target_name = parse_principal(target)
    is_current = not_over_condition(timezone.now())
    target_grants = GRANT_TABLES[target_kind][0].objects.filter(
        is_current,
        **{NAME_COLUMNS[target_kind]: target_name},
        content_object_id=OuterRef("content_object_id"),
        permission_id=OuterRef("permission_id"),
    )
    grants = GRANT_TABLES[source_kind][0].objects.filter(
        is_current, ~Exists(target_grants), **{NAME_COLUMNS[source_kind]: source_name}
    )
    if within is not None:
        if within.kind not in ("namespace", "application"):
            raise PlanError(f"{within} is neither a namespace nor an application: name one of those, or none")
        grants = grants.filter(**{f"{within.kind}__kind": within.kind, f"{within.kind}__key": within.key})
    columns = ("content_object__kind", "content_object__key", "permission_id")
    rows = grants.order_by(*columns).values_list(*columns, *VALIDITY_COLUMNS)
    for kind, key, permission, *period in rows.iterator():
        yield Address(kind, key), privilege_of(permission), Validity(*period)
