"""The models of guardrails: rules over the result of all grants, and the exceptions from them.

`grants.changes` and the import of tenant documents are their only writers.
"""

from django.contrib.auth.models import Permission
from django.db import models

from entities.address import MAX_KEY_LENGTH
from entities.fields import optional_text
from grants.policies.principals import group_text


class Form(models.TextChoices):
    """What a guardrail says about grants; the values are members of tenant documents.

    A new form is a value here, an entry of `FORMS` in `grants.guardrails.rules`, and its evaluation in
    `grants.guardrails.evaluation`.
    """

    FORBID = "forbid", "Forbid privileges"
    FORBID_BOTH = "forbid_both", "Forbid two privileges together"
    REQUIRE = "require", "Require holders"
    EXPECT = "expect", "Expect a decision"


class Enforcement(models.TextChoices):
    """What happens to a change that adds a violation."""

    BLOCK = "block", "Block"
    WARN = "warn", "Warn"


class Guardrail(models.Model):
    """A saved rule over all effective grants.

    group: whose members it is about; without one, everybody. For an expected decision, `user` or `group` is its
    subject. at_least: how many holders an entity needs. action, decision: of an expected decision.
    changed_by: the name of the author.
    """

    name = models.CharField(max_length=100, unique=True)
    form = models.CharField(max_length=11, choices=Form.choices)
    level = models.CharField(max_length=5, choices=Enforcement.choices, default=Enforcement.BLOCK)
    user = models.ForeignKey("grants.User", models.PROTECT, null=True, related_name="guardrails")
    group = models.ForeignKey("auth.Group", models.PROTECT, null=True, related_name="guardrails")
    at_least = models.PositiveIntegerField(default=0)
    action = optional_text(63)
    decision = models.BooleanField(default=True)
    reason = optional_text()
    changed_by = models.CharField(max_length=150)
    changed_at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        ordering = ["name"]

    def __str__(self):
        return self.name

    @property
    def principal(self) -> str:
        """The principal that the guardrail is about, in written form; empty for everybody."""
        if self.user:
            return f"user:{self.user.username}"
        return group_text(self.group.name) if self.group else ""


class GuardrailClause(models.Model):
    """One privilege in one place.

    side: 0, or for two privileges together 0 or 1. permission: None for an expected decision. kind, key: the
    address of the place, which includes its contents. The key is empty for all entities of the kind.
    """

    guardrail = models.ForeignKey(Guardrail, models.CASCADE, related_name="clauses")
    side = models.PositiveSmallIntegerField(default=0)
    permission = models.ForeignKey(Permission, models.CASCADE, null=True, related_name="+", db_index=False)
    kind = models.CharField(max_length=63)
    key = optional_text(MAX_KEY_LENGTH)

    class Meta:
        default_permissions = ()
        # from the address of a changed grant to the guardrails that it can violate
        indexes = [models.Index(fields=["kind", "key", "permission"], name="guardrail_clause_place")]

    def __str__(self):
        return f"{self.kind}:{self.key} of {self.guardrail}"


class GuardrailException(models.Model):
    """Violations of a guardrail that are accepted until a time.

    user, group: whose violations; without both, those of everybody. kind, key: where, with the contents;
    empty for everywhere. owner, added_by: names of accounts.
    """

    guardrail = models.ForeignKey(Guardrail, models.CASCADE, related_name="exceptions")
    user = models.ForeignKey("grants.User", models.PROTECT, null=True, related_name="guardrail_exceptions")
    group = models.ForeignKey("auth.Group", models.PROTECT, null=True, related_name="guardrail_exceptions")
    kind = optional_text(63)
    key = optional_text(MAX_KEY_LENGTH)
    owner = models.CharField(max_length=150)
    reason = models.TextField()
    valid_until = models.DateTimeField()
    added_by = models.CharField(max_length=150)
    added_at = models.DateTimeField()

    class Meta:
        default_permissions = ()

    def __str__(self):
        return f"exception from {self.guardrail}"

    @property
    def principal(self) -> str:
        """The principal in written form; empty for everybody."""
        if self.user:
            return f"user:{self.user.username}"
        return group_text(self.group.name) if self.group else ""

    @property
    def place(self) -> str:
        """The address in written form; empty for everywhere."""
        return f"{self.kind}:{self.key}" if self.kind else ""
