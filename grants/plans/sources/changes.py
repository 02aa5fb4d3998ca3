"""Create plans from a change set."""

from grants.change_set import ChangeSet, with_current_names
from grants.changes.validation import validated_principals
from grants.journal import Author, current_revision
from grants.models import Plan, PlanVerb
from grants.plans.create import PlanDraft, PlanOrigin, create_plan
from grants.plans.items import changes_of_plan
from grants.principals.renaming import names_since


def create_plan_from_changes(
    *, author: Author, change_set: ChangeSet, title: str = "", base_revision: int | None = None
) -> Plan:
    """Create a plan of these changes.

    base_revision: the revision of the data from which the caller selected the changes; the current revision
    by default. Raise ChangeRefused if changes are invalid, PlanError if there are none.
    """
    now = current_revision()
    validated_principals(change_set)
    return create_plan(
        author=author,
        draft=PlanDraft(
            title=title or _title(change_set),
            origin=PlanOrigin.CHANGE_SET,
            changes=change_set,
            base_revision=now if base_revision is None else min(base_revision, now),
            empty_message=f"the plan is empty: put items into {', '.join(f'`{verb.value}`' for verb in PlanVerb)}",
        ),
    )


def renew(author: Author, plan: Plan) -> Plan:
    """Create a plan with the same items for the current data.

    Inverse plans and plans from files are renewed in the same way.
    """
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
            changes=(with_current_names(change, current_name) for change in changes_of_plan(plan)),
        ),
    )


def _title(change_set: ChangeSet) -> str:
    """Return a title such as `Grant 3 and revoke 2`."""
    verbs = [change.verb for change in change_set]
    return " and ".join(f"{verb} {verbs.count(verb):,}" for verb in dict.fromkeys(verbs)).capitalize()
