"""Campaigns, the shares of their reviewers, and their plans."""

from django.db import models
from django.db.models import Q, Value
from django.utils import timezone

from grants.models.jobs import Job


class CampaignState(models.TextChoices):
    """Items are written while a campaign is preparing, and can be answered while it is open."""

    PREPARING = "preparing", "Preparing"
    OPEN = "open", "Open"
    FINISHING = "finishing", "Finishing"
    FINISHED = "finished", "Finished"
    CANCELLED = "cancelled", "Cancelled"
    FAILED = "failed", "Failed"


class ReviewerRule(models.TextChoices):
    """The rule that assigns items to reviewers. Items without a reviewer under the rule go to the escalation.

    Items of administrators can be answered by every account with the capability to approve.
    """

    ADMINISTRATORS = "administrators", "Administrators of this console"
    ADMIN_HOLDERS = "admin-holders", "A holder of ADMIN on the entity"
    MANAGER = "manager", "The manager of the user"
    GROUP = "group", "The members of a group"


class UnansweredRule(models.TextChoices):
    """What finishing does with items that have no answer."""

    LIST = "list", "List them"
    REVOKE = "revoke", "Revoke them"


class Recurrence(models.TextChoices):
    """The months between the starts of two campaigns."""

    NEVER = "", "Never"
    MONTHLY = "1", "Every month"
    QUARTERLY = "3", "Every quarter"
    HALF_YEARLY = "6", "Every half year"
    YEARLY = "12", "Every year"


class Campaign(models.Model):
    """A review of grants and memberships. Changed only by `grants.reviews`.

    scope: see `grants.reviews.scope`. reviewer_group: only of the rule `group`. escalation_group: empty means
    administrators.
    reminder_days: days between reminders; 0 means none. escalation_days: days before the deadline at which
    open items are escalated; 0 means never. base_revision: the revision from which the items were read.
    checked_revision: the revision up to which the items contain what was removed; 0 before the first check.
    previous: the campaign before this one in a recurrence. next_created: whether the next campaign exists.
    job: the job that prepares or finishes the campaign, or did so last.
    path, sha256: the evidence bundle below SNAPSHOT_URI; empty before it is written.
    creator_ids: the keys of the accounts of the person who created it, or the first campaign of the
    recurrence; maker_ids: of the persons who decided that access ends (grants.authority.persons).
    """

    title = models.CharField(max_length=200)
    description = models.TextField(blank=True, default="")
    scope = models.JSONField(default=dict)
    reviewer_rule = models.CharField(
        max_length=14, choices=ReviewerRule.choices, default=ReviewerRule.ADMINISTRATORS
    )
    reviewer_group = models.CharField(max_length=150, blank=True, default="")
    escalation_group = models.CharField(max_length=150, blank=True, default="")
    deadline = models.DateTimeField()
    unanswered = models.CharField(max_length=6, choices=UnansweredRule.choices, default=UnansweredRule.LIST)
    recurrence = models.CharField(
        max_length=2, choices=Recurrence.choices, default=Recurrence.NEVER, blank=True
    )
    reminder_days = models.PositiveSmallIntegerField(default=7)
    escalation_days = models.PositiveSmallIntegerField(default=0)
    state = models.CharField(max_length=9, choices=CampaignState.choices, default=CampaignState.PREPARING)
    created_by = models.CharField(max_length=150)
    creator_ids = models.JSONField(default=list, db_default=Value([], output_field=models.JSONField()))
    created_at = models.DateTimeField(default=timezone.now)
    opened_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    finished_by = models.CharField(max_length=150, blank=True, default="")
    reminded_at = models.DateTimeField(null=True)
    escalated_at = models.DateTimeField(null=True)
    base_revision = models.BigIntegerField(default=0)
    checked_revision = models.BigIntegerField(default=0, db_default=0)
    item_count = models.PositiveIntegerField(default=0)
    figures = models.JSONField(default=dict)
    maker_ids = models.JSONField(default=list, db_default=Value([], output_field=models.JSONField()))
    previous = models.ForeignKey("self", models.PROTECT, null=True, related_name="following")
    next_created = models.BooleanField(default=False)
    job = models.OneToOneField(Job, models.PROTECT, null=True)
    error = models.TextField(blank=True, default="")
    path = models.CharField(max_length=200, blank=True, default="")
    sha256 = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["state", "-id"], name="campaign_in_state")]

    def __str__(self):
        return f"review {self.pk}"

    @property
    def is_open(self) -> bool:
        return self.state == CampaignState.OPEN

    @property
    def is_overdue(self) -> bool:
        return self.is_open and self.deadline <= timezone.now()


class ReviewShare(models.Model):
    """The share of one reviewer: the counts of its items and answers. reviewer: null for the items that
    administrators review.

    INVARIANT: the counts equal those of the items (grants.reviews.shares).
    removed_count: the items without an answer that need none any more.
    signed_off_at: when the reviewer signed off the share.
    """

    campaign = models.ForeignKey(Campaign, models.CASCADE, related_name="shares", db_index=False)
    reviewer = models.ForeignKey("grants.User", models.CASCADE, null=True, related_name="+")
    item_count = models.PositiveIntegerField(default=0)
    answered_count = models.PositiveIntegerField(default=0)
    removed_count = models.PositiveIntegerField(default=0, db_default=0)
    signed_off_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["campaign", "reviewer"], name="review_share_once"),
            models.UniqueConstraint(
                fields=["campaign"], condition=Q(reviewer__isnull=True), name="review_share_unassigned"
            ),
        ]

    @property
    def open_count(self) -> int:
        return self.item_count - self.answered_count - self.removed_count


class ReviewPlan(models.Model):
    """A plan with the result of a campaign. A large campaign has more than one."""

    campaign = models.ForeignKey(Campaign, models.CASCADE, related_name="plan_links")
    plan = models.OneToOneField("grants.Plan", models.CASCADE, related_name="review_link")

    class Meta:
        default_permissions = ()
