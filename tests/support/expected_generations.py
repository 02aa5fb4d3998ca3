"""Facts about each generation, read from its source documents independently of the catalogue."""

from dataclasses import dataclass
from enum import StrEnum

from entities.vocabulary import Privilege

ALL_PRIVILEGES = tuple(map(str, Privilege))


class Deletion(StrEnum):
    """How a namespace is deleted by a user who holds ADMIN on it.

    ALL: with all content. ADMINISTERED: the entities that the user administers are deleted one by one; those
    in an application count with it. STEPS: kind by kind, until the user lacks ADMIN on an entity of a step.
    """

    ALL = "all"
    ADMINISTERED = "administered"
    STEPS = "steps"


@dataclass(frozen=True, slots=True)
class ExpectedGeneration:
    """documents: the documents that its policies cite. deletion_document: the one that its deletion of
    namespaces cites.

    creator_receives: the privileges that the creator of an entity receives. deleting_removes_grants: whether
    the grants on an entity are deleted with it. deleting_counts_content: whether deleting a namespace
    requires ADMIN on its content too.
    """

    documents: frozenset[str]
    deletion_document: str
    creator_receives: tuple[str, ...]
    deleting_removes_grants: bool
    deleting_counts_content: bool
    deletion: Deletion


EXPECTED = {
    "core": ExpectedGeneration(frozenset({"001"}), "001", ALL_PRIVILEGES, True, False, Deletion.ADMINISTERED),
    "existing": ExpectedGeneration(frozenset({"003"}), "003", ALL_PRIVILEGES, True, False, Deletion.ALL),
    "proposed": ExpectedGeneration(frozenset({"003"}), "003", (), False, True, Deletion.STEPS),
    "final": ExpectedGeneration(frozenset({"000", "002"}), "002", (), False, True, Deletion.STEPS),
    "cdap65": ExpectedGeneration(frozenset({"cdap"}), "cdap", (), False, True, Deletion.STEPS),
}
