"""What the page of a review shows while its items are prepared."""

from analytics.review_items.stored import items_run
from analytics.runs.selectors import run_progress, waiting_reason
from grants.models import User
from grants.models.reviews import Campaign, CampaignState


def preparation_context(account: User, campaign: Campaign) -> dict | None:
    """Return the context of `reviews/_preparation.html`; None for reviewers, and for a review that is not
    being prepared.

    Runs one query. While the preparation waits, it runs one more query and two calls of Redis.
    run: the run that computes the items of a large review, while it is not finished.
    """
    if campaign.state != CampaignState.PREPARING or not account.can_see_all:
        return None
    run = items_run(campaign)
    if run is not None and not run.is_finished:
        return {"run": run, "details": run_progress(run)}
    return {
        "waiting_reason": waiting_reason("The preparation") if campaign.heartbeat_at is None else "",
        "item_count": campaign.item_count,
    }
