"""Create plans from a change set."""

from grants.change_set import ChangeSet
from grants.changes import validated_principals
from grants.journal import current_revision
from grants.models import STATE_VERBS, PlanVerb
from grants.plans.create import PlanDraft, PlanOrigin, plan_source

# only a sync makes the other changes
VERBS = [verb for verb in PlanVerb if verb not in (PlanVerb.ADD_USER, *STATE_VERBS)]


@plan_source(PlanOrigin.CHANGE_SET)
def change_set_plan(change_set: ChangeSet, title: str = "", base_revision: int | None = None) -> PlanDraft:
    """Return a plan of these changes.

    base_revision: the revision of the data from which the caller selected the changes; the current revision
    by default. Raise ChangeRefused if changes are invalid, PlanError if there are none.
    """
    now = current_revision()
    validated_principals(change_set)
    return PlanDraft(
        title=title or _title(change_set),
        changes=change_set,
        base_revision=now if base_revision is None else min(base_revision, now),
        empty_message=f"the plan is empty: put items into {', '.join(f'`{verb.value}`' for verb in VERBS)}",
    )


def _title(change_set: ChangeSet) -> str:
    """Return a title such as `Grant 3 and revoke 2`."""
    verbs = [change.verb for change in change_set]
    return " and ".join(f"{verb} {verbs.count(verb):,}" for verb in dict.fromkeys(verbs)).capitalize()
