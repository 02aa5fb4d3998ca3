"""The items of a campaign."""

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Abs

from entities.address import MAX_KEY_LENGTH, Address


class ItemSource(models.TextChoices):
    """The table of the row that is reviewed."""

    USER = "user", "Grant to a user"
    GROUP = "group", "Grant to a group"
    MEMBERSHIP = "membership", "Membership"


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
    principal_id, principal_name: the user or group that holds the grant, or the user of the membership.
    group_name: only for memberships. kind, key, namespace (its key), entity_id, permission: null or empty for
    memberships. The columns from granted_at to previous_answer are the evidence when the campaign was
    prepared:

    - redundant_through: a group that gives the user the same privilege on the same entity.
    - admins_left: the number of active administrators that revoking would leave on a live entity, if fewer
      than two; of a membership, the lowest number among the entities of the group.
    - peers, peer_holders, peer_group: the number of other active members of one of the user's groups, and how
      many of them hold the same directly. It is the group with the highest share of holders.
    - reach: the number of active members of a group, or the number of grants of a membership's group.
    - last_used_on: the last day on which the user, or a member of the group, used the entity.
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
    group_name = models.CharField(max_length=150, blank=True, default="")
    entity_id = models.BigIntegerField(null=True)
    kind = models.CharField(max_length=63, blank=True, default="")
    key = models.CharField(max_length=MAX_KEY_LENGTH, blank=True, default="")
    namespace = models.CharField(max_length=MAX_KEY_LENGTH, blank=True, default="")
    permission_id = models.IntegerField(null=True)
    entity_state = models.CharField(max_length=7, blank=True, default="")
    granted_at = models.DateTimeField(null=True)
    granted_by = models.CharField(max_length=150, blank=True, default="")
    reason = models.TextField(blank=True, default="")
    valid_until = models.DateTimeField(null=True)
    redundant_through = models.CharField(max_length=150, blank=True, default="")
    admins_left = models.PositiveSmallIntegerField(null=True)
    peers = models.PositiveIntegerField(default=0)
    peer_holders = models.PositiveIntegerField(default=0)
    peer_group = models.CharField(max_length=150, blank=True, default="")
    reach = models.PositiveIntegerField(default=0)
    last_used_on = models.DateField(null=True)
    last_reviewed_at = models.DateTimeField(null=True)
    previous_answer = models.CharField(max_length=7, blank=True, default="")
    is_new = models.BooleanField(default=False)
    is_ended = models.BooleanField(default=False)
    removed = models.CharField(max_length=14, choices=Removal.choices, blank=True, default="", db_default="")
    reviewer = models.ForeignKey(
        "grants.User", models.DO_NOTHING, null=True, related_name="+", db_index=False, db_constraint=False
    )
    escalated = models.BooleanField(default=False)
    answer = models.CharField(max_length=7, choices=Answer.choices, blank=True, default="")
    comment = models.TextField(blank=True, default="")
    new_until = models.DateTimeField(null=True)
    answered_by = models.CharField(max_length=150, blank=True, default="")
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
        return self.source == ItemSource.MEMBERSHIP

    @property
    def removal(self) -> Removal:
        """What happened to the reviewed row: now if `grants.reviews.removals` has loaded this, otherwise as
        stored.
        """
        return Removal(getattr(self, "current_removal", self.removed))

    @property
    def principal(self) -> str:
        return f"{'group' if self.source == ItemSource.GROUP else 'user'}:{self.principal_name}"

    @property
    def address(self) -> Address | None:
        return Address(self.kind, self.key) if self.kind else None

    @property
    def target(self) -> str:
        """The reviewed thing in written form: the address of a grant, or the group of a membership."""
        return str(self.address) if self.kind else f"group:{self.group_name}"
