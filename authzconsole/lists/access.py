"""The lists of effective access: who can access an entity, what a principal can do; and the data stewards."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from django.db.models import QuerySet
from django.utils.timezone import localtime

from analytics.tables import Column, ColumnType, Table
from authzconsole.common import output
from authzconsole.common.fields import (
    AddressText,
    Choice,
    KindText,
    NameText,
    PrincipalText,
    QueryBoolean,
    QuerySerializer,
    Text,
    generation_field,
)
from authzconsole.common.periods import AsOf, AtTime, MomentQuery, moment_of_query
from authzconsole.lists.base import List
from authzconsole.lists.grants import PRIVILEGES
from entities.address import Address
from grants.access import (
    PATH_KINDS,
    AccessibleEntities,
    AccessList,
    EntityFilter,
    Path,
    PeopleFilter,
    Target,
    Ways,
    access_of_users,
    kinds_in_byte_order,
)
from grants.active_generation import active_generation
from grants.authority.stewards import only_namespace, stewarded_namespaces
from grants.history import at_moment
from grants.models import NamespaceSteward
from grants.policies.catalogue import generation_by_name
from grants.policies.levels import LEVELS, Level, level_of
from grants.policies.policy import Generation
from grants.policies.wording import rule_in_words
from grants.principal_names import parse_principal
from grants.validity import iterate_at_time


@dataclass(frozen=True)
class Permission:
    """A permitted operation. user: the user who is permitted, in a list of people.

    is_complete: whether all paths are listed, even if there are more than were loaded.
    """

    entity: Address
    operation: str
    generation: Generation
    ways: Ways
    user: str = ""
    is_complete: bool = False

    @property
    def level(self) -> Level | None:
        return level_of(self.generation, self.entity.kind, self.operation)

    @property
    def rule(self) -> str:
        return rule_in_words(self.generation.policy(self.entity.kind, self.operation))

    @cached_property
    def paths(self) -> list[Path]:
        return list(self.ways) if self.is_complete else self.ways.listed_paths

    @property
    def only(self) -> list[Path]:
        """The paths without which the operation is denied."""
        return [path for path in self.paths if path in self.ways.only]


class PathSerializer(output.Output):
    """A grant by which an operation is permitted."""

    principal = output.Text(help_text="The user itself, or one of its groups.")
    entity = output.Text()
    privilege = output.Choice(PRIVILEGES)


_PATHS = PathSerializer(
    many=True,
    help_text="The grants by which the operation is permitted, one for each way, sorted. "
    "Empty if it needs no grant.",
)
_ONLY = PathSerializer(many=True, help_text="The paths without which the operation would be denied.")
_COMPLETE = output.Boolean(
    get=lambda permission: permission.is_complete or permission.ways.is_complete,
    example=True,
    help_text="False if a container has so many grants inside that `paths` has only the first ones; the downloads have all.",
)


class WhatCanSerializer(output.Output):
    """One operation that is permitted on an entity."""

    entity = output.Text()
    operation = output.Text()
    level = output.Choice(
        LEVELS,
        help_text="The access level of the operation in the generation, such as `reads` or `administers`.",
    )
    rule = output.Text(
        help_text="The rule of the operation in the generation, in words, such as `READ on the entity`."
    )
    paths, only, complete = _PATHS, _ONLY, _COMPLETE


class WhoCanSerializer(WhatCanSerializer):
    """One operation that a user may perform on an entity."""

    user = output.Text()
    paths, only, complete = _PATHS, _ONLY, _COMPLETE


class QuestionQuery(MomentQuery):
    """The rules and the time that a list is about."""

    generation = generation_field()
    as_of = AsOf(help_text="Answer with the state after this revision of the journal, or at this time.")
    at = AtTime(
        help_text="Answer with the grants and memberships that are valid at this time, such as "
        "`2026-12-01T00:00:00Z`. By default now, or the time of `as_of`. For administrators "
        "and auditors.",
    )


def level_field() -> Choice:
    return Choice(
        choices=list(map(str, LEVELS)), required=False, help_text="Only operations of this access level."
    )


class WhoCanFilters(QuestionQuery):
    entity = AddressText(required=True)
    contents = QueryBoolean(default=False, help_text="Also every live entity inside the entity.")
    kind = KindText(help_text="With `contents`: only entities of this kind, such as `dataset`.")
    operation = Text(
        max_length=70,
        help_text="Only this operation, or this privilege on exactly the entity.",
    )
    level = level_field()
    privilege = Choice(
        choices=PRIVILEGES,
        help_text="Only users who hold this privilege on exactly the entity.",
    )
    q = Text(max_length=200, help_text="A part of the name of the user, ignoring case.")
    group = NameText(
        help_text="Only members of this group. Data stewards find only members of groups with a "
        "grant in the namespace.",
    )
    path = Choice(
        choices=list(PATH_KINDS),
        help_text="Only operations with a path of this kind: a `direct` grant, or a grant through a `group`.",
    )


class WhatCanFilters(QuestionQuery):
    principal = PrincipalText(required=True)
    q = Text(
        max_length=200,
        help_text="A part of the key, ignoring case, or a kind with the start of a key, such as `dataset:sales.or`.",
    )
    kind = KindText(help_text="Only entities of this kind, such as `dataset`.")
    namespace = Text(max_length=200, help_text="Only this namespace and the entities inside it.")
    operation = Text(max_length=70, help_text="Only entities on which this operation is permitted.")
    level = level_field()
    privilege = Choice(choices=PRIVILEGES, help_text="Only entities on which exactly this privilege is held.")


class AccessRows(List):
    """Permitted operations, in the state and at the time of the filters.

    A file has a line for each path, or in JSON Lines for each operation.
    """

    has_objects = True
    file_keys: ClassVar[tuple[str, ...]]

    @cached_property
    def generation(self) -> Generation:
        return (
            generation_by_name(self.filters["generation"])
            if "generation" in self.filters
            else active_generation()
        )

    def identity(self) -> list:
        return [self.name, self.generation.name]

    @property
    def file_name(self) -> str:
        """A name such as `who-can-dataset-sales.orders-final-2026-11-28`: what, with which rules, and when."""
        moment = moment_of_query(self.filters)
        when = (
            f"revision-{moment.revision}"
            if moment.revision and not moment.at
            else f"{moment.at or localtime():%Y-%m-%d}"
        )
        subject = self.filters.get("entity") or self.filters.get("principal")
        return re.sub(r"[^A-Za-z0-9._-]+", "-", f"{self.name}-{subject}-{self.generation.name}-{when}")

    def permissions(self) -> Iterator[Permission]:
        """Yield all permitted operations."""
        raise NotImplementedError

    def all_rows(self) -> Iterator[Permission]:
        """Yield all permitted operations. They are read in the state and at the time of the filters."""
        moment, rows = moment_of_query(self.filters), self.permissions()
        return iterate_at_time(moment.at, rows) if moment.revision is None else _rows_at(moment, rows)

    @classmethod
    def table(cls) -> Table:
        texts = (*cls.file_keys, "operation", "principal", "granted_on", "privilege")
        columns = (Column(name, ColumnType.TEXT) for name in texts)
        ends = Column("only", ColumnType.FLAG), Column("rule", ColumnType.TEXT)
        return Table(cls.name, (*columns, *ends), cls.file_keys)

    def file_rows(self) -> Iterator[dict]:
        return (line for row in self.all_rows() for line in _path_lines(row))

    def filter(self, name: str) -> str:
        return self.filters.get(name, "")


def _rows_at(moment, rows: Iterable[Permission]) -> Iterator[Permission]:
    with at_moment(moment):
        yield from rows


def _path_lines(row: Permission) -> Iterator[dict]:
    line = {"entity": str(row.entity), "user": row.user, "operation": row.operation, "rule": row.rule}
    is_empty = True
    for path in row.ways:
        is_empty = False
        yield line | {
            "principal": path.principal,
            "granted_on": path.entity,
            "privilege": path.privilege,
            "only": path in row.ways.only,
        }
    if is_empty:
        # the operation needs no grant
        yield line | {"principal": "", "granted_on": "", "privilege": "", "only": False}


class WhoCan(AccessRows):
    """The people who can access an entity, or the entities of a container."""

    name = "who-can"
    output = WhoCanSerializer
    filter_fields = WhoCanFilters
    file_keys = ("entity", "user")
    rows_per_read = 200

    @cached_property
    def access(self) -> AccessList:
        address = self.filters["entity"]
        where = PeopleFilter(
            text=self.filter("q"),
            group=self.filter("group"),
            privilege=self.filter("privilege"),
            operation=self.filter("operation"),
            level=self.filter("level"),
            path_kind=self.filter("path"),
            group_namespace=only_namespace(self.account, address),
        )
        return AccessList(
            Target(address, self.filters["contents"], self.filter("kind")),
            self.generation,
            where,
            self.filter("sort") == "-user",
        )

    def page(self, after, max_rows: int):
        """Return a page, and (kind, key, user, operation) of its last row; the operation is None after all those
        of a user.
        """
        rows: list[Permission] = []
        position = None
        if after is not None:
            kind, key, user, operation = after
            position, people = (kind, key, user), self.access.people(Address(kind, key))
            if operation is not None:
                (access,) = access_of_users([user], people.address, self.generation, people.operations)
                others = self._permissions_of([(people.address, people.matching(access))])
                rows += [row for row in others if row.operation > operation]
        while len(rows) <= max_rows:
            page = self.access.page(position, max(10, max_rows // 4))
            rows += self._permissions_of(page.rows)
            position = page.next_position
            if position is None or not page.rows:
                break
        if len(rows) > max_rows:
            last = rows[max_rows - 1]
            return rows[:max_rows], (last.entity.kind, last.entity.key, last.user, last.operation)
        return rows, None if position is None else (*position, None)

    def permissions(self) -> Iterator[Permission]:
        return self._permissions_of(self.access.all_rows(self.rows_per_read), is_complete=True)

    def _permissions_of(self, rows: Iterable, *, is_complete: bool = False) -> Iterator[Permission]:
        return (
            Permission(address, operation, self.generation, ways, access.user, is_complete=is_complete)
            for address, access in rows
            if access is not None
            for operation, ways in access.ways.items()
        )


class WhatCan(AccessRows):
    """The entities and operations that are permitted to a user or group."""

    name = "what-can"
    output = WhatCanSerializer
    filter_fields = WhatCanFilters
    file_keys = ("entity",)

    @cached_property
    def entities(self) -> AccessibleEntities:
        where = EntityFilter(
            text=self.filter("q"),
            kind=self.filter("kind"),
            namespace=self.filter("namespace"),
            privilege=self.filter("privilege"),
            operation=self.filter("operation"),
            level=self.filter("level"),
        )
        return AccessibleEntities.of(
            *parse_principal(self.filters["principal"]),
            self.generation,
            where,
            kinds_in_byte_order(),
            visible_in=None if self.account.can_see_all else active_generation(),
        )

    def page(self, after, max_rows: int):
        """Return a page, and (kind, key, operation) of its last row."""
        rows: list[Permission] = []
        for row in self._rows_after(after, max(10, max_rows // 4)):
            if len(rows) == max_rows:
                last = rows[-1]
                return rows, (last.entity.kind, last.entity.key, last.operation)
            rows.append(row)
        return rows, None

    def _rows_after(self, after, entities_per_read: int) -> Iterator[Permission]:
        address = None
        if after is not None:
            address = Address(after[0], after[1])
            for row in self._permissions_of(self.entities.access_to([address])):
                if row.operation > after[2]:
                    yield row
        yield from self._permissions_of(self.entities.all_rows(address, entities_per_read))

    def permissions(self) -> Iterator[Permission]:
        return self._permissions_of(self.entities.all_rows(), is_complete=True)

    def _permissions_of(self, rows: Iterable, *, is_complete: bool = False) -> Iterator[Permission]:
        return (
            Permission(row.address, operation, self.generation, ways, is_complete=is_complete)
            for row in rows
            for operation, ways in row.ways.items()
        )


class StewardSerializer(output.Output):
    namespace = output.Text(source="address")
    principal = output.Text(
        example="group:marketing-analytics", help_text="The user, or the group whose members are stewards."
    )
    assigned_by = output.Text(example="admin")
    assigned_at = output.Time()
    reason = output.Text(example="owns the data")


class StewardFilters(QuerySerializer):
    namespace = AddressText(help_text="Only stewards of this namespace.")


class Stewards(List):
    """The data stewards of namespaces; for accounts that do not see everything, of those that they steward."""

    name = "stewards"
    output = StewardSerializer
    filter_fields = StewardFilters
    order = ("namespace", "pk")

    def select(self) -> QuerySet[NamespaceSteward]:
        rows = NamespaceSteward.objects.select_related("user", "group")
        if not self.account.can_see_all:
            rows = rows.filter(namespace__in=stewarded_namespaces(self.account))
        if "namespace" in self.filters:
            address = self.filters["namespace"]
            rows = rows.filter(namespace=address.key) if address.kind == "namespace" else rows.none()
        return rows
