"""Finish a campaign: end the answers, and turn them into plans that an administrator applies."""

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from itertools import islice
from operator import or_

from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from entities.vocabulary import quantity
from grants.authority.persons import accounts_of
from grants.authority.transactions import administrator_transaction
from grants.change_set import Change, Grant, Include, Join, ending_of
from grants.errors import PlanError
from grants.jobs import request_job
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import GroupGrant, Job, Membership, Plan, RoleGroup, UserGrant
from grants.models.reviews import (
    Answer,
    Campaign,
    CampaignState,
    ItemSource,
    ReviewItem,
    ReviewPlan,
    UnansweredRule,
)
from grants.plans.create import MAX_PLAN_ITEMS, PlanDraft, PlanOrigin, store_plan
from grants.policies.principals import group_text
from grants.reviews.answers import sign_off
from grants.reviews.campaigns import add_makers, locked_campaign
from grants.reviews.errors import ReviewError
from grants.reviews.removals import mark_removed_items, missing_condition
from grants.reviews.selection import CHANGED_ANSWER, OPEN_ITEMS, REMOVED_ITEMS
from grants.validity import Validity

FINISHING_JOB = "review-finishing"
ITEMS_PER_READ = 2_000
IS_ENDING = Q(answer__in=(Answer.REVOKE, Answer.SHORTEN))
AUTHOR = Author("review", reason="the result of an access review")
SIGNED_OFF = Author("review", reason="all reviewers have signed off")
_ROWS: Mapping[str, QuerySet] = {
    ItemSource.USER: UserGrant.objects.select_related("user", "content_object"),
    ItemSource.GROUP: GroupGrant.objects.select_related("group", "content_object"),
    ItemSource.MEMBERSHIP: Membership.objects.select_related("user", "group"),
    ItemSource.ROLE_GROUP: RoleGroup.objects.select_related("group", "role"),
}


def sign_off_share(*, author: Author, campaign: Campaign) -> bool:
    """Sign off the author's share.

    Finish the review if all shares are signed off then, and return whether it is finished.
    """
    with transaction.atomic():
        if not sign_off(author=author, campaign=campaign):
            return False
        request_finish(author=SIGNED_OFF, number=campaign.pk)
    return True


def request_finish(*, author: Author, number: int) -> Campaign:
    """End the answers of an open campaign. Its plans and its evidence are written afterwards."""
    with administrator_transaction(author) as head:
        campaign = locked_campaign(number)
        if campaign.state != CampaignState.OPEN:
            raise ReviewError(f"{campaign} is {campaign.state}, so it cannot be finished")
        campaign.state, campaign.finished_by, campaign.figures = (
            CampaignState.FINISHING,
            author.name,
            figures(campaign),
        )
        campaign.job = request_job(Job(type=FINISHING_JOB))
        if campaign.unanswered == UnansweredRule.REVOKE and campaign.figures["open"]:
            add_makers(campaign, {*campaign.creator_ids, *accounts_of(author)})
        campaign.save(update_fields=["state", "finished_by", "figures", "job"])
        counts = ", ".join(
            f"{name} {campaign.figures[name]:,}" for name in ("keep", "revoke", "shorten", "open")
        )
        append_to_journal(
            head, [JournalEntry("review-finish", detail=f"{campaign}: {counts}")], author=author
        )
    return campaign


def create_result_plans(campaign: Campaign, *, confirm: Callable[[], None] = lambda: None) -> list[Plan]:
    """Create the plans with the result of the answers, each with at most MAX_PLAN_ITEMS items. Return the
    plans if they exist.

    Grants and memberships that were removed since are left out, and their items marked. Return an empty list
    if nothing changes.
    confirm: called in the transaction; raises if another attempt creates the plans.
    """
    if plans := list(Plan.objects.filter(review_link__campaign=campaign).order_by("pk")):
        return plans
    mark_removed_items(campaign)
    changes = result_changes(campaign)
    with transaction.atomic():
        # from here on, nothing is removed: the marks and the figures show what the plans leave out
        lock_journal()
        confirm()
        mark_removed_items(campaign)
        campaign.figures = figures(campaign)
        campaign.save(update_fields=["figures"])
        number = 0
        while part := list(islice(changes, MAX_PLAN_ITEMS)):
            number += 1
            try:
                plan = store_plan(
                    AUTHOR,
                    PlanOrigin.REVIEW,
                    PlanDraft(
                        title=f"Result of {campaign}: {campaign.title}"
                        + (f" (part {number})" if number > 1 else ""),
                        changes=part,
                        recipe={"review": campaign.pk},
                        maker_ids=campaign.maker_ids,
                    ),
                )
            except PlanError as error:
                raise ReviewError(f"the plan cannot be created: {error}") from None
            ReviewPlan.objects.create(campaign=campaign, plan=plan)
            plans.append(plan)
    return plans


def close_campaign(campaign: Campaign, *, path: str = "", sha256: str = "") -> None:
    """Mark a campaign as finished. path, sha256: of its evidence bundle."""
    Campaign.objects.filter(pk=campaign.pk, state=CampaignState.FINISHING).update(
        state=CampaignState.FINISHED,
        finished_at=timezone.now(),
        path=path,
        sha256=sha256,
        error="",
    )
    campaign.refresh_from_db()


def items_to_end(campaign: Campaign) -> QuerySet[ReviewItem]:
    """Return the items that lead to a change: those to revoke or shorten, and open ones if the campaign
    revokes them.
    """
    leads_to_change = IS_ENDING | OPEN_ITEMS if campaign.unanswered == UnansweredRule.REVOKE else IS_ENDING
    return ReviewItem.objects.filter(leads_to_change, campaign=campaign)


def result_changes(campaign: Campaign) -> Iterator[Change]:
    """Yield the changes that the answers ask for, with the current names of principals.

    Runs one query, and four for every ITEMS_PER_READ items.
    """
    now = timezone.now()
    items = items_to_end(campaign).order_by("id").iterator(chunk_size=ITEMS_PER_READ)
    while part := list(islice(items, ITEMS_PER_READ)):
        rows = {
            source: query.in_bulk([item.grant_id for item in part if item.source == source])
            for source, query in _ROWS.items()
        }
        for item in part:
            row = rows[item.source].get(item.grant_id)
            if row is None:
                continue
            is_shorter = item.answer == Answer.SHORTEN and item.new_until > now
            if is_shorter and row.valid_until is not None and row.valid_until <= item.new_until:
                continue
            # an end that has passed since the answer, or that is before the beginning, leaves no access
            has_period = is_shorter and (row.valid_from is None or row.valid_from < item.new_until)
            yield _change(item, row, Validity(row.valid_from, item.new_until) if has_period else None)


def _change(item: ReviewItem, row, validity: Validity | None) -> Change:
    """Return the change that gives the reviewed grant or membership this period; None ends it."""
    given = validity or Validity()
    change: Grant | Join | Include
    if item.source == ItemSource.MEMBERSHIP:
        change = Join(row.user.username, row.group.name, given)
    elif item.source == ItemSource.ROLE_GROUP:
        change = Include(row.group.name, row.role.name, given)
    else:
        principal = (
            group_text(row.group.name) if item.source == ItemSource.GROUP else f"user:{row.user.username}"
        )
        change = Grant(principal, row.content_object.address, row.privilege, given)
    return ending_of(change) if validity is None else change


def figures(campaign: Campaign) -> dict[str, int]:
    """Return the counts of items by answer, and of the differences from the previous campaign. Runs at most
    three queries.

    `removed`: the items without an answer that need none any more. `left_out`: the items to revoke or shorten
    that no longer exist, so that the plan leaves them out.
    """
    items = ReviewItem.objects.filter(campaign=campaign)
    counts = items.aggregate(
        items=Count("id"),
        open=Count("id", filter=OPEN_ITEMS),
        removed=Count("id", filter=Q(answer=Answer.OPEN) & REMOVED_ITEMS),
        left_out=Count("id", filter=IS_ENDING & reduce(or_, map(missing_condition, ItemSource.values))),
        **{answer: Count("id", filter=Q(answer=answer)) for answer in filter(None, Answer.values)},
        strands=Count("id", filter=Q(answer=Answer.REVOKE, admins_left__isnull=False)),
    )
    if campaign.previous_id is None:
        return counts
    changes = items.aggregate(
        new=Count("id", filter=Q(is_new=True)), changed=Count("id", filter=CHANGED_ANSWER)
    )
    return counts | changes | {"gone": gone_items(campaign).count()}


def gone_items(campaign: Campaign) -> QuerySet[ReviewItem]:
    """Return the items of the previous campaign that this one does not contain."""
    now = ReviewItem.objects.filter(
        campaign=campaign, source=OuterRef("source"), grant_id=OuterRef("grant_id")
    )
    return ReviewItem.objects.filter(~Exists(now), campaign=campaign.previous_id or 0)


def summary(campaign: Campaign) -> str:
    """Return a sentence with the result of a campaign.

    Only its plans change access, so it names what is to be done.
    """
    counts = campaign.figures
    removed, left_out = counts.get("removed", 0), counts.get("left_out", 0)
    unanswered = counts.get("open", 0)
    is_revoked = unanswered and campaign.unanswered == UnansweredRule.REVOKE
    return (
        f"{quantity(counts.get('items', 0), 'item', 'items')}: {counts.get('keep', 0):,} kept, {counts.get('revoke', 0):,} "
        f"to revoke, {counts.get('shorten', 0):,} to shorten, {unanswered:,} without an answer"
        f"{' (also to revoke)' if is_revoked else ''}{f', {removed:,} removed' if removed else ''}"
        f"{f'. The plan leaves out {left_out:,} of the changes, because the access no longer exists' if left_out else ''}"
    )


def reason_without_plan(campaign: Campaign) -> str:
    """Return why a finished campaign has no plan, as a sentence."""
    counts = campaign.figures
    ending = counts.get("revoke", 0) + counts.get("shorten", 0)
    if ending and ending == counts.get("left_out", 0):
        return "There is no plan, because all access to revoke or shorten no longer exists."
    if ending:
        return "There is no plan, because the access to revoke or shorten has ended or has an earlier end by now."
    return "There is no plan, because no item is to be revoked or shortened. No access changes."
