"""Models of access requests. `grants.requests` is their only writer."""

from django.db import models
from django.db.models import Q, Value
from django.utils import timezone

from entities.address import MAX_KEY_LENGTH, Address
from entities.fields import optional_text
from grants.policies.principals import group_text


class RequestState(models.TextChoices):
    """The state of a request or of one of its parts. All states but `pending` are final."""

    PENDING = "pending", "Pending"
    APPROVED = "approved", "Approved"
    DENIED = "denied", "Denied"
    CANCELLED = "cancelled", "Withdrawn"
    EXPIRED = "expired", "Expired"


class RequestEventKind(models.TextChoices):
    """What happened to a request."""

    CREATED = "created", "Requested"
    APPROVED = "approved", "Approved"
    DENIED = "denied", "Denied"
    ASKED = "asked", "Asked back"
    ANSWERED = "answered", "Answered"
    CANCELLED = "cancelled", "Withdrawn"
    EXPIRED = "expired", "Expired"
    REMINDED = "reminded", "Reminder sent"


class AccessRequest(models.Model):
    """A request for access, made of parts that are decided by their approvers.

    subject: the user who would get the access; null after the user was removed. subject_name: the name when
    it was created.
    created_by, creator: the account that created it, as the name then and as the account. It may differ from
    the subject.
    colleague: the name that was entered to request the access of a colleague; such a user need not exist.
    requested_until: when the access should end; null for no end. expires_at: when a request that is still
    pending expires.
    waits_for_answer: an approver asked a question that the requester has not answered yet.
    idempotency_key: of the call that created it; a repeated call returns the same request.
    maker_ids: the keys of the accounts of the person who created it (grants.authority.persons).
    """

    subject = models.ForeignKey(
        "grants.User", models.SET_NULL, null=True, related_name="access_requests", db_index=False
    )
    subject_name = models.CharField(max_length=150)
    created_by = models.CharField(max_length=150)
    creator = models.ForeignKey("grants.User", models.SET_NULL, null=True, related_name="+", db_index=False)
    colleague = optional_text(150)
    reason = models.TextField()
    requested_until = models.DateTimeField(null=True)
    state = models.CharField(max_length=9, choices=RequestState.choices, default=RequestState.PENDING)
    waits_for_answer = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)
    reminded_at = models.DateTimeField(null=True)
    idempotency_key = optional_text(255)
    maker_ids = models.JSONField(default=list, db_default=Value([], output_field=models.JSONField()))

    class Meta:
        default_permissions = ()
        indexes = [
            models.Index(fields=["subject", "-id"], name="access_request_of_subject"),
            models.Index(fields=["creator", "-id"], name="access_request_of_creator"),
            models.Index(fields=["state", "-id"], name="access_request_in_state"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["creator", "idempotency_key"],
                condition=~Q(idempotency_key=""),
                name="access_request_once",
            )
        ]

    def __str__(self):
        return f"request {self.pk}"

    @property
    def principal(self) -> str:
        """The subject, written `user:NAME`."""
        return f"user:{self.subject.username if self.subject else self.subject_name}"

    @property
    def is_pending(self) -> bool:
        return self.current_state == RequestState.PENDING

    @property
    def current_state(self) -> str:
        """The state; `expired` as soon as the time has come, before the periodic task has stored it."""
        is_over = self.state == RequestState.PENDING and self.expires_at <= timezone.now()
        return RequestState.EXPIRED if is_over else self.state

    @property
    def state_label(self) -> str:
        """The state in words. Runs no query for prefetched parts."""
        # a denied part of the access of a colleague stays hidden
        is_partial = self.state == RequestState.APPROVED and any(
            part.state == RequestState.DENIED and not part.is_hidden for part in self.parts.all()
        )
        return "Approved in part" if is_partial else RequestState(self.current_state).label


class AccessRequestPart(models.Model):
    """One thing that a request asks for: an operation or a privilege on an address, or a membership.

    position: starts at 1. kind, key, operation: empty for a membership. operation: may be a privilege, such
    as `READ`.
    namespace: the key of the namespace of the address; empty outside of namespaces. context: parameters of
    the question.
    group_name: of a membership only. is_hidden: the requester may not see this part before it is approved.
    valid_until: the end of the approved access. plan: the applied plan.
    """

    request = models.ForeignKey(AccessRequest, models.CASCADE, related_name="parts", db_index=False)
    position = models.PositiveSmallIntegerField()
    kind = optional_text(63)
    key = optional_text(MAX_KEY_LENGTH)
    namespace = optional_text(MAX_KEY_LENGTH)
    operation = optional_text(40)
    context = models.JSONField(default=dict)
    group_name = optional_text(150)
    is_hidden = models.BooleanField(default=False)
    state = models.CharField(max_length=9, choices=RequestState.choices, default=RequestState.PENDING)
    decided_by = optional_text(150)
    valid_until = models.DateTimeField(null=True)
    plan = models.ForeignKey("grants.Plan", models.PROTECT, null=True, related_name="request_parts")

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["request", "position"], name="access_request_part_position")
        ]
        indexes = [
            models.Index(
                fields=["kind", "key", "operation"],
                name="access_request_part_what",
                condition=Q(state=RequestState.PENDING),
            ),
            models.Index(
                fields=["namespace"],
                name="access_request_part_namespace",
                condition=Q(state=RequestState.PENDING),
            ),
            models.Index(
                fields=["kind", "key", "-request"],
                name="access_request_part_decided",
                condition=Q(state__in=(RequestState.APPROVED, RequestState.DENIED)),
            ),
        ]

    @property
    def address(self) -> Address | None:
        """The address; None for a membership."""
        return Address(self.kind, self.key) if self.kind else None

    @property
    def title(self) -> str:
        """A text such as `read dataset:sales.orders` or `membership in group:analysts`."""
        return (
            f"{self.operation} {self.address}"
            if self.kind
            else f"membership in {group_text(self.group_name)}"
        )

    @property
    def is_pending(self) -> bool:
        return self.state == RequestState.PENDING

    @property
    def state_label(self) -> str:
        return RequestState(self.state).label


class AccessRequestEvent(models.Model):
    """One step of a request, with its text: a reason, a question or an answer.

    actor: a name; empty for the console. notified_at: when the e-mails about it were sent; null if they were
    not.
    """

    request = models.ForeignKey(AccessRequest, models.CASCADE, related_name="events")
    at = models.DateTimeField()
    kind = models.CharField(max_length=9, choices=RequestEventKind.choices)
    actor = optional_text(150)
    text = optional_text()
    notified_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        ordering = ["pk"]
        indexes = [
            models.Index(
                fields=["at"], name="access_request_event_due", condition=Q(notified_at__isnull=True)
            )
        ]

    @property
    def label(self) -> str:
        return RequestEventKind(self.kind).label


class NamespaceApprovers(models.Model):
    """The group whose members decide about requests for a namespace and everything in it, besides
    administrators.
    """

    namespace = models.CharField(max_length=MAX_KEY_LENGTH, unique=True)
    group = models.ForeignKey("auth.Group", models.CASCADE, related_name="+")

    class Meta:
        default_permissions = ()
        ordering = ["namespace"]

    @property
    def address(self) -> Address:
        return Address("namespace", self.namespace)


class PublishedItem(models.Model):
    """An entry of the catalogue: an entity that every account may know and request. Changed only by
    `grants.requests.catalogue`.

    operations: operations and privileges that a request proposes. revision: that of its journal line.
    published_by: the name of the account.
    """

    entity = models.OneToOneField("entities.Entity", models.CASCADE, related_name="+")
    operations = models.JSONField()
    description = models.TextField()
    published_by = models.CharField(max_length=150)
    published_at = models.DateTimeField()
    revision = models.BigIntegerField()

    class Meta:
        default_permissions = ()

    def __str__(self):
        return f"{self.entity} in the catalogue"

    @property
    def address(self) -> Address:
        return self.entity.address

    @property
    def text(self) -> str:
        """What is published, as in the journal."""
        return f"{', '.join(self.operations)}: {self.description}"
