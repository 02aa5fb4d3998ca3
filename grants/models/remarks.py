"""The model of remarks: what the policies of a platform have and grants cannot express.

`grants.evaluation.remarks` is its only writer.
"""

from functools import cached_property

from django.db import models

from entities.address import MAX_KEY_LENGTH, Address


class RemarkPart(models.TextChoices):
    """What a row is for its remark, which is about the privileges of its items.

    An exception takes privileges away from them. A remark with a restriction is only about privileges that one has.
    """

    ITEM = "item"
    RESTRICTED_ITEM = "restricted"
    EXCEPTION = "exception"
    RESTRICTION = "restriction"


class Remark(models.Model):
    """A part of a remark about the answers that a platform may give differently. Only explanations read it.

    source: who wrote it and replaces it. number: the same for all parts of a remark of a source. namespace: the name of
    the one that contains the address; empty if there is none, or several. kind, key: of an address or pattern; both empty
    for any address. principal: in written form, whether the console knows it or not; empty for everybody. privileges:
    separated by spaces. gives: whether the platform may permit more; otherwise it may permit less. text: one sentence; empty for an exception or restriction.
    """

    source = models.CharField(max_length=300)
    number = models.PositiveIntegerField()
    part = models.CharField(max_length=11, choices=RemarkPart)
    namespace = models.CharField(max_length=MAX_KEY_LENGTH, blank=True)
    kind = models.CharField(max_length=63, blank=True)
    key = models.CharField(max_length=MAX_KEY_LENGTH, blank=True)
    principal = models.CharField(max_length=200, blank=True)
    privileges = models.CharField(max_length=100)
    gives = models.BooleanField(default=False)
    text = models.TextField(blank=True)

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["principal", "namespace"], name="remark_principal")]

    def __str__(self):
        return self.text or f"{self.part} of remark {self.number} of {self.source}"

    @cached_property
    def address(self) -> Address:
        return Address(self.kind, self.key)

    @cached_property
    def privilege_names(self) -> frozenset[str]:
        return frozenset(self.privileges.split())
