"""Create plans with the missing grants that a user needs to delete a namespace."""

from entities.address import Address, parse_address
from grants.change_set import grants_to
from grants.errors import PlanError
from grants.journal import Author, current_revision
from grants.lifecycle.forecast import resolve_generation
from grants.lifecycle.missing_grants import active_user_by_name, missing_grants_to_delete
from grants.models import Plan, PlanBreadth, User
from grants.plans.create import PlanDraft, PlanOrigin, create_plan
from grants.policies.policy import Generation
from grants.principal_names import format_principal, parse_principal
from grants.querysets import groups_of


def create_readiness_plan(
    *,
    author: Author,
    namespace: Address,
    user: str,
    generation: Generation | str | None = None,
    principal: str = "",
    renewal_of: Plan | None = None,
) -> Plan:
    """Create a plan of the fewest grants that let `user` delete `namespace`.

    principal: the principal that receives the grants: the user by default, or a group of the user.
    Raise PlanError if the plan cannot be created, LifecycleError if `namespace` is not live,
    UnknownGeneration if there is no such generation.
    """
    revision, rules = current_revision(), resolve_generation(generation)
    deleter = active_user_by_name(user)
    receiver = format_principal(principal) if principal else f"user:{user}"
    _check_receiver(receiver, deleter)
    through = "" if receiver == str(deleter) else f" through {receiver}"
    missing = missing_grants_to_delete(namespace, deleter, rules)
    return create_plan(
        author=author,
        draft=PlanDraft(
            title=f"Let {deleter} delete {namespace}{through} ({rules.name})",
            origin=PlanOrigin.READINESS,
            base_revision=revision,
            breadth=PlanBreadth.NAMESPACES,
            watches=[str(deleter)],
            renewal_of=renewal_of,
            changes=grants_to(receiver, missing),
            recipe={
                "namespace": str(namespace),
                "user": user,
                "generation": rules.name,
                "principal": receiver,
            },
            empty_message=f"nothing is missing: {deleter} can already delete {namespace} (generation `{rules.name}`)",
        ),
    )


def renew(author: Author, plan: Plan) -> Plan:
    """Create a plan with the grants that the same user is missing now."""
    recipe = plan.recipe
    return create_readiness_plan(
        author=author,
        namespace=parse_address(recipe["namespace"]),
        user=recipe["user"],
        renewal_of=plan,
        generation=recipe["generation"],
        principal=recipe["principal"],
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
