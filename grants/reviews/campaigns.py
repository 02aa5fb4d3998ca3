"""Create, repeat and cancel campaigns, and create the next campaign of a recurrence."""

import calendar
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field, fields, replace
from datetime import datetime, timedelta

from django.db import models
from django.utils import timezone

from entities.frozen import frozen
from entities.text import storage_fault
from grants.authority.persons import accounts_of
from grants.authority.transactions import administrator_transaction
from grants.jobs import cancel_job, request_job
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import Job
from grants.models.reviews import Campaign, CampaignState, Recurrence, ReviewerRule, UnansweredRule
from grants.principal_names import MAX_REASON_CHARACTERS, control_character_fault
from grants.reviews.errors import ReviewError
from grants.reviews.reviewers import reviewers_of_group
from grants.reviews.scope import check_scope_names, parse_scope
from grants.usage import first_day_of_use

PREPARATION_JOB = "review-preparation"
MAX_TITLE_CHARACTERS = 200
MAX_DAYS = 366
# later times, and the deadlines of following reviews, may not exist in the calendar
MAX_DAYS_TO_DEADLINE = 36_525
UNFINISHED = (CampaignState.PREPARING, CampaignState.OPEN, CampaignState.FINISHING)
MAX_UNFINISHED = 100


@frozen
class CampaignOptions:
    """The input for a campaign.

    The fields are those of `Campaign`; scope: see `grants.reviews.scope.parse_scope`.
    """

    title: str
    deadline: datetime
    scope: Mapping = field(default_factory=dict)
    description: str = ""
    reviewer_rule: str = ReviewerRule.ADMINISTRATORS
    reviewer_group: str = ""
    escalation_group: str = ""
    unanswered: str = UnansweredRule.LIST
    recurrence: str = Recurrence.NEVER
    reminder_days: int = 7
    escalation_days: int = 0


def create_campaign(*, author: Author, options: CampaignOptions) -> Campaign:
    """Store a campaign that is to be prepared.

    Raise NotAdministrator, or ReviewError if an option is invalid.
    """
    _check(options)
    with administrator_transaction(author) as head:
        _check_unfinished_count()
        campaign = _create(options, created_by=author.name, creator_ids=sorted(accounts_of(author)))
        append_to_journal(head, [_start_line(campaign)], author=author)
    return campaign


def create_next_campaign(campaign: Campaign) -> Campaign | None:
    """Create the campaign that follows a recurring one, when it is due. Return None if it exists or is not
    due.

    It lasts as long as the one before it. Its items are compared with the campaign before.
    """
    if not campaign.recurrence or campaign.next_created or campaign.state == CampaignState.CANCELLED:
        return None
    start = months_later(campaign.created_at, int(campaign.recurrence))
    if start > timezone.now():
        return None
    author = Author("review", reason=f"follows {campaign}")
    with administrator_transaction(author) as head:
        if not Campaign.objects.filter(pk=campaign.pk, next_created=False).update(next_created=True):
            return None
        duration = campaign.deadline - campaign.created_at
        same = CampaignOptions(
            **{option.name: getattr(campaign, option.name) for option in fields(CampaignOptions)}
        )
        following = _create(
            replace(same, deadline=max(start + duration, timezone.now() + timedelta(days=1))),
            created_by=campaign.created_by,
            creator_ids=campaign.creator_ids,
            previous=campaign,
        )
        append_to_journal(head, [_start_line(following)], author=author)
    return following


def cancel_campaign(*, author: Author, number: int) -> Campaign:
    """Cancel a campaign that is not finished. Its answers have no effect. A recurrence ends."""
    with administrator_transaction(author) as head:
        campaign = locked_campaign(number)
        if campaign.state in (CampaignState.FINISHED, CampaignState.FINISHING, CampaignState.CANCELLED):
            raise ReviewError(f"{campaign} is {campaign.state}, so it cannot be cancelled")
        campaign.state, campaign.finished_at, campaign.finished_by = (
            CampaignState.CANCELLED,
            timezone.now(),
            author.name,
        )
        campaign.save(update_fields=["state", "finished_at", "finished_by"])
        if campaign.job is not None:
            cancel_job(campaign.job)
        append_to_journal(
            head, [JournalEntry("review-cancel", detail=f"{campaign}: {campaign.title}")], author=author
        )
    return campaign


def retry_campaign(*, author: Author, number: int) -> Campaign:
    """Let a campaign whose preparation failed be prepared again. Raise NotAdministrator or ReviewError."""
    with administrator_transaction(author) as head:
        campaign = locked_campaign(number)
        if campaign.state != CampaignState.FAILED:
            raise ReviewError(f"{campaign} is {campaign.state}: only a failed review can be prepared again")
        if campaign.deadline <= timezone.now():
            raise ReviewError("the deadline has passed: start another review")
        _check_unfinished_count()
        campaign.state, campaign.error, campaign.item_count = CampaignState.PREPARING, "", 0
        campaign.job = request_job(Job(type=PREPARATION_JOB))
        campaign.save(update_fields=["state", "error", "item_count", "job"])
        append_to_journal(
            head, [JournalEntry("review-retry", detail=f"{campaign}: {campaign.title}")], author=author
        )
    return campaign


def locked_campaign(number: int) -> Campaign:
    """Return the campaign with this number, and lock its row until the transaction ends.

    Raise ReviewError if there is none.
    """
    campaign = Campaign.objects.select_for_update().filter(pk=number).first()
    if campaign is None:
        raise ReviewError(f"review {number} does not exist: correct the number")
    return campaign


def add_makers(campaign: Campaign, accounts: Iterable[int]) -> None:
    """Record that the persons with these accounts decided to end access. For the rules of four eyes, they
    make the resulting plans.

    The caller holds the lock of the journal.
    """
    campaign.maker_ids = sorted({*campaign.maker_ids, *accounts})
    campaign.save(update_fields=["maker_ids"])


def months_later(start: datetime, months: int) -> datetime:
    """Return the time this many months later, on the last day of the month if it has fewer days."""
    month = start.month - 1 + months
    year, month = start.year + month // 12, month % 12 + 1
    return start.replace(year=year, month=month, day=min(start.day, calendar.monthrange(year, month)[1]))


def _create(
    options: CampaignOptions, *, created_by: str, creator_ids: list[int], previous: Campaign | None = None
) -> Campaign:
    return Campaign.objects.create(
        **asdict(options) | {"scope": parse_scope(options.scope).as_json()},
        created_by=created_by,
        creator_ids=creator_ids,
        previous=previous,
        job=request_job(Job(type=PREPARATION_JOB)),
    )


def _start_line(campaign: Campaign) -> JournalEntry:
    deadline = campaign.deadline.isoformat(timespec="seconds").replace("+00:00", "Z")
    return JournalEntry(
        "review-start",
        detail=f"{campaign}: {campaign.title}; {parse_scope(campaign.scope)}; deadline {deadline}",
    )


def _check_unfinished_count() -> None:
    if Campaign.objects.filter(state__in=UNFINISHED).count() >= MAX_UNFINISHED:
        raise ReviewError(f"{MAX_UNFINISHED} reviews are not finished: finish or cancel one of them first")


def _check(options: CampaignOptions) -> None:
    if not options.title.strip():
        raise ReviewError("the title is empty: write what is reviewed", field="title")
    if len(options.title) > MAX_TITLE_CHARACTERS:
        raise ReviewError(
            f"the title has {len(options.title):,} characters; {MAX_TITLE_CHARACTERS} are allowed",
            field="title",
        )
    if fault := control_character_fault("the title", options.title):
        raise ReviewError(fault, field="title")
    if fault := storage_fault(options.description, MAX_REASON_CHARACTERS):
        raise ReviewError(f"the description cannot be stored: {fault}", field="description")
    if timezone.is_naive(options.deadline):
        raise ReviewError(
            "the deadline has no time zone: add one, such as 2026-12-31T17:00:00+01:00", field="deadline"
        )
    if options.deadline <= timezone.now():
        raise ReviewError("the deadline is in the past: choose a later one", field="deadline")
    if options.deadline - timezone.now() > timedelta(days=MAX_DAYS_TO_DEADLINE):
        raise ReviewError(
            f"the deadline is more than {MAX_DAYS_TO_DEADLINE:,} days away: choose an earlier one",
            field="deadline",
        )
    check_assignment(options)
    for name, choices in (
        ("unanswered", UnansweredRule),
        ("recurrence", Recurrence),
    ):
        _check_choice(options, name, choices)
    for name in ("reminder_days", "escalation_days"):
        if not 0 <= getattr(options, name) <= MAX_DAYS:
            raise ReviewError(f"{name} must be a number from 0 to {MAX_DAYS}", field=name)
    scope = parse_scope(options.scope)
    if scope.unused_days and options.unanswered == UnansweredRule.REVOKE and first_day_of_use() is None:
        raise ReviewError(
            "no use is recorded, so nothing is known to be unused, and items without an answer would be revoked: import "
            "uses first, or keep these items",
            field="unanswered",
        )


def check_assignment(options: CampaignOptions) -> None:
    """Check the scope and the reviewers. Raise ReviewError if an option is invalid, or names what does not exist."""
    _check_choice(options, "reviewer_rule", ReviewerRule)
    if bool(options.reviewer_group) != (options.reviewer_rule == ReviewerRule.GROUP):
        raise ReviewError(
            "name a group of reviewers if, and only if, the members of a group review", field="reviewer_group"
        )
    for name in ("reviewer_group", "escalation_group"):
        if group := getattr(options, name):
            reviewers_of_group(group, field=name)
    check_scope_names(parse_scope(options.scope))


def _check_choice(options: CampaignOptions, name: str, choices: type[models.TextChoices]) -> None:
    if getattr(options, name) not in choices.values:
        raise ReviewError(
            f"`{getattr(options, name)}` is not one of {', '.join(filter(None, choices.values))}", field=name
        )
