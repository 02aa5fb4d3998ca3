"""Break-glass access: an account in BREAK_GLASS_ACCOUNTS may act alone for one hour, and another person
reviews it afterwards.

During this time, the rules of `grants.authority.four_eyes` do not apply to the account. It still needs the
capability for each change. Each start, end and review is a line of the journal, so webhooks and security
events announce it.
"""

from datetime import timedelta

from django.conf import settings
from django.db.models import Exists, OuterRef, Value
from django.db.models.functions import Concat
from django.utils import timezone

from entities.text import storage_fault
from entities.vocabulary import clip
from grants.authority.persons import accounts_of, are_one_person, end_of_control, foreign_control
from grants.authority.transactions import administrator_transaction
from grants.errors import GrantError, SecondPersonRequired
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import BreakGlassUse, JournalHead, JournalLine, User
from grants.models.break_glass import uptime
from grants.policies.times import format_time
from grants.principal_names import MAX_REASON_CHARACTERS

DURATION = timedelta(hours=1)
# otherwise one person could renew the access forever without a second person
MAX_UNREVIEWED = 3


class BreakGlassError(GrantError):
    """Break-glass access cannot be started, ended or reviewed now."""

    status = 409


def can_break_glass(user: User) -> bool:
    """Return whether the account may start break-glass access."""
    return user.username in settings.BREAK_GLASS_ACCOUNTS and user.can_administer


def has_break_glass_access(user_id: int) -> bool:
    """Return whether the account has break-glass access now. Runs one query, or none without
    BREAK_GLASS_ACCOUNTS.

    A clock that was set back does not extend the access: see `BreakGlassUse.is_active`. On all machines, it
    has also ended if a journal line was written after its end, and if the account lost its role, was deactivated,
    or is not in BREAK_GLASS_ACCOUNTS any more.
    """
    if not settings.BREAK_GLASS_ACCOUNTS:
        return False
    has_later_line = Exists(JournalHead.objects.filter(at__gte=OuterRef("ends_at")))
    has_lost_role = Exists(
        JournalLine.objects.filter(
            action__in=("role-set", "user-deactivate"),
            principal=Concat(Value("user:"), OuterRef("account__username")),
            revision__gt=OuterRef("first_revision"),
        )
    )
    uses = BreakGlassUse.objects.filter(
        ~has_later_line,
        ~has_lost_role,
        account_id=user_id,
        account__username__in=settings.BREAK_GLASS_ACCOUNTS,
        ends_at__gt=timezone.now(),
    )
    return any(use.is_active for use in uses.only("started_at", "ends_at", "boot", "uptime_at_end"))


def start_break_glass(*, author: Author) -> BreakGlassUse:
    """Start break-glass access of the author's account, for the author's reason.

    Raise BreakGlassError if the account is not in BREAK_GLASS_ACCOUNTS, has access already, has
    MAX_UNREVIEWED uses without a review or gives no reason, and for requests with an API token: break-glass
    access is for a person who signed in. With FOUR_EYES, also raise it if another account set the password of
    this account or got control over it in another way: its author could use any account in the setting.
    """
    if author.name not in settings.BREAK_GLASS_ACCOUNTS or author.user_id is None or author.token is not None:
        raise BreakGlassError(
            f"`{clip(author.name)}` cannot use break-glass access: only an account in "
            "BREAK_GLASS_ACCOUNTS can, after signing in"
        )
    if not author.reason.strip():
        raise BreakGlassError("the reason is missing: the person who reviews the access reads it")
    with administrator_transaction(author) as head:
        if has_break_glass_access(author.user_id):
            raise BreakGlassError("the account has break-glass access already")
        if _unreviewed_count(author) >= MAX_UNREVIEWED:
            raise BreakGlassError(
                f"{MAX_UNREVIEWED} uses of break-glass access by you wait for a review: another person must "
                "review one first"
            )
        if settings.FOUR_EYES and (line := foreign_control(author.user_id)):
            raise BreakGlassError(
                f"`{clip(line.actor)}` got control over this account ({line.action}): set its password with "
                f"`manage.py changepassword` instead, or wait until {format_time(end_of_control(line))}"
            )
        now = timezone.now()
        ends_at = now + DURATION
        if head.at is not None and head.at >= ends_at:
            raise BreakGlassError(
                "the newest journal line is more than an hour in the future: correct the clock of the console"
            )
        boot, seconds = uptime()
        revision = append_to_journal(
            head,
            [
                JournalEntry(
                    "break-glass-start",
                    principal=f"user:{author.name}",
                    detail=f"until {ends_at:%Y-%m-%d %H:%M} UTC",
                )
            ],
            author=author,
        )
        return BreakGlassUse.objects.create(
            account_id=author.user_id,
            account_name=author.name,
            reason=author.reason,
            started_at=now,
            ends_at=ends_at,
            boot=boot,
            uptime_at_end=seconds + DURATION.total_seconds(),
            first_revision=revision,
        )


def end_break_glass(*, author: Author, number: int) -> BreakGlassUse:
    """End break-glass access early. Raise BreakGlassError if it has ended."""
    with administrator_transaction(author) as head:
        use = break_glass_use(number)
        if not use.is_active:
            raise BreakGlassError(f"{use} has ended")
        use.ends_at, (use.boot, use.uptime_at_end) = timezone.now(), uptime()
        use.save(update_fields=["ends_at", "boot", "uptime_at_end"])
        append_to_journal(head, [_change("break-glass-end", use)], author=author)
    return use


def review_break_glass(*, author: Author, number: int, comment: str) -> BreakGlassUse:
    """Close the review of an ended break-glass access with a comment.

    Raise SecondPersonRequired if it is the author's own access, BreakGlassError if it has not ended, was
    reviewed, or the comment is missing.
    """
    comment = comment.strip()
    if not comment:
        raise BreakGlassError("the comment is missing: say whether the changes were justified")
    if fault := storage_fault(comment, MAX_REASON_CHARACTERS):
        raise BreakGlassError(f"the comment cannot be stored: {fault}")
    with administrator_transaction(author) as head:
        use = break_glass_use(number)
        if use.is_reviewed:
            raise BreakGlassError(f"{use} was already reviewed by {use.reviewed_by}")
        if use.is_active:
            raise BreakGlassError(f"{use} has not ended: review it afterwards, or end it")
        if (
            author.user_id is not None
            and use.account_id
            and are_one_person(accounts_of(author), {use.account_id})
        ):
            raise SecondPersonRequired(f"another person must review {use}: it is your own")
        use.reviewed_by, use.reviewed_at, use.comment = author.name, timezone.now(), comment
        use.save(update_fields=["reviewed_by", "reviewed_at", "comment"])
        append_to_journal(head, [_change("break-glass-review", use, comment)], author=author)
    return use


def break_glass_use(number: int) -> BreakGlassUse:
    """Return the use with this number. Raise BreakGlassError if there is none."""
    use = BreakGlassUse.objects.filter(pk=number).first()
    if use is None:
        raise BreakGlassError(f"there is no break-glass access {number}")
    return use


def _unreviewed_count(author: Author) -> int:
    """Return how many uses by the person of the author have no review."""
    accounts = accounts_of(author)
    uses = BreakGlassUse.objects.filter(reviewed_at__isnull=True).values_list("account_id", "account_name")
    return sum(
        name == author.name or account is not None and are_one_person(accounts, {account})
        for account, name in uses[: MAX_UNREVIEWED * len(settings.BREAK_GLASS_ACCOUNTS) + MAX_UNREVIEWED]
    )


def _change(action: str, use: BreakGlassUse, reason: str = "") -> JournalEntry:
    return JournalEntry(action, principal=f"user:{use.account_name}", detail=str(use), reason=reason)
