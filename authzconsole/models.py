"""The models of the console: tokens, provisioning, sessions, evidence, maintenance, security events, webhooks and findings."""

from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import Group
from django.contrib.sessions.base_session import AbstractBaseSession
from django.db import models
from django.db.models.functions import Now
from django.utils import timezone

from entities.fields import optional_text
from entities.models import Entity
from grants.models import Job, Plan, User


class TokenScope(models.TextChoices):
    """The permissions of a token."""

    DECIDE = "decide", "Ask for decisions about any subject"
    READ = "read", "Read what its owner may see"
    ADMINISTER = "administer", "Change what its owner may change"
    PROVISION = "provision", "Provision users and groups over SCIM (service accounts only)"
    SELF = "self", "Ask for decisions and access of its owner only"


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    """Queries for tokens by their state."""

    def unexpired_tokens(self) -> "ApiTokenQuerySet":
        now = timezone.now()
        return self.filter(expires_at__gt=now, limit_starts_at__gt=now - max_token_lifetime())

    def active(self) -> "ApiTokenQuerySet":
        return self.unexpired_tokens().filter(revoked_at=None)


def max_token_lifetime() -> timedelta:
    return timedelta(days=settings.TOKEN_MAX_DAYS)


class ApiToken(models.Model):
    """One API token, stored as the SHA-256 of its secret. The secret has 256 random bits, so it needs no
    salt.

    scopes: values of TokenScope in their order, separated by spaces.
    issued_by: the account or command that created the token; empty if unknown.
    limit_starts_at: TOKEN_MAX_DAYS count from this time: the creation of the token, or the upgrade from
    version 1.0.
    is_unlimited: whether the token may ask about all subjects although its owner is an ordinary account. Only
    true for tokens of version 1.0.
    """

    name = models.CharField(max_length=100)
    owner = models.ForeignKey(User, models.PROTECT, related_name="api_tokens")
    digest = models.CharField(max_length=64, unique=True)
    scopes = models.CharField(max_length=40)
    issued_by = optional_text(150, db_default="")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    limit_starts_at = models.DateTimeField(default=timezone.now, db_default=Now())
    is_unlimited = models.BooleanField(default=False, db_default=False)

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["owner", "-created_at"], name="api_token_of_owner")]

    def __str__(self):
        return f"`{self.name}` (number {self.pk})"

    @property
    def ends_at(self) -> datetime:
        """Return when the token expires, or reaches the limit if that is earlier."""
        return min(self.expires_at, self.limit_starts_at + max_token_lifetime())

    @property
    def state(self) -> str:
        """Return `good` for an active token, `expired` or `revoked`."""
        if self.revoked_at:
            return "revoked"
        return "expired" if self.ends_at <= timezone.now() else "good"


class ProvisionedUser(models.Model):
    """The data of a provisioning service about a user.

    external_id: the id of the user in that service. removed_at: when the service removed the user, which also
    deactivated it.
    """

    user = models.OneToOneField(User, models.CASCADE, primary_key=True, related_name="provisioned")
    external_id = optional_text(255, db_index=True)
    removed_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()


class ProvisionedGroup(models.Model):
    """The data of a provisioning service about a group. external_id: the id of the group in that service."""

    group = models.OneToOneField(Group, models.CASCADE, primary_key=True, related_name="provisioned")
    external_id = optional_text(255, db_index=True)

    class Meta:
        default_permissions = ()


class AccountSession(AbstractBaseSession):
    """A session (see authzconsole.sessions). account: None before the sign-in. created_at: the time of the
    sign-in.

    provider_name: the digest of the name that a sign-in provider uses in a single logout; empty for other
    sessions.
    """

    account = models.ForeignKey(User, models.CASCADE, null=True, related_name="+")
    created_at = models.DateTimeField()
    last_used_at = models.DateTimeField()
    address = optional_text(64)
    user_agent = optional_text(200)
    provider_name = optional_text(64, db_default="", db_index=True)

    class Meta(AbstractBaseSession.Meta):
        abstract = False
        default_permissions = ()


class Evidence(models.Model):
    """A request for evidence: who had access to an entity in a period. `authzconsole.evidence` writes its
    bundle.

    entity: an address, registered or not. contents: whether the evidence is also about everything inside it.
    kind: limits it to one kind; empty for all.
    from_revision, to_revision: the states at both, and all between them, are part of it.
    since, until: the requested times; null if revisions were requested.
    job: writes the bundle. Its steps are users; with contents, entities. Its summary has the counts of the
    manifest, and its result is the file of the bundle.
    """

    entity = models.CharField(max_length=600)
    contents = models.BooleanField(default=False, db_default=False)
    kind = optional_text(63, db_default="")
    since = models.DateTimeField(null=True)
    until = models.DateTimeField(null=True)
    from_revision = models.BigIntegerField()
    to_revision = models.BigIntegerField()
    job = models.OneToOneField(Job, models.PROTECT)

    class Meta:
        default_permissions = ()

    def __str__(self):
        return f"evidence {self.pk}"


class MaintenanceTask(models.TextChoices):
    JOURNAL_VERIFICATION = "journal-verification", "Journal verification"
    JOURNAL_ANCHOR = "journal-anchor", "Journal anchor"
    BACKUP = "backup", "Backup"
    EXPIRY_MAIL = "expiry-mail", "E-mail about ended access"


class MaintenanceRecord(models.Model):
    """The newest result of a maintenance task. There is one row for each task that was ever executed.

    revision: the newest journal line that the task included. text: the fault, or further details.
    """

    task = models.CharField(max_length=30, choices=MaintenanceTask.choices, primary_key=True)
    at = models.DateTimeField()
    is_ok = models.BooleanField()
    revision = models.BigIntegerField()
    text = optional_text()

    class Meta:
        default_permissions = ()

    def __str__(self):
        return f"{self.task} at revision {self.revision}"


class AppendOnlyQuerySet(models.QuerySet):
    """A queryset that refuses to change or delete rows.

    `authzconsole.common.security_events.record` deletes old rows.
    """

    def update(self, **values):
        raise TypeError("security events are not changed")

    def delete(self):
        raise TypeError("security events are only deleted by their retention")


class SecurityEvent(models.Model):
    """One security event, such as a sign-in. Written only by `authzconsole.common.security_events.record`.

    kind: a value of `security_events.record.EventKind`. account: the account that acted; for a failed sign-in,
    the entered name.
    address: the client address; empty for commands. target: the principal, path or file that the event is
    about.
    token: number of the API token of the request. count: the number of equal events that this row stands for.
    """

    at = models.DateTimeField(db_index=True)
    kind = models.CharField(max_length=30)
    account = optional_text(150)
    address = optional_text(45)
    target = optional_text(600)
    detail = optional_text(600)
    request_id = optional_text(64)
    token = models.BigIntegerField(null=True)
    count = models.PositiveIntegerField(default=1, db_default=1)

    objects = models.Manager.from_queryset(AppendOnlyQuerySet)()

    class Meta:
        default_permissions = ()
        indexes = [
            models.Index(fields=["kind", "-id"], name="security_event_kind"),
            models.Index(fields=["account", "-id"], name="security_event_account"),
            models.Index(fields=["address", "-id"], name="security_event_address"),
        ]

    def __str__(self):
        return f"security event {self.pk}: {self.kind}"


class SecurityEventTarget(models.Model):
    """The progress of shipping security events to one target.

    name: the target as configured. shipped_to: the number of the last shipped event.
    failures: failed attempts since the last success. error: the reason of the last failure.
    job: ships the next events; started again when there are any.
    """

    name = models.CharField(max_length=300, unique=True)
    shipped_to = models.BigIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    error = optional_text(300)
    job = models.OneToOneField(Job, models.PROTECT, null=True)

    class Meta:
        default_permissions = ()

    def __str__(self):
        return f"{self.name}: shipped to {self.shipped_to}"


class Webhook(models.Model):
    """An endpoint that receives journal lines. Changed only by `authzconsole.common.webhooks.services` and
    `delivery`.

    actions: journal actions, separated by spaces; empty means all. nonce: the secret is derived from it and
    SECRET_KEY.
    position: the revision of the last line that was delivered, skipped or given up. attempts: failed attempts
    for the next line. retry_at: no attempt is made before this time.
    job: delivers the next lines; started again when there are any.
    """

    url = models.CharField(max_length=500)
    actions = optional_text(2_000)
    nonce = models.CharField(max_length=64)
    is_enabled = models.BooleanField(default=True)
    created_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    position = models.BigIntegerField(default=0)
    attempts = models.PositiveIntegerField(default=0)
    retry_at = models.DateTimeField(null=True)
    delivered = models.PositiveBigIntegerField(default=0)
    delivered_at = models.DateTimeField(null=True)
    error = optional_text(300)
    job = models.OneToOneField(Job, models.PROTECT, null=True)

    class Meta:
        default_permissions = ()

    def __str__(self):
        return f"webhook {self.pk}"


class DeadLetter(models.Model):
    """A journal line that a webhook did not accept. is_replayed: whether it is to be sent again before new
    lines.
    """

    webhook = models.ForeignKey(Webhook, models.CASCADE, related_name="dead_letters")
    revision = models.BigIntegerField()
    at = models.DateTimeField()
    error = models.CharField(max_length=300)
    is_replayed = models.BooleanField(default=False)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["webhook", "revision"], name="dead_letter_of_line")]


class AcceptanceRule(models.Model):
    """Findings that are accepted until a time, also those that do not exist yet. Written by
    `authzconsole.findings.services`.

    kind: a name of `authzconsole.findings.kinds`. pattern: of subjects; `*` matches any characters.
    """

    kind = models.CharField(max_length=40)
    pattern = models.CharField(max_length=300)
    until = models.DateTimeField()
    reason = models.TextField()
    made_by = models.CharField(max_length=150)
    made_at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["kind", "pattern"], name="one_rule_per_pattern")]

    def __str__(self):
        return f"rule {self.pk}"


class Severity(models.IntegerChoices):
    """How urgent a finding is, the most urgent first."""

    ERROR = 0, "Error"
    WARNING = 1, "Warning"
    INFO = 2, "Notice"

    @property
    def word(self) -> str:
        """The severity in interfaces, and the level of its icon."""
        return self.name.lower()


class FindingState(models.TextChoices):
    """The states of a finding, which follow from its times."""

    OPEN = "open", "Open"
    ACCEPTED = "accepted", "Accepted"
    RESOLVED = "resolved", "Resolved"


class Finding(models.Model):
    """Something that needs attention. There is at most one for each kind and subject.

    `authzconsole.findings.refresh` writes what was found, `services` what accounts decide about it.

    kind: a name of `authzconsole.findings.kinds`. subject: such as `namespace:sales` or `guardrail:NAME`; empty for the
    whole tenant. figure, note: of its text. run: the run that reported it, if any. since: when it was first found.
    accepted_figure: the figure that was accepted; a larger one opens the finding again, unless a rule accepted it.
    is_announced: whether the journal has a line about it. notified_at: when the e-mails about it were sent; null if they are due.
    history: what happened, oldest first, as objects with `at`, `what`,
    `by` and `text`; at most MAX_HISTORY.
    """

    MAX_HISTORY = 50

    kind = models.CharField(max_length=40)
    subject = models.CharField(max_length=300, blank=True)
    severity = models.PositiveSmallIntegerField(choices=Severity.choices)
    figure = models.BigIntegerField(default=1)
    note = models.CharField(max_length=500, blank=True)
    run = models.ForeignKey(Job, models.SET_NULL, null=True, related_name="+", db_index=False)
    since = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True)
    owner = models.ForeignKey(User, models.SET_NULL, null=True, related_name="findings")
    accepted_until = models.DateTimeField(null=True)
    accepted_reason = models.TextField(blank=True)
    accepted_by = models.CharField(max_length=150, blank=True)
    accepted_figure = models.BigIntegerField(default=0)
    rule = models.ForeignKey(AcceptanceRule, models.SET_NULL, null=True, related_name="findings")
    is_announced = models.BooleanField(default=False)
    notified_at = models.DateTimeField(null=True)
    history = models.JSONField(default=list)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["kind", "subject"], name="one_finding_per_subject")]
        indexes = [models.Index(fields=["severity", "-figure", "id"], name="finding_order")]

    def __str__(self):
        return f"finding {self.pk}"

    @property
    def state(self) -> FindingState:
        if self.resolved_at is not None:
            return FindingState.RESOLVED
        is_accepted = self.accepted_until is not None and self.accepted_until > timezone.now()
        return FindingState.ACCEPTED if is_accepted else FindingState.OPEN

    @property
    def namespace(self) -> str:
        """The name of the namespace that it is about; empty if it is about another subject."""
        kind, _, name = self.subject.partition(":")
        return name if kind == "namespace" else ""

    def record(self, what: str, *, by: str = "", text: str = "") -> None:
        """Add an event to the history. The caller saves the finding."""
        event = {"at": timezone.now().isoformat(timespec="seconds"), "what": what, "by": by, "text": text}
        self.history = [*self.history, event][-self.MAX_HISTORY :]

    def accept(self, until: datetime, *, reason: str, by: str, rule: AcceptanceRule | None = None) -> None:
        self.accepted_until, self.accepted_reason, self.accepted_by = until, reason, by
        self.accepted_figure, self.rule = self.figure, rule

    def end_acceptance(self) -> None:
        self.accepted_until, self.accepted_reason, self.accepted_by = None, "", ""
        self.accepted_figure, self.rule = 0, None


class Connection(models.Model):
    """A platform. The console compares its entities and grants with its own. `authzconsole.connections.services`
    writes it.

    type: a name of TYPES there. options: of the type, texts by name. entities: those that a sync found. creations: see
    `Platform`. secret: a token,
    encrypted; empty if there is none.
    shown_digest: the hash of both sides when the changes of a push were shown; empty if none are waiting.
    interval_hours: between two syncs without a request; 0 for none. applies_syncs: whether they change the console;
    otherwise they only make a plan.
    plan: the plan of the newest sync, until the next sync takes over what the plan did. plan_creations: `creations`
    after it.
    maker_ids: the keys of the accounts of the persons who configured it (grants.authority.persons): they choose which
    grants it has.
    """

    name = models.CharField(max_length=60, unique=True)
    type = models.CharField(max_length=20)
    url = models.CharField(max_length=500)
    options = models.JSONField(default=dict)
    entities = models.ManyToManyField(Entity, related_name="+")
    creations = models.JSONField(default=dict)
    secret = optional_text()
    synced_at = models.DateTimeField(null=True)
    shown_digest = optional_text(64)
    interval_hours = models.PositiveSmallIntegerField(default=0)
    applies_syncs = models.BooleanField(default=False)
    plan = models.ForeignKey(Plan, models.SET_NULL, null=True, related_name="+")
    plan_creations = models.JSONField(default=dict)
    maker_ids = models.JSONField(default=list)

    class Meta:
        default_permissions = ()

    def __str__(self):
        return f"connection {self.name}"
