"""Define the table of addresses.

A row is an address, not the entity itself. It is planned before the entity exists, live while the entity
exists, and deleted afterwards. Therefore grants can be made before an entity exists, and remain after it is
deleted. A pattern with grants has a row too, so that grants refer to it like to an address; `Entity.objects` leaves
it out.
"""

from django.db import models

from entities.address import MAX_KEY_LENGTH, Address
from entities.fields import optional_text
from entities.vocabulary import KINDS, Privilege


class State(models.TextChoices):
    """The state of an address: its entity does not exist yet, exists, or no longer exists."""

    PLANNED = "planned"
    LIVE = "live"
    DELETED = "deleted"


# the state of the row of a pattern, which is no entity
PATTERN = "pattern"


class EntityManager(models.Manager["Entity"]):
    """The addresses without the patterns."""

    def get_queryset(self) -> "models.QuerySet[Entity]":
        return super().get_queryset().exclude(state=PATTERN)


class Entity(models.Model):
    """An address and its state. `namespace` and `application` refer to its containers; a container refers to
    itself. A pattern has no containers. `rows` includes the patterns.

    INVARIANT: kind and key never change, and the three foreign keys follow from them (entities.address).
    """

    kind = models.CharField(max_length=63)
    key = models.CharField(max_length=MAX_KEY_LENGTH)
    parent = models.ForeignKey("self", models.PROTECT, null=True, related_name="children")
    namespace = models.ForeignKey("self", models.PROTECT, null=True, related_name="+", db_index=False)
    application = models.ForeignKey("self", models.PROTECT, null=True, related_name="+")
    state = models.CharField(max_length=7, choices=State.choices, default=State.LIVE)
    description = optional_text()
    created_at = models.DateTimeField(auto_now_add=True)
    changed_at = models.DateTimeField(auto_now=True)

    objects = EntityManager()
    rows = models.Manager.from_queryset(models.QuerySet)()

    class Meta:
        default_permissions = ()
        permissions = [(privilege.value.lower(), f"{privilege} on the entity") for privilege in Privilege]
        constraints = [models.UniqueConstraint(fields=["kind", "key"], name="entity_address")]
        indexes = [
            # includes the id, so that the content of a namespace is counted without reading the rows
            models.Index(fields=["namespace", "kind", "state", "id"], name="entity_in_namespace"),
            models.Index(fields=["parent", "kind", "key"], name="entity_child"),
            # nearly all entities are live
            models.Index(fields=["state"], name="entity_not_live", condition=~models.Q(state="live")),
        ]

    def __str__(self) -> str:
        return f"{self.kind}:{self.key}"

    @property
    def address(self) -> Address:
        return Address(self.kind, self.key)

    @property
    def name(self) -> str:
        return self.address.name

    @property
    def is_live(self) -> bool:
        return self.state == State.LIVE

    @property
    def kind_title(self) -> str:
        return KINDS[self.kind].title
