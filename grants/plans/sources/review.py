"""Create the plan of a review again."""

from collections.abc import Iterator

from django.utils import timezone

from grants.change_set import Change, Grant, Join, ending_of, with_current_names
from grants.journal import Author, current_revision
from grants.models import Plan
from grants.models.reviews import ReviewPlan
from grants.plans.create import PlanDraft, create_plan
from grants.plans.items import change_of_item
from grants.principals.renaming import names_since

ITEMS_PER_READ = 2_000


def renew(author: Author, plan: Plan) -> Plan:
    """Create a plan with the same items for the current data.

    Access with a shorter end that has passed is revoked.
    """
    renewed = create_plan(
        author=author,
        draft=PlanDraft(
            title=plan.title,
            origin=plan.origin,
            recipe=plan.recipe,
            base_revision=current_revision(),
            renewal_of=plan,
            changes=_changes(plan),
        ),
    )
    for link in ReviewPlan.objects.filter(plan=plan):
        ReviewPlan.objects.create(campaign_id=link.campaign_id, plan=renewed)
    return renewed


def _changes(plan: Plan) -> Iterator[Change]:
    now, current_name = timezone.now(), names_since(plan.base_revision)
    for item in plan.items.order_by("position").iterator(chunk_size=ITEMS_PER_READ):
        change = with_current_names(change_of_item(item), current_name)
        if isinstance(change, Grant | Join) and change.validity.is_over(now):
            yield ending_of(change)
        else:
            yield change
