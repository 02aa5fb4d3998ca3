"""Plans that take back ghost grants: those on addresses whose entity is deleted, which would apply again if it came back.

A grant on a planned address is no ghost: it waits for its entity.
"""

from collections.abc import Iterator

from django.db.models import QuerySet

from entities.address import Address, parse_address
from entities.models import State
from grants.errors import PlanError
from grants.journal import Author, current_revision
from grants.models import GRANT_TABLES, NAME_COLUMNS, Plan, PlanVerb, UserGrant, privilege_of
from grants.plans.create import PlanChange, PlanDraft, create_plan

GHOSTS = "ghosts"
ROWS_AT_ONCE = 2_000


def create_ghost_plan(*, author: Author, namespace: Address | None = None, renewal_of: Plan | None = None) -> Plan:
    """Take back every grant on a deleted address. namespace: only on it and in it. Raises PlanError.

    A fixed number of statements besides what `create_plan` takes. It depends on the addresses that it names and on nothing
    else: one that is deleted later keeps its ghosts for the next plan, and one that is recreated makes this plan stale.
    """
    if namespace is not None and namespace.kind != "namespace":
        raise PlanError(f"{namespace} is not a namespace: name one, such as namespace:sales, or none")
    revision = current_revision()
    where = f" in {namespace}" if namespace else ""
    return create_plan(author=author, draft=PlanDraft(
        title=f"Take back the grants on deleted addresses{where}", origin=GHOSTS, base_revision=revision, renewal_of=renewal_of,
        changes=_revoking(namespace), recipe={"namespace": str(namespace or ""), "note": _note(namespace)},
        nothing=f"no grant is on a deleted address{where}: there is nothing to take back"))


def plan_of_ghosts_again(*, author: Author, plan: Plan) -> Plan:
    named = plan.recipe["namespace"]
    return create_ghost_plan(author=author, namespace=parse_address(named) if named else None, renewal_of=plan)


def _ghosts(kind: str, namespace: Address | None) -> QuerySet:
    rows = GRANT_TABLES[kind][0].objects.filter(content_object__state=State.DELETED)
    return rows if namespace is None else rows.filter(namespace__kind=namespace.kind, namespace__key=namespace.key)


def _note(namespace: Address | None) -> str:
    """Why it may be more than the analysis counts; empty where it is not."""
    inactive: QuerySet[UserGrant] = _ghosts("user", namespace).filter(user__is_active=False)
    if not (total := inactive.count()):
        return ""
    return (f"{total:,} of these grants {'is' if total == 1 else 'are'} held by inactive users, whom the analysis of ghost "
            f"grants leaves out: {'it' if total == 1 else 'they'} would apply again as soon as user and entity are back.")


def _revoking(namespace: Address | None) -> Iterator[PlanChange]:
    for of, name in NAME_COLUMNS.items():
        rows = _ghosts(of, namespace).order_by("content_object__kind", "content_object__key", name, "permission_id")
        found = rows.values_list("content_object__kind", "content_object__key", name, "permission_id")
        for kind, key, holder, permission in found.iterator(chunk_size=ROWS_AT_ONCE):
            yield PlanVerb.REVOKE.value, f"{of}:{holder}", Address(kind, key), privilege_of(permission)
