"""Create plans from a list of grants and revocations."""

from collections.abc import Iterable

from grants.changes.outcomes import ChangeItem
from grants.changes.services import GrantSpec, validated_items
from grants.journal import Author, current_revision
from grants.models import Plan, PlanVerb
from grants.plans.create import PlanDraft, PlanOrigin, create_plan

ITEMS_PER_READ = 2_000


def create_plan_from_changes(*, author: Author, grant: Iterable[GrantSpec] = (), revoke: Iterable[GrantSpec] = (),
                             title: str = "", base_revision: int | None = None) -> Plan:
    """Create a plan of these grants and revocations.

    base_revision: the revision of the data from which the caller selected the items; the current revision by default. Raise
    ChangeRefused if items are invalid, PlanError if there are no items.
    """
    now = current_revision()
    items_by_verb, _ = validated_items({"grant": list(grant), "revoke": list(revoke)})
    changes = [(verb, *item) for verb, items in items_by_verb.items() for item in items]
    return create_plan(author=author, draft=PlanDraft(
        title=title or _title(items_by_verb), origin=PlanOrigin.CHANGE_SET, changes=changes,
        base_revision=now if base_revision is None else min(base_revision, now),
        empty_message="the plan is empty: put items into `grant` or `revoke`"))


def renew(author: Author, plan: Plan) -> Plan:
    """Create a plan with the same items for the current data. Inverse plans and plans from files are renewed in the same way."""
    items = plan.items.order_by("position").iterator(chunk_size=ITEMS_PER_READ)
    changes = ((PlanVerb(item.verb).value, item.principal, item.address, item.privilege) for item in items)
    return create_plan(author=author, draft=PlanDraft(
        title=plan.title, origin=plan.origin, changes=changes, recipe=plan.recipe, base_revision=current_revision(),
        inverse_of=plan.inverse_of, renewal_of=plan))


def _title(items_by_verb: dict[str, list[ChangeItem]]) -> str:
    """Return a title such as `Grant 3 and revoke 2`."""
    counts = [f"{verb} {len(items):,}" for verb, items in items_by_verb.items() if items]
    return " and ".join(counts).capitalize()
