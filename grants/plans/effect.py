"""What a plan changes: counted when it is made, and shown by principal and by entity.

Counts stand in `Plan.effect`, so that looking at a plan costs the same whatever its size:
grants, revokes: items that change something. already: items that do not, as it is so already. principals: who gain or lose.
planned: addresses that a grant will register. stranded_none, stranded_one: live entities that nobody or one active user
would administer afterwards, and two or at least one did before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from django.contrib.auth.models import Group
from django.db import connection
from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from entities.address import Address
from entities.models import Entity, State
from entities.selectors import entities_at
from entities.vocabulary import Privilege
from grants.bulk_rows import chunks
from grants.models import GroupGrant, Plan, PlanItem, PlanVerb, User, UserGrant, permission_ids, privilege_of

Tally = dict[tuple[str, Privilege], int]


@dataclass(frozen=True, slots=True)
class PrincipalEffect:
    """What one principal gains and loses: entities by kind and privilege. members: of a group, how many users."""

    principal: str
    gains: Tally = field(default_factory=dict)
    losses: Tally = field(default_factory=dict)
    members: int | None = None


@dataclass(frozen=True, slots=True)
class StrandedEntity:
    """A live entity that fewer than two active users would administer. admins: 0 or 1."""

    address: Address
    admins: int


def changing_items(plan: Plan) -> QuerySet[PlanItem]:
    """The items that change something; of an applied plan, that did."""
    return plan.items.filter(is_noop=False)


def mark_noop_items(plan: Plan) -> None:
    """Mark the items that change nothing now. Three statements."""
    held = Q(principal_type="user") & Q(Exists(_same(UserGrant, user__username=OuterRef("principal_name")))) | (
        Q(principal_type="group") & Q(Exists(_same(GroupGrant, group__name=OuterRef("principal_name")))))
    plan.items.filter(held, verb=PlanVerb.GRANT).update(is_noop=True)
    plan.items.filter(verb=PlanVerb.REVOKE).update(is_noop=True)
    plan.items.filter(held, verb=PlanVerb.REVOKE).update(is_noop=False)


def _same(model: type[UserGrant | GroupGrant], **who) -> QuerySet:
    return model.objects.filter(content_object__kind=OuterRef("kind"), content_object__key=OuterRef("key"),
                                permission_id=OuterRef("permission_id"), **who)


def mark_stranding_items(plan: Plan) -> None:
    """Note on each revocation that strands its entity how many administer it afterwards. One query, and a statement for every
    `bulk.ROWS_PER_STATEMENT` entities."""
    revoked = changing_items(plan).filter(verb=PlanVerb.REVOKE, permission_id=permission_ids()[Privilege.ADMIN])
    by_kind: dict[tuple[int, str], list[str]] = {}
    for admins, kind, key in _stranded_rows(plan):
        by_kind.setdefault((admins, kind), []).append(key)
    for (admins, kind), keys in by_kind.items():
        for chunk in chunks(keys):
            revoked.filter(kind=kind, key__in=chunk).update(admins_left=admins)


def effect_counts(plan: Plan) -> dict[str, int]:
    """The counts, for `Plan.effect`. A fixed number of statements, and one for each thousand addresses to be registered."""
    by_verb = dict(changing_items(plan).order_by().values_list("verb").annotate(Count("pk")))
    stranded = _stranding(plan)
    return {
        "grants": by_verb.get(PlanVerb.GRANT, 0), "revokes": by_verb.get(PlanVerb.REVOKE, 0),
        "already": plan.items.filter(is_noop=True).count(), "principals": len(PrincipalEffects(plan)), "planned": _planned(plan),
        "stranded_none": stranded.filter(admins_left=0).count(), "stranded_one": stranded.filter(admins_left=1).count(),
    }


def _planned(plan: Plan) -> int:
    """Addresses that are not registered and will be, with what contains them."""
    registered = Entity.objects.filter(kind=OuterRef("kind"), key=OuterRef("key"))
    rows = changing_items(plan).filter(~Exists(registered), verb=PlanVerb.GRANT).order_by().values_list("kind", "key").distinct()
    total, around = 0, set()
    for address in (Address(*row) for row in rows.iterator(chunk_size=2_000)):
        total += 1
        around.update(address.ancestors)
    return total + sum(_unplanned(chunk, rows) for chunk in chunks(around))


def _unplanned(containers: list[Address], counted: QuerySet) -> int:
    """How many of these are neither registered nor counted already."""
    missing = set(containers) - entities_at(containers).keys()
    named = counted.filter(key__in={address.key for address in missing}) if missing else ()
    return len(missing - {Address(*row) for row in named})


class PrincipalEffects(Sequence):
    """A `PrincipalEffect` for everybody whose grants change, by name; a slice is a list. Fits a Paginator."""

    def __init__(self, plan: Plan, total: int | None = None):
        """total: how many there are, where that is known."""
        self._total = total
        self._items = changing_items(plan).order_by()
        self._names = self._items.values_list("principal_type", "principal_name").distinct()

    def __len__(self) -> int:
        return self._names.count() if self._total is None else self._total

    def __getitem__(self, place: slice) -> list[PrincipalEffect]:
        found = {name: PrincipalEffect(":".join(name)) for name in
                 self._names.order_by("-principal_type", "principal_name")[place]}
        members = self._members(found)
        for of, name, verb, kind, permission, total in self._tallies(found):
            effect = found[of, name]
            tally = effect.gains if verb == PlanVerb.GRANT else effect.losses
            tally[kind, privilege_of(permission)] = total
        return [PrincipalEffect(effect.principal, effect.gains, effect.losses, members.get(name))
                for name, effect in found.items()]

    def _tallies(self, names) -> QuerySet | tuple:
        some = Q(pk__in=[])
        for of in ("user", "group"):
            some |= Q(principal_type=of, principal_name__in=[name for kind, name in names if kind == of])
        return self._items.filter(some).values_list(
            "principal_type", "principal_name", "verb", "kind", "permission_id").annotate(Count("pk"))

    @staticmethod
    def _members(names) -> dict[tuple[str, str], int]:
        groups = Group.objects.filter(name__in=[name for kind, name in names if kind == "group"])
        return {("group", name): total for name, total in groups.annotate(Count("user")).values_list("name", "user__count")}


def stranded_entities(plan: Plan, *, most_rows: int, first_row: int = 0) -> list[StrandedEntity]:
    """Those that nobody administers afterwards first, then by address. One query."""
    rows = _stranding(plan).order_by("admins_left", "kind", "key")[first_row : first_row + most_rows]
    return [StrandedEntity(Address(kind, key), admins) for admins, kind, key in rows]


def _stranding(plan: Plan) -> QuerySet:
    return plan.items.filter(admins_left__isnull=False).order_by().values_list("admins_left", "kind", "key").distinct()


_ITEM, _ENTITY = PlanItem._meta.db_table, Entity._meta.db_table
_USER, _MEMBER = User._meta.db_table, User.groups.through._meta.db_table
_USER_GRANT, _GROUP_GRANT = UserGrant._meta.db_table, GroupGrant._meta.db_table

# two are enough to know: an entity is stranded where fewer than two are left, and fewer than there were
_BEFORE = f"""
SELECT u.id FROM {_USER_GRANT} g JOIN {_USER} u ON u.id = g.user_id
WHERE g.content_object_id = t.id AND g.permission_id = t.permission_id AND u.is_active AND u.is_principal
UNION
SELECT u.id FROM {_GROUP_GRANT} g JOIN {_MEMBER} m ON m.group_id = g.group_id JOIN {_USER} u ON u.id = m.user_id
WHERE g.content_object_id = t.id AND g.permission_id = t.permission_id AND u.is_active AND u.is_principal"""


def _of_plan(of: str, name: str, verb: str) -> str:
    return (f"i.plan_id = t.plan_id AND i.kind = t.kind AND i.key = t.key AND i.permission_id = t.permission_id "
            f"AND i.principal_type = '{of}' AND i.principal_name = {name} AND i.verb = '{verb}'")


_AFTER = f"""
SELECT u.id FROM {_USER_GRANT} g JOIN {_USER} u ON u.id = g.user_id
WHERE g.content_object_id = t.id AND g.permission_id = t.permission_id AND u.is_active AND u.is_principal
AND NOT EXISTS (SELECT 1 FROM {_ITEM} i WHERE {_of_plan("user", "u.username", "revoke")})
UNION
SELECT u.id FROM {_GROUP_GRANT} g JOIN auth_group o ON o.id = g.group_id JOIN {_MEMBER} m ON m.group_id = g.group_id
JOIN {_USER} u ON u.id = m.user_id
WHERE g.content_object_id = t.id AND g.permission_id = t.permission_id AND u.is_active AND u.is_principal
AND NOT EXISTS (SELECT 1 FROM {_ITEM} i WHERE {_of_plan("group", "o.name", "revoke")})
UNION
SELECT u.id FROM {_ITEM} i JOIN {_USER} u ON {_of_plan("user", "u.username", "grant")} WHERE u.is_active
UNION
SELECT u.id FROM {_ITEM} i JOIN auth_group o ON {_of_plan("group", "o.name", "grant")} JOIN {_MEMBER} m ON m.group_id = o.id
JOIN {_USER} u ON u.id = m.user_id WHERE u.is_active AND u.is_principal"""

_STRANDED = f"""
WITH t AS (
  SELECT DISTINCT e.id, e.kind, e.key, i.plan_id, i.permission_id FROM {_ITEM} i
  JOIN {_ENTITY} e ON e.kind = i.kind AND e.key = i.key
  WHERE i.plan_id = %s AND i.permission_id = %s AND i.verb = '{PlanVerb.REVOKE}' AND NOT i.is_so AND e.state = '{State.LIVE}'
), counted AS (
  SELECT t.kind, t.key, (SELECT count(*) FROM ({_AFTER} LIMIT 2) a) AS admins,
         (SELECT count(*) FROM ({_BEFORE} LIMIT 2) b) AS admins_before FROM t
)
SELECT admins, kind, key FROM counted WHERE admins < admins_before"""


def _stranded_rows(plan: Plan) -> list[tuple[int, str, str]]:
    with connection.cursor() as cursor:
        cursor.execute(_STRANDED, [plan.pk, permission_ids()[Privilege.ADMIN]])
        return cursor.fetchall()
