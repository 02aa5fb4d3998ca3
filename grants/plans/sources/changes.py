"""Create plans from a list of changes: grants, revocations, memberships, and users to activate or deactivate."""

from collections.abc import Callable, Iterable, Mapping

from grants.changes.services import GrantSpec, validated_items
from grants.errors import ChangeRefused
from grants.journal import Author, current_revision
from grants.models import ACTIVATION_VERBS, MEMBERSHIP_VERBS, Plan
from grants.plans.create import PlanChange, PlanDraft, PlanOrigin, change_of_item, create_plan
from grants.principal_rows import principals_by_name
from grants.principals.membership_changes import MembershipItem, validated_memberships
from grants.principals.renaming import names_since

ITEMS_PER_READ = 2_000


def create_plan_from_changes(
    *,
    author: Author,
    grant: Iterable[GrantSpec] = (),
    revoke: Iterable[GrantSpec] = (),
    join: Iterable[MembershipItem] = (),
    leave: Iterable[MembershipItem] = (),
    activate: Iterable[str] = (),
    deactivate: Iterable[str] = (),
    title: str = "",
    base_revision: int | None = None,
) -> Plan:
    """Create a plan of these changes.

    activate, deactivate: names of users.
    base_revision: the revision of the data from which the caller selected the items; the current revision by
    default. Raise ChangeRefused if items are invalid, PlanError if there are no items.
    """
    now = current_revision()
    grants, _ = validated_items({"grant": list(grant), "revoke": list(revoke)})
    memberships, _ = validated_memberships({"join": list(join), "leave": list(leave)})
    users = _validated_users({"activate": list(activate), "deactivate": list(deactivate)})
    changes: list[PlanChange] = [(verb, *item) for verb, items in grants.items() for item in items]
    changes += [
        (verb, *item.principals, None, item.validity)
        for verb, members in memberships.items()
        for item in members
    ]
    changes += [(verb, f"user:{name}", None, None) for verb, names in users.items() for name in names]
    return create_plan(
        author=author,
        draft=PlanDraft(
            title=title or _title(changes),
            origin=PlanOrigin.CHANGE_SET,
            changes=changes,
            base_revision=now if base_revision is None else min(base_revision, now),
            empty_message=f"the plan is empty: put items into `grant`, `revoke`, "
            f"{', '.join(f'`{verb}`' for verb in (*MEMBERSHIP_VERBS, *ACTIVATION_VERBS))}",
        ),
    )


def renew(author: Author, plan: Plan) -> Plan:
    """Create a plan with the same items for the current data.

    Inverse plans and plans from files are renewed in the same way.
    """
    items = plan.items.order_by("position").iterator(chunk_size=ITEMS_PER_READ)
    current_name = names_since(plan.base_revision)
    return create_plan(
        author=author,
        draft=PlanDraft(
            title=plan.title,
            origin=plan.origin,
            recipe=plan.recipe,
            base_revision=current_revision(),
            inverse_of=plan.inverse_of,
            renewal_of=plan,
            changes=(with_names(change_of_item(item), current_name) for item in items),
        ),
    )


def with_names(change: PlanChange, current_name: Callable[[str], str]) -> PlanChange:
    """Return the change with the current names of renamed principals."""
    verb, principal, target, *rest = change
    return verb, current_name(principal), current_name(target) if isinstance(target, str) else target, *rest


def _validated_users(names_by_verb: Mapping[str, list[str]]) -> Mapping[str, list[str]]:
    """Return the names. Raise ChangeRefused with all users that do not exist or are named twice."""
    known = principals_by_name(f"user:{name}" for names in names_by_verb.values() for name in names)
    seen: set[str] = set()
    errors = []
    for verb, names in names_by_verb.items():
        for index, name in enumerate(names):
            if name in seen:
                errors.append((index, verb, f"user:{name} is repeated: keep one of the two"))
            elif f"user:{name}" not in known:
                errors.append((index, verb, f"user:{name} does not exist: add it first, or correct the name"))
            seen.add(name)
    if errors:
        raise ChangeRefused(errors)
    return names_by_verb


def _title(changes: list[PlanChange]) -> str:
    """Return a title such as `Grant 3 and revoke 2`."""
    verbs = [change[0] for change in changes]
    return " and ".join(f"{verb} {verbs.count(verb):,}" for verb in dict.fromkeys(verbs)).capitalize()
