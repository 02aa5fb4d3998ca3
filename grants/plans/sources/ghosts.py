"""Create plans that revoke leftover grants: grants on deleted addresses, which would apply again if the
entity were recreated.

Planned grants are kept, because they will apply when their entity is live.
"""

from collections.abc import Sequence
from itertools import chain

from entities.address import Address
from entities.models import State
from entities.selectors import entities_at
from entities.vocabulary import quantity
from grants.change_set import ChangeSet, Revoke
from grants.errors import PlanError
from grants.models import GrantQuerySet, all_grants
from grants.plans.create import PlanDraft, PlanOrigin, plan_source
from grants.plans.sources.changes import change_set_plan
from grants.plans.sources.recipes import read_address
from grants.querysets import on_and_inside
from grants.stored_changes import revocations_of


@plan_source(PlanOrigin.GHOSTS)
def ghost_plan(*, namespace: Address | str | None = None) -> PlanDraft:
    """Return a plan that revokes every grant on a deleted address, or only the grants on and inside
    `namespace`.

    The plan depends only on its addresses: it remains valid after a later deletion, and becomes stale if one
    of its entities is recreated. Raise PlanError if there is nothing to revoke.
    """
    namespace = read_address(namespace)
    where = f" in {namespace}" if namespace else ""
    return PlanDraft(
        title=f"Revoke the grants on deleted addresses{where}",
        changes=chain.from_iterable(map(revocations_of, _leftover_grants(namespace))),
        recipe={"namespace": str(namespace or ""), "note": _note(namespace)},
        empty_message=f"there is nothing to revoke: no grant is on a deleted address{where}",
    )


@plan_source(PlanOrigin.CHANGE_SET)
def selected_ghost_plan(grants: Sequence[Revoke]) -> PlanDraft:
    """Return a plan that revokes these grants, which a report listed.

    Raise PlanError if one of their entities is live now.
    """
    if not grants:
        raise PlanError("no grant is selected")
    addresses = [grant.address for grant in grants]
    if live := next((address for address, entity in entities_at(addresses).items() if entity.is_live), None):
        raise PlanError(f"{live} is live now, so the report is out of date: run the analysis again")
    title = f"Revoke {quantity(len(grants), 'grant', 'grants')} on addresses that are not live"
    return change_set_plan.draft(ChangeSet.of(*grants), title)


def namespace_condition(namespace: Address | None) -> dict[str, str]:
    """Return the condition on grants on and inside a namespace; empty for None. Raise PlanError for another kind."""
    if namespace is None:
        return {}
    if namespace.kind != "namespace":
        raise PlanError(f"{namespace} is not a namespace: name one, such as namespace:sales, or none")
    return on_and_inside(namespace)


def _leftover_grants(namespace: Address | None) -> list[GrantQuerySet]:
    return all_grants(content_object__state=State.DELETED, **namespace_condition(namespace))


def _note(namespace: Address | None) -> str:
    """Return why the plan revokes more grants than the ghost-grants analysis counts; empty if the numbers
    agree.
    """
    of_users, *_ = _leftover_grants(namespace)
    total = of_users.filter(user__is_active=False).count()
    if not total:
        return ""
    return (
        f"{total:,} of these grants {'is' if total == 1 else 'are'} held by inactive users, which the ghost-grants analysis "
        f"leaves out: {'it' if total == 1 else 'they'} would apply again when both user and entity are back."
    )
