"""Compute the effect of a plan: the counts stored with the plan, and the effect on each principal and each entity.

`Plan.effect` stores the counts, so the cost of showing a plan does not depend on its size:

- grants, revokes: items that change something; already: items that change nothing.
- principals: principals that gain or lose a grant.
- planned: addresses that a grant registers as planned.
- stranded_none, stranded_one: live entities that lose administrators and have no or one active administrator afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.contrib.auth.models import Group
from django.db import connection
from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from entities.address import Address
from entities.models import Entity, State
from entities.selectors import entities_at
from entities.vocabulary import MIN_ADMINISTRATORS, Privilege
from grants.bulk_rows import chunks
from grants.models import GroupGrant, Plan, PlanItem, PlanVerb, User, UserGrant, permission_ids, privilege_of
from grants.querysets import active_principal_sql

Tally = dict[tuple[str, Privilege], int]


@dataclass(frozen=True, slots=True)
class PrincipalEffect:
    """For one principal: on how many entities it gains and loses each privilege, by kind and privilege.

    members: the number of users in a group; None for a user.
    """

    principal: str
    gains: Tally = field(default_factory=dict)
    losses: Tally = field(default_factory=dict)
    members: int | None = None


@dataclass(frozen=True, slots=True)
class StrandedByPlan:
    """A live entity that a plan leaves with fewer than two active administrators. admin_count: 0 or 1."""

    address: Address
    admin_count: int


def changing_items(plan: Plan) -> QuerySet[PlanItem]:
    """Return the items that change something; of an applied plan, the items that changed something."""
    return plan.items.filter(is_noop=False)


def mark_noop_items(plan: Plan) -> None:
    """Mark the items that would change nothing now: grants that exist already, and revocations of grants that do not exist.

    Runs three statements.
    """
    user_grants = _grants_of_item(UserGrant, user__username=OuterRef("principal_name"))
    group_grants = _grants_of_item(GroupGrant, group__name=OuterRef("principal_name"))
    is_held = Q(principal_type="user") & Q(Exists(user_grants)) | Q(principal_type="group") & Q(Exists(group_grants))
    plan.items.filter(is_held, verb=PlanVerb.GRANT).update(is_noop=True)
    plan.items.filter(verb=PlanVerb.REVOKE).update(is_noop=True)
    plan.items.filter(is_held, verb=PlanVerb.REVOKE).update(is_noop=False)


def _grants_of_item(model: type[UserGrant | GroupGrant], **principal) -> QuerySet:
    """Return the subquery of the grants with the address, privilege and principal of the outer item."""
    return model.objects.filter(content_object__kind=OuterRef("kind"), content_object__key=OuterRef("key"),
                                permission_id=OuterRef("permission_id"), **principal)


def mark_stranding_items(plan: Plan) -> None:
    """Store on each revocation that strands its entity how many administrators remain.

    Runs one query, and a statement for every `bulk_rows.ROWS_PER_STATEMENT` entities.
    """
    revoked = changing_items(plan).filter(verb=PlanVerb.REVOKE, permission_id=permission_ids()[Privilege.ADMIN])
    by_kind: dict[tuple[int, str], list[str]] = {}
    for admins, kind, key in _stranded_rows(plan):
        by_kind.setdefault((admins, kind), []).append(key)
    for (admins, kind), keys in by_kind.items():
        for chunk in chunks(keys):
            revoked.filter(kind=kind, key__in=chunk).update(admins_left=admins)


def effect_counts(plan: Plan) -> dict[str, int]:
    """Return the counts for `Plan.effect`.

    A fixed number of statements, and one more for each thousand addresses that will be registered.
    """
    by_verb = dict(changing_items(plan).order_by().values_list("verb").annotate(Count("pk")))
    stranded = _stranded_values(plan)
    return {
        "grants": by_verb.get(PlanVerb.GRANT, 0), "revokes": by_verb.get(PlanVerb.REVOKE, 0),
        "already": plan.items.filter(is_noop=True).count(), "principals": len(PrincipalEffects(plan)),
        "planned": _planned_count(plan),
        "stranded_none": stranded.filter(admins_left=0).count(), "stranded_one": stranded.filter(admins_left=1).count(),
    }


def _planned_count(plan: Plan) -> int:
    """Return the number of addresses, including containers, that are registered when the plan is applied."""
    registered = Entity.objects.filter(kind=OuterRef("kind"), key=OuterRef("key"))
    rows = changing_items(plan).filter(~Exists(registered), verb=PlanVerb.GRANT).order_by().values_list("kind", "key").distinct()
    total, containers = 0, set()
    for address in (Address(*row) for row in rows.iterator(chunk_size=2_000)):
        total += 1
        containers.update(address.ancestors)
    return total + sum(_uncounted_containers(chunk, rows) for chunk in chunks(containers))


def _uncounted_containers(containers: list[Address], counted: QuerySet) -> int:
    """Return how many of the containers are neither registered nor in `counted`."""
    unregistered = set(containers) - entities_at(containers).keys()
    counted_rows = counted.filter(key__in={address.key for address in unregistered}) if unregistered else ()
    return len(unregistered - {Address(*row) for row in counted_rows})


class PrincipalEffects(Sequence):
    """The `PrincipalEffect` of each principal that gains or loses a grant: users first, by name.

    A slice is a list, so a Paginator can use this sequence.
    """

    def __init__(self, plan: Plan, total: int | None = None):
        """Create the sequence. total: its length, if it is known; otherwise it is counted when it is needed."""
        self._total = total
        self._items = changing_items(plan).order_by()
        self._names = self._items.values_list("principal_type", "principal_name").distinct()

    def __len__(self) -> int:
        return self._names.count() if self._total is None else self._total

    def __getitem__(self, positions: slice) -> list[PrincipalEffect]:
        names = self._names.order_by("-principal_type", "principal_name")[positions]
        effects = {name: PrincipalEffect(":".join(name)) for name in names}
        members = self._member_counts(effects)
        for principal_type, name, verb, kind, permission, total in self._tallies(effects):
            effect = effects[principal_type, name]
            tally = effect.gains if verb == PlanVerb.GRANT else effect.losses
            tally[kind, privilege_of(permission)] = total
        return [PrincipalEffect(effect.principal, effect.gains, effect.losses, members.get(name))
                for name, effect in effects.items()]

    def _tallies(self, names) -> QuerySet:
        """Return the number of items of these principals by principal, verb, kind and permission."""
        is_listed = Q(pk__in=[])
        for principal_type in ("user", "group"):
            is_listed |= Q(principal_type=principal_type,
                           principal_name__in=[name for type_, name in names if type_ == principal_type])
        return self._items.filter(is_listed).values_list(
            "principal_type", "principal_name", "verb", "kind", "permission_id").annotate(Count("pk"))

    @staticmethod
    def _member_counts(names) -> dict[tuple[str, str], int]:
        groups = Group.objects.filter(name__in=[name for kind, name in names if kind == "group"])
        return {("group", name): total for name, total in groups.annotate(Count("user")).values_list("name", "user__count")}


def stranded_entities(plan: Plan, *, max_rows: int, first_row: int = 0) -> list[StrandedByPlan]:
    """Return a page of the entities that the plan strands. Entities without an administrator come first. Runs one query."""
    rows = _stranded_values(plan).order_by("admins_left", "kind", "key")[first_row : first_row + max_rows]
    return [StrandedByPlan(Address(kind, key), admins) for admins, kind, key in rows]


def _stranded_values(plan: Plan) -> QuerySet:
    return plan.items.filter(admins_left__isnull=False).order_by().values_list("admins_left", "kind", "key").distinct()


_ITEM, _ENTITY = PlanItem._meta.db_table, Entity._meta.db_table
_USER, _MEMBER = User._meta.db_table, User.groups.through._meta.db_table
_USER_GRANT, _GROUP_GRANT = UserGrant._meta.db_table, GroupGrant._meta.db_table

_IS_ACTIVE_PRINCIPAL = active_principal_sql("u")

# The queries count at most two administrators of each entity. The plan strands an entity if fewer than two remain, and fewer than
# before.
_BEFORE = f"""
SELECT u.id FROM {_USER_GRANT} g JOIN {_USER} u ON u.id = g.user_id
WHERE g.content_object_id = t.id AND g.permission_id = t.permission_id AND {_IS_ACTIVE_PRINCIPAL}
UNION
SELECT u.id FROM {_GROUP_GRANT} g JOIN {_MEMBER} m ON m.group_id = g.group_id JOIN {_USER} u ON u.id = m.user_id
WHERE g.content_object_id = t.id AND g.permission_id = t.permission_id AND {_IS_ACTIVE_PRINCIPAL}"""


def _item_condition(principal_type: str, name: str, verb: str) -> str:
    """Return the SQL condition that item `i` is an item of the plan of `t`, for the entity of `t` and this principal and verb."""
    return (f"i.plan_id = t.plan_id AND i.kind = t.kind AND i.key = t.key AND i.permission_id = t.permission_id "
            f"AND i.principal_type = '{principal_type}' AND i.principal_name = {name} AND i.verb = '{verb}'")


_AFTER = f"""
SELECT u.id FROM {_USER_GRANT} g JOIN {_USER} u ON u.id = g.user_id
WHERE g.content_object_id = t.id AND g.permission_id = t.permission_id AND {_IS_ACTIVE_PRINCIPAL}
AND NOT EXISTS (SELECT 1 FROM {_ITEM} i WHERE {_item_condition("user", "u.username", "revoke")})
UNION
SELECT u.id FROM {_GROUP_GRANT} g JOIN auth_group o ON o.id = g.group_id JOIN {_MEMBER} m ON m.group_id = g.group_id
JOIN {_USER} u ON u.id = m.user_id
WHERE g.content_object_id = t.id AND g.permission_id = t.permission_id AND {_IS_ACTIVE_PRINCIPAL}
AND NOT EXISTS (SELECT 1 FROM {_ITEM} i WHERE {_item_condition("group", "o.name", "revoke")})
UNION
SELECT u.id FROM {_ITEM} i JOIN {_USER} u ON {_item_condition("user", "u.username", "grant")} WHERE u.is_active
UNION
SELECT u.id FROM {_ITEM} i JOIN auth_group o ON {_item_condition("group", "o.name", "grant")}
JOIN {_MEMBER} m ON m.group_id = o.id JOIN {_USER} u ON u.id = m.user_id WHERE {_IS_ACTIVE_PRINCIPAL}"""

_STRANDED = f"""
WITH t AS (
  SELECT DISTINCT e.id, e.kind, e.key, i.plan_id, i.permission_id FROM {_ITEM} i
  JOIN {_ENTITY} e ON e.kind = i.kind AND e.key = i.key
  WHERE i.plan_id = %s AND i.permission_id = %s AND i.verb = '{PlanVerb.REVOKE}' AND NOT i.is_so AND e.state = '{State.LIVE}'
), counted AS (
  SELECT t.kind, t.key, (SELECT count(*) FROM ({_AFTER} LIMIT {MIN_ADMINISTRATORS}) a) AS admins,
         (SELECT count(*) FROM ({_BEFORE} LIMIT {MIN_ADMINISTRATORS}) b) AS admins_before FROM t
)
SELECT admins, kind, key FROM counted WHERE admins < admins_before"""


def _stranded_rows(plan: Plan) -> list[tuple[int, str, str]]:
    """Return (number of remaining administrators, kind, key) of each entity that the plan strands. Runs one query."""
    with connection.cursor() as cursor:
        cursor.execute(_STRANDED, [plan.pk, permission_ids()[Privilege.ADMIN]])
        return cursor.fetchall()
