"""The scope of a campaign: which grants and memberships it reviews."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import Group
from django.db.models import Exists, OuterRef, Q, QuerySet

from entities.address import Address
from entities.selectors import entity_at
from entities.vocabulary import KINDS, Privilege, privilege_by_name
from grants.models import (
    Belonging,
    GroupGrant,
    Membership,
    User,
    UserGrant,
    permission_ids,
)
from grants.models.reviews import ItemSource, UsageDay
from grants.policies.principals import group_text
from grants.reviews.errors import ReviewError

MAX_UNUSED_DAYS = 3_650
SOURCES_OF_ENTITIES = (ItemSource.USER, ItemSource.GROUP)
REVIEWED_ROWS: Mapping[str, QuerySet] = {
    ItemSource.USER: UserGrant.objects.order_by(),
    ItemSource.GROUP: GroupGrant.objects.order_by(),
    ItemSource.MEMBERSHIP: Membership.objects.order_by(),
}


@dataclass(frozen=True, slots=True)
class ReviewScope:
    """The conditions of a scope. All of them must be met; an empty one is always met.

    sources: values of ItemSource. namespace: name of a namespace. user: reviews the grants and memberships of
    this user.
    group: reviews the grants and memberships of this group. unused_days: reviews what was not used in this
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
        excluded = {ItemSource.MEMBERSHIP} if self.is_about_entities else set()
        if self.user:
            excluded.add(ItemSource.GROUP)
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
        """Return a text such as `direct grants of ADMIN on datasets in namespace:sales, not used in 90 days`."""
        nouns = {
            ItemSource.USER: "grants to users",
            ItemSource.GROUP: "grants to groups",
            ItemSource.MEMBERSHIP: "memberships",
        }
        sources = self.reviewed_sources
        if set(SOURCES_OF_ENTITIES) <= set(sources):
            nouns, sources = (
                nouns | {ItemSource.USER: "grants"},
                tuple(s for s in sources if s != ItemSource.GROUP),
            )
        text = " and ".join(nouns[ItemSource(source)] for source in sources)
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
            "the scope is empty: memberships have no namespace, kind or privilege, a user has no grants to groups, "
            "and a group has no grants to users",
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
        rows = rows.filter(group__name=scope.group)
    if scope.namespace:
        rows = rows.filter(namespace__key=scope.namespace)
    if scope.kinds:
        rows = rows.filter(content_object__kind__in=scope.kinds)
    if scope.privileges:
        ids = permission_ids()
        rows = rows.filter(permission__in=[ids[Privilege(name)] for name in scope.privileges])
    if scope.unused_days:
        unused_since = at - timedelta(days=scope.unused_days)
        uses = UsageDay.objects.filter(_USE[source], day__gte=unused_since.date()).order_by()
        rows = rows.exclude(Exists(uses))
        if source != ItemSource.MEMBERSHIP:
            rows = rows.filter(granted_at__lt=unused_since)
    return rows


# of a reviewed row: uses of the user, or of a member of the group
_USE = {
    ItemSource.USER: Q(user=OuterRef("user"), entity=OuterRef("content_object")),
    ItemSource.GROUP: Q(
        entity=OuterRef("content_object"),
        user__in=Belonging.objects.filter(group=OuterRef(OuterRef("group"))).order_by().values("user"),
    ),
    ItemSource.MEMBERSHIP: Q(
        user=OuterRef("user"),
        entity__in=GroupGrant.objects.filter(group=OuterRef(OuterRef("group")))
        .order_by()
        .values("content_object"),
    ),
}
