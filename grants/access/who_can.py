"""List who can access an entity: the active users with their operations and paths."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from django.db.models import F, QuerySet
from django.db.models.functions import Collate

from entities.address import Address
from grants.access.loading import ways_of
from grants.access.paths import Ways
from grants.access.requirements import any_of_requirements, operations_by_requirement
from grants.evaluation.principal_filters import permitted_principals
from grants.holders import byte_order
from grants.models import User
from grants.policies.grammar import AnyOf
from grants.policies.policy import Generation
from grants.policies.question import Question

# The number of users for which paths are loaded together.
USERS_PER_BATCH = 200


@dataclass(frozen=True, slots=True)
class UserAccess:
    """What one user can do with an entity. ways: how, by operation, sorted by code points."""

    user: str
    ways: dict[str, Ways]


def permitted_users(
    address: Address, generation: Generation, operations: Iterable[str] | None = None
) -> QuerySet[User]:
    """Return the active users who may perform at least one of the operations on the entity; all operations by
    default.

    Runs at most two queries, to read a container.
    """
    requirements = operations_by_requirement(generation, address.kind, operations)
    combined = any_of_requirements(requirements, address.kind)
    if combined == AnyOf(()):
        return User.objects.none()
    question = Question("user", "", "", address, generation.name)
    rows, _ = permitted_principals(combined, question)
    return rows


def access_of_users(
    users: Sequence[str],
    address: Address,
    generation: Generation,
    operations: Iterable[str] | None = None,
    **options: int,
) -> list[UserAccess]:
    """Return what each of these users can do with the entity, in order. Runs the queries of `ways_of`."""
    return access_of_subjects("user", users, address, generation, operations, **options)


def access_of_subjects(
    subject_type: str,
    names: Sequence[str],
    address: Address,
    generation: Generation,
    operations: Iterable[str] | None = None,
    **options: int,
) -> list[UserAccess]:
    grouped = operations_by_requirement(generation, address.kind, operations)
    questions = [
        Question(subject_type, name, same[0], address, generation.name)
        for name in names
        for same in grouped.values()
    ]
    found = iter(ways_of(questions, **options))
    access = []
    for name in names:
        ways = {
            operation: way
            for same in grouped.values()
            for way in [next(found)]
            if way is not None
            for operation in same
        }
        access.append(UserAccess(name, {operation: ways[operation] for operation in sorted(ways)}))
    return access


def all_access(
    address: Address, generation: Generation, operations: Iterable[str] | None = None
) -> Iterator[UserAccess]:
    """Yield the access of every active user who can do anything with the entity, sorted by code points of the
    name.

    The users are read in batches, so memory does not grow with their number. Paths that are not loaded are
    read when the caller iterates over them.
    """
    operations = None if operations is None else list(operations)
    rows = permitted_users(address, generation, operations).annotate(
        byte_name=Collate(F("username"), byte_order())
    )
    names = iter(
        rows.order_by("byte_name").values_list("username", flat=True).iterator(chunk_size=USERS_PER_BATCH)
    )
    while batch := list(islice(names, USERS_PER_BATCH)):
        for access in access_of_users(batch, address, generation, operations):
            if access.ways:
                yield access
