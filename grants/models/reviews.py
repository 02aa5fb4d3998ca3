"""Models of access reviews: campaigns, their items, managers of users, and the use of entities.

`grants.reviews` and `grants.usage` are the only writers of these tables.
"""

from datetime import datetime

from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Abs
from django.utils import timezone

from entities.address import MAX_KEY_LENGTH, Address
from entities.fields import optional_text
from grants.models.jobs import Job
from grants.policies.principals import group_text, principal_text


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
    STEWARDS = "stewards", "A data steward of the entity's namespace"
    MANAGER = "manager", "The manager of the user"
    GROUP = "group", "The members of a group"


class UnansweredRule(models.TextChoices):
    """What finishing does with items that have no answer."""

    LIST = "list", "Kept and listed"
    REVOKE = "revoke", "Revoked"


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
    levels: what the items gave when they were prepared (grants.reviews.item_levels); empty before that.
    creator_ids: the keys of the accounts of the person who created it, or the first campaign of the
    recurrence; maker_ids: of the persons who decided that access ends (grants.authority.persons).
    """

    title = models.CharField(max_length=200)
    description = optional_text()
    scope = models.JSONField(default=dict)
    reviewer_rule = models.CharField(
        max_length=14, choices=ReviewerRule.choices, default=ReviewerRule.ADMINISTRATORS
    )
    reviewer_group = optional_text(150)
    escalation_group = optional_text(150)
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
    finished_by = optional_text(150)
    reminded_at = models.DateTimeField(null=True)
    escalated_at = models.DateTimeField(null=True)
    base_revision = models.BigIntegerField(default=0)
    checked_revision = models.BigIntegerField(default=0, db_default=0)
    item_count = models.PositiveIntegerField(default=0)
    figures = models.JSONField(default=dict)
    levels = models.JSONField(default=dict, db_default=Value({}, output_field=models.JSONField()))
    maker_ids = models.JSONField(default=list, db_default=Value([], output_field=models.JSONField()))
    previous = models.ForeignKey("self", models.PROTECT, null=True, related_name="following")
    next_created = models.BooleanField(default=False)
    job = models.OneToOneField(Job, models.PROTECT, null=True)
    error = optional_text()
    path = optional_text(200)
    sha256 = optional_text(64)

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


class ItemSource(models.TextChoices):
    """The table of the row that is reviewed."""

    USER = "user", "Grant to a user"
    GROUP = "group", "Grant to a group"
    MEMBERSHIP = "membership", "User in a group or role"
    ROLE_GROUP = "role-group", "Group in a role"

    @property
    def is_membership(self) -> bool:
        return self in (ItemSource.MEMBERSHIP, ItemSource.ROLE_GROUP)

    @property
    def is_of_group(self) -> bool:
        return self in (ItemSource.GROUP, ItemSource.ROLE_GROUP)


MEMBERSHIPS = tuple(source for source in ItemSource if source.is_membership)
SOURCES_OF_GROUPS = tuple(source for source in ItemSource if source.is_of_group)


class Answer(models.TextChoices):
    """The answer to an item."""

    OPEN = "", "No answer"
    KEEP = "keep", "Keep"
    REVOKE = "revoke", "Revoke"
    SHORTEN = "shorten", "Shorten"


class Removal(models.TextChoices):
    """Why an item needs no answer any more, although its review is open."""

    NONE = "", "Not removed"
    REVOKED = "revoked", "Already revoked"
    ENTITY_DELETED = "entity-deleted", "Entity deleted"


class ReviewItem(models.Model):
    """One direct grant or membership with its evidence, reviewer and answer.

    grant_id: the primary key of the reviewed row; never used again, so it also identifies the row in other
    campaigns.
    principal_id, principal_name: the user or group that holds the grant, or the member.
    group_name: the group or role of a membership. kind, key, namespace (its key), entity_id, permission: null or empty for
    memberships. The columns from granted_at to previous_answer are the evidence when the campaign was
    prepared:

    - redundant_through: a group that gives the user the same privilege on the same entity.
    - admins_left: the number of active administrators that revoking would leave on a live entity, if fewer
      than two; of a membership, the lowest number among the entities of the group or role.
    - peers, peer_holders, peer_group: the number of other active members of one of the user's groups, and how
      many of them hold the same directly. It is the group with the highest share of holders. Of the membership of a
      group in a role, it is this group with all its active members.
    - reach: the number of active members of a group, or the number of grants of a membership's group.
    - last_used_on: the last day on which the user, or a member of the group, used the entity; of a membership: the last
      day on which the member used an entity on which the group or role has a grant.
    - last_reviewed_at, previous_answer: of the last campaign with an answer for the same row.
    - is_new: the previous campaign of the recurrence did not contain the row.
    - is_ended: the period of the row was over, so it gave no access.

    removed: what happened to the reviewed row since the items were prepared, when it was last checked
    (grants.reviews.removals).
    reviewer: null for administrators. The account may have been removed since. escalated: the item went to
    the escalation.
    answered_by: the name of the account. new_until: only of the answer `shorten`.
    """

    campaign = models.ForeignKey("grants.Campaign", models.CASCADE, related_name="items", db_index=False)
    source = models.CharField(max_length=10, choices=ItemSource.choices)
    grant_id = models.BigIntegerField()
    principal_id = models.BigIntegerField()
    principal_name = models.CharField(max_length=150)
    group_name = optional_text(150)
    entity_id = models.BigIntegerField(null=True)
    kind = optional_text(63)
    key = optional_text(MAX_KEY_LENGTH)
    namespace = optional_text(MAX_KEY_LENGTH)
    permission_id = models.IntegerField(null=True)
    entity_state = optional_text(7)
    granted_at = models.DateTimeField(null=True)
    granted_by = optional_text(150)
    reason = optional_text()
    valid_until = models.DateTimeField(null=True)
    redundant_through = optional_text(150)
    admins_left = models.PositiveSmallIntegerField(null=True)
    peers = models.PositiveIntegerField(default=0)
    peer_holders = models.PositiveIntegerField(default=0)
    peer_group = optional_text(150)
    reach = models.PositiveIntegerField(default=0)
    last_used_on = models.DateField(null=True)
    last_reviewed_at = models.DateTimeField(null=True)
    previous_answer = optional_text(7)
    is_new = models.BooleanField(default=False)
    is_ended = models.BooleanField(default=False)
    removed = optional_text(14, choices=Removal.choices, db_default="")
    reviewer = models.ForeignKey(
        "grants.User", models.DO_NOTHING, null=True, related_name="+", db_index=False, db_constraint=False
    )
    escalated = models.BooleanField(default=False)
    answer = optional_text(7, choices=Answer.choices)
    comment = optional_text()
    new_until = models.DateTimeField(null=True)
    answered_by = optional_text(150)
    answered_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["campaign", "source", "grant_id"], name="review_item_once")
        ]
        indexes = [
            models.Index(fields=["campaign", "reviewer", "answer", "id"], name="review_item_reviewer"),
            models.Index(fields=["campaign", "answer", "id"], name="review_item_answer"),
            models.Index(fields=["campaign", "principal_name", "id"], name="review_item_principal"),
            models.Index(fields=["campaign", "namespace", "kind", "id"], name="review_item_namespace"),
            models.Index(fields=["source", "grant_id"], name="review_item_row", condition=~Q(answer="")),
            models.Index(
                fields=["campaign", "id"], name="review_item_strands", condition=Q(admins_left__isnull=False)
            ),
            models.Index(
                fields=["campaign", "id"], name="review_item_redundant", condition=~Q(redundant_through="")
            ),
            models.Index(fields=["campaign", "id"], name="review_item_new", condition=Q(is_new=True)),
            models.Index(fields=["campaign", "id"], name="review_item_ended", condition=Q(is_ended=True)),
            models.Index(
                fields=["campaign", "id"], name="review_item_escalated", condition=Q(escalated=True)
            ),
            models.Index(fields=["campaign", "id"], name="review_item_removed", condition=~Q(removed="")),
            models.Index(
                fields=["campaign", "id"], name="review_item_open", condition=Q(answer="", removed="")
            ),
            models.Index(
                fields=["campaign", "group_name", "id"], name="review_item_group", condition=~Q(group_name="")
            ),
            # The items of a source, and often those of a kind, follow each other, so their first one may be
            # far behind. PostgreSQL does not know this. Only this index contains the sort key, so it reads no
            # other one from the beginning.
            models.Index(F("campaign"), F("source"), Abs("id"), name="review_item_source"),
            models.Index(fields=["campaign", "kind", "id"], name="review_item_kind"),
        ]

    @property
    def is_membership(self) -> bool:
        return self.source in MEMBERSHIPS

    @property
    def removal(self) -> Removal:
        """What happened to the reviewed row: now if `grants.reviews.removals` has loaded this, otherwise as
        stored.
        """
        return Removal(getattr(self, "current_removal", self.removed))

    @property
    def is_principal_active(self) -> bool | None:
        """Whether the user is active now; None of a group, of a removed user, and unless
        `grants.reviews.selection.with_principals` has loaded it.
        """
        return getattr(self, "principal_active", None)

    @property
    def principal_last_sign_in(self) -> datetime | None:
        """When the user last signed in to the console; None if that is not known, like `is_principal_active`."""
        return getattr(self, "principal_signed_in_at", None)

    @property
    def principal(self) -> str:
        return principal_text("group" if self.source in SOURCES_OF_GROUPS else "user", self.principal_name)

    @property
    def address(self) -> Address | None:
        return Address(self.kind, self.key) if self.kind else None

    @property
    def target(self) -> str:
        """The reviewed thing in written form: the address of a grant, or the group of a membership."""
        return str(self.address) if self.kind else group_text(self.group_name)


class UserManagerLink(models.Model):
    """The manager of a user, who reviews the user's access in campaigns with that rule.

    It gives no access.
    """

    user = models.OneToOneField("grants.User", models.CASCADE, primary_key=True, related_name="manager_link")
    manager = models.ForeignKey("grants.User", models.CASCADE, related_name="report_links")

    class Meta:
        default_permissions = ()


class UsageDay(models.Model):
    """The number of permitted decisions, or imported uses, of one user and one entity on one day (UTC).

    See `grants.usage`.
    """

    user = models.ForeignKey("grants.User", models.CASCADE, related_name="+", db_index=False)
    entity = models.ForeignKey("entities.Entity", models.CASCADE, related_name="+", db_index=False)
    day = models.DateField()
    count = models.PositiveBigIntegerField(default=0)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["user", "entity", "day"], name="usage_once_a_day")]
        indexes = [
            models.Index(fields=["entity", "day"], name="usage_of_entity"),
            models.Index(fields=["day"], name="usage_day"),
        ]
