"""Answer items, alone or in bulk, undo answers, and move items to other reviewers.

Reviewers answer only their items; administrators and approvers answer all. No account answers an item about
its own access, that of the creator of its API token, or that of a service account for which it created an API
token. Each call writes a journal line for each of at most MAX_SELECTED items, or else one line with their number.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import field
from datetime import datetime

from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from entities.frozen import frozen
from entities.text import storage_fault
from entities.vocabulary import quantity
from grants.authority.persons import accounts_of, with_service_accounts
from grants.errors import NotAdministrator
from grants.journal import Author, JournalEntry, append_to_journal, lock_journal
from grants.models import JournalHead, User, privilege_of
from grants.models.reviews import Answer, Campaign, CampaignState, ReviewItem, ReviewShare
from grants.principal_names import MAX_REASON_CHARACTERS
from grants.reviews.campaigns import add_makers
from grants.reviews.errors import ReviewError
from grants.reviews.reviewers import concern_condition, reviewer_condition, reviewers_of_group
from grants.reviews.selection import OPEN_ITEMS, ItemFilter, answerable_items, matching_items
from grants.reviews.shares import (
    change_shares,
    count_changes,
    counts_by_reviewer,
    is_signed_off,
    share_to_sign_off,
)
from grants.roles.capabilities import Capability
from grants.validity import Validity, format_time

MAX_SELECTED = 1_000
# the message names at most this many people whose answers were replaced
MAX_NAMES = 3
# the items of one bulk answer; every other change waits while they are written
MAX_BULK_ITEMS = 100_000
UNDO = "undo"


@frozen
class ItemSelection:
    """The items of a bulk answer: by number, or all that meet a filter."""

    numbers: Collection[int] | None = None
    filter: ItemFilter | None = None

    def of(self, items: QuerySet[ReviewItem]) -> QuerySet[ReviewItem]:
        if self.numbers is not None:
            if len(self.numbers) > MAX_SELECTED:
                raise ReviewError(
                    f"{len(self.numbers):,} items are selected, and {MAX_SELECTED:,} are allowed: use a filter",
                    field="items",
                )
            return items.filter(pk__in=self.numbers)
        return matching_items(items, self.filter or ItemFilter())


@frozen
class AnswerPreview:
    """What a bulk answer would change.

    count: the items that would get the answer. answered: those of them that already have an answer. own:
    items that are skipped, because they are about the account itself. strands: items that leave an entity
    with fewer than two ADMIN holders if they are revoked. items: those that would get the answer.
    """

    items: QuerySet[ReviewItem]
    count: int
    answered: int
    own: int
    strands: int
    by_source: dict[str, int] = field(default_factory=dict)


@frozen
class AnswerOutcome:
    """The result of an answer. count: changed items. own: skipped items about the account itself."""

    count: int
    own: int
    sentence: str
    revision: int


def preview_answer(*, account: User, campaign: Campaign, selection: ItemSelection) -> AnswerPreview:
    """Return what an answer to these items would change. Runs four queries."""
    items = selection.of(answerable_items(account, campaign))
    own = concern_condition(account, with_service_accounts({account.pk}))
    others = items.exclude(own)
    row = others.aggregate(
        count=Count("id"),
        answered=Count("id", filter=~Q(answer=Answer.OPEN)),
        strands=Count("id", filter=Q(admins_left__isnull=False)),
    )
    by_source = dict(
        others.order_by().values_list("source").annotate(total=Count("id")).values_list("source", "total")
    )
    return AnswerPreview(others, **row, own=items.filter(own).count(), by_source=by_source)


def answer_items(
    *,
    author: Author,
    campaign: Campaign,
    selection: ItemSelection,
    answer: str,
    comment: str = "",
    new_until: datetime | None = None,
    max_items: int = MAX_BULK_ITEMS,
) -> AnswerOutcome:
    """Give the same answer to these items. An empty answer undoes earlier ones. A new answer replaces an
    earlier one.

    new_until: the new end of the access; only for the answer `shorten`. Runs a fixed number of statements.
    Raise ReviewError if the campaign is not open, the answer is invalid, or no item or too many items are
    selected.
    """
    _check_answer(answer, comment, new_until)
    with _open_campaign(author, campaign) as (head, account):
        items, own = _selected_items(account, campaign, selection, max_items, person=_person_of(author))
        if answer == Answer.SHORTEN:
            _check_shortens(items, new_until)
        before = counts_by_reviewer(items)
        count = sum(counts["items"] for counts in before.values())
        now = timezone.now() if answer else None
        named = [] if count > MAX_SELECTED else list(items.order_by("pk"))
        of_others = items.exclude(answer=Answer.OPEN).exclude(answered_by=author.name).order_by()
        replaced = dict(of_others.values_list("answered_by").annotate(Count("pk")))
        numbers = [item.pk for item in named] or items.values("pk")
        ReviewItem.objects.filter(pk__in=numbers).update(
            answer=answer,
            comment=comment if answer else "",
            new_until=new_until,
            answered_by=author.name if answer else "",
            answered_at=now,
        )
        change_shares(
            campaign,
            {
                reviewer: {"answered": (counts["items"] if answer else 0) - counts["answered"]}
                for reviewer, counts in before.items()
            },
        )
        if answer in (Answer.REVOKE, Answer.SHORTEN):
            add_makers(campaign, accounts_of(author))
        verb = answer or UNDO
        revision = append_to_journal(
            head,
            [_answer_entry(campaign, item, verb, new_until, comment) for item in named]
            or [JournalEntry("review-answer", detail=f"{campaign}: {verb} {count:,} items", reason=comment)],
            author=author,
        )
    sentence = f"{_PAST_TENSES[verb]} {quantity(count, 'item', 'items')}"
    if replaced:
        # the reviewer may not know: the page can be older than these answers
        names = ", ".join(sorted(replaced)[:MAX_NAMES])
        more = " and others" if len(replaced) > MAX_NAMES else ""
        sentence += (
            f"; this replaces {quantity(sum(replaced.values()), 'answer', 'answers')} of {names}{more}"
        )
    return AnswerOutcome(count, own, sentence, revision)


def _answer_entry(
    campaign: Campaign, item: ReviewItem, verb: str, new_until: datetime | None, comment: str
) -> JournalEntry:
    """Return the journal line about the answer to an item. The detail about a membership ends with the group."""
    words = " ".join(
        filter(
            None,
            [
                verb,
                f"to {format_time(new_until)}" if new_until else "",
                item.target if item.is_membership else "",
            ],
        )
    )
    return JournalEntry(
        "review-answer",
        principal=item.principal,
        entity=str(item.address or ""),
        privilege=privilege_of(item.permission_id).value if item.permission_id else "",
        detail=f"{campaign}: {words}",
        reason=comment,
    )


def assign_items(
    *,
    author: Author,
    campaign: Campaign,
    selection: ItemSelection,
    reviewer: str = "",
    comment: str = "",
    max_items: int = MAX_BULK_ITEMS,
) -> AnswerOutcome:
    """Move items to another reviewer, or with an empty name to the escalation of the campaign. Their answers
    are undone.

    Reviewers can only move their items to the escalation, because naming accounts would show which exist.
    Items about the new reviewer are not moved. Items about the author's own access only move to the
    escalation, and only without an answer: otherwise the author could choose who reviews it, and undo the
    answers of others.
    """
    _check_comment(comment)
    with _open_campaign(author, campaign) as (head, account):
        if reviewer and not account.can(Capability.APPROVE):
            raise ReviewError(
                "only administrators can choose a reviewer: return the items instead", field="reviewer"
            )
        items, own = _selected_items(
            account, campaign, selection, max_items, person=_person_of(author), includes_open_own=not reviewer
        )
        targets = _reviewer_by_name(reviewer) if reviewer else escalation_reviewers(campaign)
        moved = move_items(campaign, items, targets, escalated=not reviewer)
        target = f"user:{reviewer}" if reviewer else "the escalation"
        detail = f"{campaign}: {quantity(moved, 'item', 'items')} to {target}"
        revision = append_to_journal(
            head, [JournalEntry("review-assign", detail=detail, reason=comment)], author=author
        )
    return AnswerOutcome(moved, own, f"moved {quantity(moved, 'item', 'items')} to {target}", revision)


def sign_off(*, author: Author, campaign: Campaign) -> bool:
    """Sign off the share of the author, in which every item has an answer.

    Return whether all shares are signed off now.
    """
    with _open_campaign(author, campaign) as (head, account):
        share = share_to_sign_off(account, campaign.shares.filter(Q(reviewer=account) | Q(reviewer=None)))
        if share is None:
            raise ReviewError("you have no items in this review")
        if share.open_count:
            raise ReviewError(
                f"{quantity(share.open_count, 'item has', 'items have')} no answer yet: answer or return "
                f"{'it' if share.open_count == 1 else 'them'} first"
            )
        ReviewShare.objects.filter(pk=share.pk).update(signed_off_at=timezone.now())
        append_to_journal(
            head,
            [JournalEntry("review-sign-off", detail=f"{campaign}: {share.item_count:,} items")],
            author=author,
        )
        return is_signed_off(campaign)


def move_items(
    campaign: Campaign, items: QuerySet[ReviewItem], reviewers: list[int], *, escalated: bool
) -> int:
    """Move items to these reviewers in turn, so that the items of a principal stay together. Return the
    number of items.

    An item goes to administrators if there are no reviewers, or if it is about the access of its new
    reviewer. Runs a few statements for each reviewer.
    """
    numbers = list(items.values_list("pk", "principal_id"))
    selected = ReviewItem.objects.filter(pk__among=[pk for pk, _ in numbers])
    before = counts_by_reviewer(selected)
    values = {
        "escalated": escalated,
        "answer": Answer.OPEN,
        "comment": "",
        "new_until": None,
        "answered_by": "",
        "answered_at": None,
    }
    selected.update(reviewer=None, **values)
    for place, user in enumerate(User.objects.filter(pk__in=reviewers).order_by("pk")):
        own = [pk for pk, principal in numbers if principal % len(reviewers) == place]
        ReviewItem.objects.filter(pk__among=own).exclude(concern_condition(user)).update(reviewer=user)
    change_shares(campaign, count_changes(before, counts_by_reviewer(selected)))
    return len(numbers)


def end_reviews_by(user: User) -> list[JournalEntry]:
    """Take all shares of open reviews from a user who leaves: open items go to the escalation, answered ones to
    the administrators. Return the changes for the journal.
    """
    changes = []
    for campaign in Campaign.objects.filter(state=CampaignState.OPEN, shares__reviewer=user).order_by("pk"):
        items = ReviewItem.objects.filter(campaign=campaign, reviewer=user)
        targets = [pk for pk in escalation_reviewers(campaign) if pk != user.pk]
        moved = move_items(campaign, items.filter(OPEN_ITEMS), targets, escalated=True)
        counts = counts_by_reviewer(items)
        items.update(reviewer=None)
        if counts:
            change_shares(campaign, count_changes(counts, {None: counts[user.pk]}))
        if moved:
            detail = f"{campaign}: {quantity(moved, 'item', 'items')} to the escalation"
            changes.append(JournalEntry("review-assign", detail=detail, reason=f"{user} left"))
    return changes


def detach_reviews_by(user: User) -> None:
    """Remove the shares of a former user, so that another person who gets the account cannot read them."""
    ReviewShare.objects.filter(reviewer=user).delete()


def escalation_reviewers(campaign: Campaign) -> list[int]:
    """Return the primary keys of the users to which items are escalated; an empty list for administrators."""
    try:
        return (
            reviewers_of_group(campaign.escalation_group, field="escalation_group")
            if campaign.escalation_group
            else []
        )
    except ReviewError:
        # the group was removed or is empty by now
        return []


_PAST_TENSES = {
    Answer.KEEP: "kept",
    Answer.REVOKE: "marked to revoke",
    Answer.SHORTEN: "marked to shorten",
    UNDO: "undid the answer of",
}


@contextmanager
def _open_campaign(author: Author, campaign: Campaign) -> Iterator[tuple[JournalHead, User]]:
    """Open a transaction, lock the journal, refresh the campaign, and yield the head of the journal and the
    author's account.

    Raise NotAdministrator if the account is not active, ReviewError if the campaign is not open.
    """
    with transaction.atomic():
        head = lock_journal()
        account = User.objects.filter(pk=author.user_id, is_active=True).first()
        if account is None:
            raise NotAdministrator(f"`{author.name}` is not an active account, so it cannot answer items")
        campaign.refresh_from_db()
        if campaign.state != CampaignState.OPEN:
            raise ReviewError(f"{campaign} is {campaign.state}, so its items cannot be changed")
        yield head, account


def _person_of(author: Author) -> set[int]:
    """Return the keys of the accounts of the author's person, with the service accounts that it can act as."""
    return with_service_accounts(accounts_of(author))


def _selected_items(
    account: User,
    campaign: Campaign,
    selection: ItemSelection,
    max_items: int,
    *,
    person: Collection[int],
    includes_open_own: bool = False,
) -> tuple[QuerySet[ReviewItem], int]:
    """Return the selected items that the account may answer, and the number of skipped items about the
    account.

    person: the keys of the accounts of the person who answers. includes_open_own: do not skip such items
    without an answer.
    """
    selected, skipped = selection.of(answerable_items(account, campaign)), concern_condition(account, person)
    if includes_open_own:
        skipped &= ~Q(answer=Answer.OPEN)
    items = selected.exclude(skipped)
    count = items[: max_items + 1].count()
    own = selected.filter(skipped)[: max_items + 1].count()
    if count > max_items:
        raise ReviewError(
            f"more than {max_items:,} items are selected, which is the limit: use a narrower filter",
            field="items",
        )
    if not count:
        if not own:
            raise ReviewError("no item is selected that you can answer", field="items")
        raise ReviewError(
            "these items are about your own access, so another reviewer must "
            + ("move them, because they have an answer" if includes_open_own else "answer them: return them"),
            field="items",
        )
    return items, own


def _reviewer_by_name(name: str) -> list[int]:
    reviewer = User.objects.filter(reviewer_condition(), username=name).values_list("pk", flat=True).first()
    if reviewer is None:
        raise ReviewError(
            f"user:{name} does not exist or cannot review: name the active account of a person",
            field="reviewer",
        )
    return [reviewer]


def _check_answer(answer: str, comment: str, new_until: datetime | None) -> None:
    if answer not in Answer.values:
        raise ReviewError(
            f"`{answer}` is not an answer: use {', '.join(filter(None, Answer.values))}, or an empty text to undo",
            field="answer",
        )
    if (answer == Answer.SHORTEN) != (new_until is not None):
        raise ReviewError(
            "a new end is needed to shorten access"
            if new_until is None
            else "a new end has a meaning only with the answer shorten",
            field="until",
        )
    if new_until is not None and timezone.is_naive(new_until):
        raise ReviewError(
            "the new end has no time zone: add one, such as 2026-12-31T17:00:00+01:00", field="until"
        )
    if new_until is not None and new_until <= timezone.now():
        raise ReviewError("the new end is in the past: revoke instead, or choose a later time", field="until")
    Validity.between(None, new_until)
    _check_comment(comment)


def _check_comment(comment: str) -> None:
    if fault := storage_fault(comment, MAX_REASON_CHARACTERS):
        raise ReviewError(f"the comment cannot be stored: {fault}", field="comment")


def _check_shortens(items: QuerySet[ReviewItem], new_until: datetime | None) -> None:
    if longer := items.filter(valid_until__lte=new_until).order_by("pk").first():
        raise ReviewError(f"item {longer.pk} ends before the new end: choose an earlier time", field="until")
