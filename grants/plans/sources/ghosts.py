"""Create plans that revoke leftover grants: grants on deleted addresses, which would apply again if the
entity were recreated.

Planned grants are kept, because they will apply when their entity is live.
"""

from collections.abc import Iterator, Sequence

from django.db.models import QuerySet

from entities.address import Address, parse_address
from entities.models import State
from entities.selectors import entities_at
from entities.vocabulary import quantity
from grants.change_set import ChangeSet, Revoke
from grants.errors import PlanError
from grants.journal import Author, current_revision
from grants.models import GRANT_TABLES, NAME_COLUMNS, Plan, UserGrant, privilege_of
from grants.plans.create import PlanDraft, PlanOrigin, create_plan
from grants.plans.sources.changes import create_plan_from_changes

ROWS_PER_READ = 2_000


def create_ghost_plan(
    *, author: Author, namespace: Address | None = None, renewal_of: Plan | None = None
) -> Plan:
    """Create a plan that revokes every grant on a deleted address, or only the grants on and inside
    `namespace`.

    The plan depends only on its addresses: it remains valid after a later deletion, and becomes stale if one
    of its entities is recreated. Runs the statements of `create_plan` and a fixed number of others. Raise
    PlanError if there is nothing to revoke.
    """
    if namespace is not None and namespace.kind != "namespace":
        raise PlanError(f"{namespace} is not a namespace: name one, such as namespace:sales, or none")
    revision = current_revision()
    where = f" in {namespace}" if namespace else ""
    return create_plan(
        author=author,
        draft=PlanDraft(
            title=f"Revoke the grants on deleted addresses{where}",
            origin=PlanOrigin.GHOSTS,
            base_revision=revision,
            renewal_of=renewal_of,
            changes=_revocations(namespace),
            recipe={"namespace": str(namespace or ""), "note": _note(namespace)},
            empty_message=f"there is nothing to revoke: no grant is on a deleted address{where}",
        ),
    )


def create_selected_ghost_plan(*, author: Author, grants: Sequence[Revoke]) -> Plan:
    """Create a plan that revokes these grants, which a report listed.

    Raise PlanError if one of their entities is live now.
    """
    if not grants:
        raise PlanError("no grant is selected")
    addresses = [grant.address for grant in grants]
    if live := next((address for address, entity in entities_at(addresses).items() if entity.is_live), None):
        raise PlanError(f"{live} is live now, so its grants are not ghost grants: run the analysis again")
    title = f"Revoke {quantity(len(grants), 'ghost grant', 'ghost grants')}"
    return create_plan_from_changes(author=author, change_set=ChangeSet.of(*grants), title=title)


def renew(author: Author, plan: Plan) -> Plan:
    """Create a plan with the current leftover grants of the same namespace."""
    namespace = plan.recipe["namespace"]
    return create_ghost_plan(
        author=author, namespace=parse_address(namespace) if namespace else None, renewal_of=plan
    )


def _leftover_grants(principal_kind: str, namespace: Address | None) -> QuerySet:
    grants = GRANT_TABLES[principal_kind][0].objects.filter(content_object__state=State.DELETED)
    return (
        grants
        if namespace is None
        else grants.filter(namespace__kind=namespace.kind, namespace__key=namespace.key)
    )


def _note(namespace: Address | None) -> str:
    """Return why the plan revokes more grants than the ghost-grants analysis counts; empty if the numbers
    agree.
    """
    of_inactive_users: QuerySet[UserGrant] = _leftover_grants("user", namespace).filter(user__is_active=False)
    total = of_inactive_users.count()
    if not total:
        return ""
    return (
        f"{total:,} of these grants {'is' if total == 1 else 'are'} held by inactive users, which the ghost-grants analysis "
        f"leaves out: {'it' if total == 1 else 'they'} would apply again when both user and entity are back."
    )


def _revocations(namespace: Address | None) -> Iterator[Revoke]:
    for principal_kind, name_column in NAME_COLUMNS.items():
        columns = ("content_object__kind", "content_object__key", name_column, "permission_id")
        grants = _leftover_grants(principal_kind, namespace).order_by(*columns).values_list(*columns)
        for kind, key, name, permission in grants.iterator(chunk_size=ROWS_PER_READ):
            yield Revoke(f"{principal_kind}:{name}", Address(kind, key), privilege_of(permission))
