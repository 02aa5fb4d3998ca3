"""The scope of a campaign: which grants and memberships it reviews."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime, timedelta

from django.contrib.auth.models import Group
from django.db.models import Exists, OuterRef, Q, QuerySet

from entities.address import Address
from entities.frozen import frozen
from entities.selectors import entity_at
from entities.vocabulary import KINDS, Privilege, privilege_by_name
from grants.models import (
    Belonging,
    GroupGrant,
    Membership,
    RoleGroup,
    User,
    UserGrant,
    permission_ids,
)
from grants.models.reviews import MEMBERSHIPS, SOURCES_OF_GROUPS, ItemSource, UsageDay
from grants.policies.principals import group_text
from grants.reviews.errors import ReviewError

MAX_UNUSED_DAYS = 3_650
# with those for only the sources of users, and only the sources of groups
_NOUNS = (
    ("grants", ("to users", "to groups"), (ItemSource.USER, ItemSource.GROUP)),
    ("memberships", ("of users", "of groups"), MEMBERSHIPS),
)
REVIEWED_ROWS: Mapping[str, QuerySet] = {
    ItemSource.USER: UserGrant.objects.order_by(),
    ItemSource.GROUP: GroupGrant.objects.order_by(),
    ItemSource.MEMBERSHIP: Membership.objects.order_by(),
    ItemSource.ROLE_GROUP: RoleGroup.objects.order_by(),
}


@frozen
class ReviewScope:
    """The conditions of a scope. All of them must be met; an empty one is always met.

    sources: values of ItemSource. namespace: name of a namespace. user: reviews the grants and memberships of
    this user.
    group: reviews the grants and memberships of this group or role, and its members. unused_days: reviews what was not used in this
    number of days.
    """

    sources: tuple[str, ...] = tuple(ItemSource.values)
    namespace: str = ""
    kinds: tuple[str, ...] = ()
    user: str = ""
    group: str = ""
    privileges: tuple[str, ...] = ()
    unused_days: int = 0

    @property
    def is_about_entities(self) -> bool:
        """Whether a condition excludes memberships."""
        return bool(self.namespace or self.kinds or self.privileges)

    @property
    def reviewed_sources(self) -> tuple[str, ...]:
        """The sources that can have items in this scope."""
        excluded = set(MEMBERSHIPS) if self.is_about_entities else set()
        if self.user:
            excluded.update(SOURCES_OF_GROUPS)
        if self.group:
            excluded.add(ItemSource.USER)
        return tuple(source for source in self.sources if source not in excluded)

    def as_json(self) -> dict:
        """Return the conditions that are set."""
        default = asdict(ReviewScope())
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
            if value != default[name]
        }

    def __str__(self) -> str:
        """Return a text such as `grants of ADMIN on datasets in namespace:sales, not used in 90 days`."""
        texts, possible = [], replace(self, sources=tuple(ItemSource.values)).reviewed_sources
        for noun, holders, sources in _NOUNS:
            found = [source for source in sources if source in self.reviewed_sources]
            is_clear = found == [source for source in sources if source in possible]
            texts += [noun if is_clear else f"{noun} {holders[found[0].is_of_group]}"] if found else []
        text = " and ".join(texts)
        text += f" of {', '.join(self.privileges)}" if self.privileges else ""
        text += f" on {', '.join(KINDS[kind].plural for kind in self.kinds)}" if self.kinds else ""
        text += f" in namespace:{self.namespace}" if self.namespace else ""
        text += f" of user:{self.user}" if self.user else ""
        text += f" of {group_text(self.group)}" if self.group else ""
        return text + (f", not used in {self.unused_days:,} days" if self.unused_days else "")


def parse_scope(data: Mapping) -> ReviewScope:
    """Return the scope of this JSON object.

    Raise ReviewError if a member is unknown or invalid; names are not looked up.
    """
    if unknown := sorted(set(data) - set(ReviewScope.__dataclass_fields__)):
        raise ReviewError(f"`{unknown[0]}` is not a condition of a scope", field="scope")
    values = dict(data)
    for name, allowed in (
        ("sources", ItemSource.values),
        ("kinds", list(KINDS)),
        ("privileges", list(Privilege)),
    ):
        given = values.get(name) or ()
        if name == "privileges":
            given = [privilege_by_name(value).value for value in given]
        if wrong := [value for value in given if value not in allowed]:
            raise ReviewError(f"`{wrong[0]}` is not one of {', '.join(allowed)}", field=name)
        values[name] = tuple(value for value in allowed if value in given)
    values["sources"] = values["sources"] or tuple(ItemSource.values)
    days = values.get("unused_days", 0)
    if not isinstance(days, int) or not 0 <= days <= MAX_UNUSED_DAYS:
        raise ReviewError(f"unused_days must be a number from 0 to {MAX_UNUSED_DAYS:,}", field="unused_days")
    scope = ReviewScope(**values)
    if scope.user and scope.group:
        raise ReviewError("a scope has a user or a group, not both", field="group")
    if not scope.reviewed_sources:
        raise ReviewError(
            "the scope is empty: memberships have no namespace, kind or privilege, a user has no grants to groups "
            "and no memberships of groups in roles, and a group has no grants to users",
            field="sources",
        )
    return scope


def check_scope_names(scope: ReviewScope) -> None:
    """Raise ReviewError if the namespace, user or group of the scope does not exist.

    Runs a query for each.
    """
    if scope.namespace and entity_at(Address("namespace", scope.namespace)) is None:
        raise ReviewError(
            f"namespace:{scope.namespace} is not registered: correct the name", field="namespace"
        )
    if scope.user and not User.objects.filter(username=scope.user).exists():
        raise ReviewError(f"user:{scope.user} does not exist: correct the name", field="user")
    if scope.group and not Group.objects.filter(name=scope.group).exists():
        raise ReviewError(f"{group_text(scope.group)} does not exist: correct the name", field="group")


def reviewed_rows(scope: ReviewScope, source: ItemSource, at: datetime) -> QuerySet:
    """Return the grants or memberships of this source that a scope contains. at: the time of the review."""
    rows: QuerySet = REVIEWED_ROWS[source]
    if scope.user:
        rows = rows.filter(user__username=scope.user)
    if scope.group:
        is_in_role = Q(role__name=scope.group) if source == ItemSource.ROLE_GROUP else Q()
        rows = rows.filter(Q(group__name=scope.group) | is_in_role)
    if scope.namespace:
        rows = rows.filter(namespace__key=scope.namespace)
    if scope.kinds:
        rows = rows.filter(content_object__kind__in=scope.kinds)
    if scope.privileges:
        ids = permission_ids()
        rows = rows.filter(permission__in=[ids[Privilege(name)] for name in scope.privileges])
    if scope.unused_days:
        unused_since = at - timedelta(days=scope.unused_days)
        uses = UsageDay.objects.filter(day__gte=unused_since.date()).order_by()
        for condition in _USE[source]:
            rows = rows.exclude(Exists(uses.filter(condition)))
        if not source.is_membership:
            rows = rows.filter(granted_at__lt=unused_since)
    return rows


_BY_USER = Q(user=OuterRef("user"))
_BY_MEMBERS = Q(
    user__in=Belonging.objects.filter(group=OuterRef(OuterRef("group"))).order_by().values("user")
)
_OF_ENTITY = Q(entity=OuterRef("content_object"))


def _of_grants(**condition: OuterRef) -> Q:
    return Q(entity__in=GroupGrant.objects.filter(**condition).order_by().values("content_object"))


# of a reviewed row: uses of the user, or of a member of the group; those through roles are a query of their own
_USE = {
    ItemSource.USER: (_BY_USER & _OF_ENTITY,),
    ItemSource.GROUP: (_BY_MEMBERS & _OF_ENTITY,),
    ItemSource.MEMBERSHIP: (
        _BY_USER & _of_grants(group=OuterRef(OuterRef("group"))),
        _BY_USER & _of_grants(group__role_groups__group=OuterRef(OuterRef("group"))),
    ),
    ItemSource.ROLE_GROUP: (_BY_MEMBERS & _of_grants(group=OuterRef(OuterRef("role"))),),
}
