"""List who can access an entity: the active users with their operations and paths.

`all_access` yields all of them. `PeopleWithAccess` lists them page by page, and counts them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from django.contrib.auth.models import Group
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Collate

from entities.address import Address
from entities.frozen import frozen
from entities.models import Entity
from entities.selectors import entity_at, subtree_of
from entities.vocabulary import CONTAINER_KINDS, Privilege
from grants.access.loading import permitted_operations
from grants.access.paths import Ways
from grants.access.requirements import (
    OperationsByRequirement,
    all_of_requirements,
    any_of_requirements,
    operations_by_requirement,
    selected_operations,
)
from grants.evaluation.principal_filters import PrincipalConditions, permitted_principals
from grants.holders import byte_order
from grants.models import GRANT_SOURCES, GroupGrant, User
from grants.policies.grammar import AllOf, Always, AnyOf, Expression, Has
from grants.policies.levels import LEVELS, Level, required_level
from grants.policies.policy import Generation
from grants.policies.question import Question
from grants.querysets import memberships_in_force, union_all

# The number of users for which paths are loaded together.
USERS_PER_BATCH = 200


@frozen
class UserAccess:
    """What one user can do with an entity. ways: how, by operation, sorted by code points."""

    user: str
    ways: dict[str, Ways]


def permitted_users(
    address: Address, generation: Generation, operations: Iterable[str] | None
) -> QuerySet[User]:
    """Return the active users who may perform at least one of the operations on the entity. operations: None
    for all.

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
    operations: Iterable[str] | None,
    **options: int,
) -> list[UserAccess]:
    """Return what each of these users can do with the entity, in order. Runs the queries of `ways_of`."""
    pairs = [(user, address) for user in users]
    permitted = permitted_operations("user", pairs, generation, operations, **options)
    return [UserAccess(user, ways) for user, ways in zip(users, permitted, strict=True)]


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


# With a filter that is decided for each user after their paths are loaded, a page checks at most this many
# users.
MAX_CHECKED = 1_000
# In a container with more entities, each user is checked separately, which finds the first users early, but
# counts slowly.
MAX_INSIDE = 2_000
# In a container with more entities, a page counts the people in a later request.
MAX_INSIDE_COUNTED_AT_ONCE = 200
PATH_KINDS = ("direct", "group")


@frozen
class PeopleFilter:
    """Which people to list; empty members do not filter.

    text: a part of the name, in any case.
    group: only members of this group.
    privilege: the user holds it on exactly the entity.
    operation: only this operation.
    level: only operations of this access level.
    path_kind: only operations with a `direct` path, or with one through a `group`.
    group_namespace: the namespace of a reader that sees nothing else. A group without a grant in it then
    looks empty and is not listed, because the reader would learn who its members are.
    """

    text: str = ""
    group: str = ""
    privilege: str = ""
    operation: str = ""
    level: str = ""
    path_kind: str = ""
    group_namespace: str = ""


@frozen
class PeoplePage:
    """One page. next_after: the name after which the next page starts; None on the last page."""

    rows: list[UserAccess]
    next_after: str | None


@frozen
class PeopleCounts:
    """The number of users who may perform any operation, at least one of each level, and each operation.

    by_level: the strongest level first. partial: of these users, those who may perform only a part of the operations of the
    level.
    """

    total: int
    by_level: dict[Level, int]
    by_operation: dict[str, int]
    partial: dict[Level, int]


@dataclass(frozen=True)
class PeopleWithAccess:
    """The active users who may perform at least one operation on an entity, after a filter, sorted by name."""

    address: Address
    generation: Generation
    where: PeopleFilter = PeopleFilter()
    is_descending: bool = False

    @property
    def operations(self) -> list[str] | None:
        where = self.where
        return selected_operations(self.generation, self.address.kind, where.operation, where.level)

    def page(self, after: str | None, max_rows: int) -> PeoplePage:
        """Return the users after a name, or the first ones.

        Runs one query for the names, those of `_conditions` for a container, and those of `ways_of`; more only
        if a filter of paths removes many users.
        """
        rows: list[UserAccess] = []
        checked = 0
        while True:
            names = self._names(after, max_rows + 1)
            batch = names[:max_rows]
            checked += len(batch)
            for access in access_of_users(batch, self.address, self.generation, self.operations):
                if access := self.matching(access):
                    rows.append(access)
                    if len(rows) == max_rows:
                        return PeoplePage(rows, access.user if access.user != names[-1] else None)
            if len(names) <= max_rows:
                return PeoplePage(rows, None)
            after = batch[-1]
            if checked >= MAX_CHECKED:
                return PeoplePage(rows, after)

    def counts(self) -> PeopleCounts:
        """Return the numbers of users after the filter. Runs one query, and those of `_conditions` for a
        container.

        A filter of paths counts the users with a grant of this kind, whether or not it permits the operation.
        """
        grouped = self._operations_by_requirement
        if not grouped:
            return PeopleCounts(0, {}, {}, {})
        # many operations have rules that mean the same here, such as rules that differ only in their
        # parameters
        parts = {
            requirement: any_of_requirements([requirement], self.address.kind) for requirement in grouped
        }
        by_level: dict[Level, list[Expression]] = {level: [] for level in LEVELS}
        for requirement in grouped:
            by_level[required_level(requirement)].append(requirement)
        levels = {
            level: any_of_requirements(requirements, self.address.kind)
            for level, requirements in by_level.items()
            if requirements
        }
        complete = {level: all_of_requirements(by_level[level], self.address.kind) for level in levels}
        distinct = list(
            dict.fromkeys([self._any_requirement, *levels.values(), *parts.values(), *complete.values()])
        )
        queries = [self._users_meeting(requirement) for requirement in distinct]
        totals = [
            rows.order_by()
            .annotate(part=Value(part))
            .values("part")
            .annotate(total=Count("pk"))
            .values_list("part", "total")
            for part, rows in enumerate(queries)
        ]
        counts = dict(union_all(totals))
        by_level_counts, in_full = (
            {level: counts.get(distinct.index(requirement), 0) for level, requirement in requirements.items()}
            for requirements in (levels, complete)
        )
        return PeopleCounts(
            counts.get(0, 0),
            by_level_counts,
            {
                operation: counts.get(distinct.index(parts[requirement]), 0)
                for requirement, operations in grouped.items()
                for operation in operations
            },
            {level: count - in_full[level] for level, count in by_level_counts.items()},
        )

    def groups(self) -> QuerySet[Group]:
        """Return the groups through which their members are permitted an operation.

        Only the filter of operations, and `group_namespace`, apply.
        """
        if self._any_requirement in (AnyOf(()), Always()):
            return Group.objects.none()
        question = replace(self._question, subject_type="group")
        conditions = replace(self._conditions, question=question)
        rows = permitted_principals(self._any_requirement, question, conditions)[0]
        if namespace := self.where.group_namespace:
            rows = rows.filter(pk__in=_groups_with_grants_in(namespace))
        return rows

    def matching(self, access: UserAccess) -> UserAccess | None:
        """Return the access with the operations that match the filter of paths; None if there are none."""
        ways = access.ways
        if self.where.path_kind:
            is_direct = self.where.path_kind == "direct"
            ways = {
                operation: way
                for operation, way in ways.items()
                if any(path.principal.startswith("user:") is is_direct for path in way.listed_paths)
            }
        return UserAccess(access.user, ways) if ways else None

    def _names(self, after: str | None, max_rows: int) -> list[str]:
        rows = self._users.order_by("-username" if self.is_descending else "username")
        if after is not None:
            rows = rows.filter(**{"username__lt" if self.is_descending else "username__gt": after})
        return list(rows.values_list("username", flat=True)[:max_rows])

    @cached_property
    def _any_requirement(self) -> Expression:
        return any_of_requirements(self._operations_by_requirement, self.address.kind)

    @cached_property
    def _operations_by_requirement(self) -> OperationsByRequirement:
        return operations_by_requirement(self.generation, self.address.kind, self.operations)

    @cached_property
    def _users(self) -> QuerySet[User]:
        return (
            User.objects.none()
            if self._any_requirement == AnyOf(())
            else self._users_meeting(self._any_requirement)
        )

    @cached_property
    def _question(self) -> Question:
        return Question("user", "", "", self.address, self.generation.name)

    @cached_property
    def _conditions(self) -> PrincipalConditions:
        """The conditions for the requirements of all operations. Runs the queries of `_container`."""
        container, inside = self._container
        return PrincipalConditions(self._question, container, inside > MAX_INSIDE)

    @cached_property
    def _container(self) -> tuple[Entity | None, int]:
        """Return the container and the number of entities inside it, at most MAX_INSIDE + 1.

        Runs two queries for a container.
        """
        container = entity_at(self.address) if self.address.kind in CONTAINER_KINDS else None
        return container, 0 if container is None else subtree_of(container).order_by()[
            : MAX_INSIDE + 1
        ].count()

    @property
    def is_counted_at_once(self) -> bool:
        """Whether counting takes milliseconds: the entity contains few others."""
        return self._container[1] <= min(MAX_INSIDE_COUNTED_AT_ONCE, MAX_INSIDE)

    @property
    def is_quickly_counted(self) -> bool:
        """Whether counting takes less than a second: the entity does not contain very many others."""
        return self._container[1] <= MAX_INSIDE

    def _users_meeting(self, requirement: Expression) -> QuerySet[User]:
        where = self.where
        if where.privilege:
            requirement = AllOf((Has((Privilege[where.privilege],)), requirement))
        rows, _ = permitted_principals(requirement, self._question, self._conditions)
        if where.text:
            rows = rows.filter(username__icontains=where.text)
        if where.group:
            rows = rows.filter(pk__in=self._memberships_in_group.values("user_id"))
        if where.path_kind:
            rows = rows.filter(self._has_grant_in_reach)
        return rows

    @property
    def _memberships_in_group(self) -> QuerySet:
        """The memberships in the group of the filter."""
        rows, namespace = (
            memberships_in_force().filter(group__name=self.where.group),
            self.where.group_namespace,
        )
        if not namespace:
            return rows
        return rows.filter(group__in=_groups_with_grants_in(namespace))

    @cached_property
    def _has_grant_in_reach(self) -> Q:
        """The condition that a user has a grant of the filtered kind on the entity, on its containers or
        inside it.
        """
        addresses = [self.address, *self.address.ancestors]
        ids = Entity.objects.filter(
            kind__in={a.kind for a in addresses}, key__in={a.key for a in addresses}
        ).values("pk")
        on_entity = Q(content_object__in=ids)
        container = entity_at(self.address) if self.address.kind in CONTAINER_KINDS else None
        if container is not None and container.kind != "instance":
            on_entity |= Q(**{f"{container.kind}_id": container.pk})
        elif container is not None:
            on_entity = Q()
        is_direct = self.where.path_kind == "direct"
        condition = Q(pk__in=[])
        for source in GRANT_SOURCES["user"]:
            if is_direct is not bool(source.membership):
                condition |= Q(Exists(source.rows(**{source.subject: OuterRef("pk")}).filter(on_entity)))
        return condition


def _groups_with_grants_in(namespace: str) -> QuerySet:
    """Return the primary keys of the groups with a grant in the namespace."""
    return GroupGrant.held.filter(content_object__namespace__key=namespace).values("group")
