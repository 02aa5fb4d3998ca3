"""Create plans with the missing grants that a user needs to delete a namespace."""

from entities.address import Address
from grants.change_set import grants_to
from grants.errors import PlanError
from grants.lifecycle import active_user_by_name, missing_grants_to_delete, resolve_generation
from grants.models import PlanBreadth, User
from grants.plans.create import MAX_PLAN_ITEMS, PlanDraft, PlanOrigin, plan_source
from grants.plans.sources.recipes import read_address
from grants.policies.policy import Generation
from grants.principal_names import format_principal, parse_principal
from grants.querysets import groups_of


@plan_source(PlanOrigin.READINESS)
def readiness_plan(
    *,
    namespace: Address | str,
    user: str,
    generation: Generation | str | None = None,
    principal: str = "",
) -> PlanDraft:
    """Return a plan of the fewest grants that let `user` delete `namespace`.

    principal: the principal that receives the grants: the user by default, or a group of the user.
    Raise PlanError if the plan cannot be created, LifecycleError if `namespace` is not live,
    UnknownGeneration if there is no such generation.
    """
    address, rules, deleter = (
        read_address(namespace),
        resolve_generation(generation),
        active_user_by_name(user),
    )
    assert address is not None
    receiver = format_principal(principal) if principal else f"user:{user}"
    _check_receiver(receiver, deleter)
    missing = missing_grants_to_delete(address, deleter, rules, max_grants=MAX_PLAN_ITEMS)
    through = "" if receiver == str(deleter) else f" through {receiver}"
    return PlanDraft(
        title=f"Let {deleter} delete {address}{through} ({rules.name})",
        breadth=PlanBreadth.NAMESPACES,
        watches=[str(deleter)],
        changes=grants_to(receiver, missing),
        recipe={
            "namespace": str(address),
            "user": user,
            "generation": rules.name,
            "principal": receiver,
        },
        empty_message=f"nothing is missing: {deleter} can already delete {address} (generation `{rules.name}`)",
    )


def _check_receiver(receiver: str, deleter: User) -> None:
    """Raise PlanError if grants to the receiver would not be effective for the user."""
    kind, name = parse_principal(receiver)
    if kind == "user" and receiver != str(deleter):
        raise PlanError(
            f"grants to {receiver} give {deleter} nothing: name {deleter} or one of the user's groups"
        )
    if kind == "group" and not groups_of(deleter).filter(name=name).exists():
        raise PlanError(
            f"{deleter} is not in {receiver}, so grants to it give {deleter} nothing: name {deleter} or one of "
            f"the user's groups"
        )
