"""Plans for many live entities at once: the same privileges granted to, or revoked from, the same principals on each.

What is so already is left out, so that only what changes counts against the limit; the principals are watched, so that a
plan is refused where what was left out is so no longer.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, Q, QuerySet

from entities.address import Address, ancestor_kinds, parse_address
from entities.models import Entity, State
from entities.selectors import entities_at, entity_at, sorted_by_address, subtree_of
from entities.vocabulary import CONTAINER_KINDS, KINDS, Privilege, privilege_by_name
from grants.errors import PlanError
from grants.journal import Author, current_revision
from grants.models import GRANT_TABLES, NAME_COLUMNS, Plan, PlanBreadth, PlanItem, PlanVerb, permission_ids, privilege_of
from grants.plans.create import PlanChange, PlanDraft, create_plan
from grants.principal_names import format_principal, parse_principal
from grants.principal_rows import principals_by_name

SUBTREE, SELECTION = "subtree", "selection"
MAX_PRINCIPALS = 100
MAX_SELECTED = 500
ROWS_AT_ONCE = 2_000
_TO = {PlanVerb.GRANT: "to", PlanVerb.REVOKE: "from"}


@dataclass(frozen=True, slots=True)
class BulkChange:
    """What shall become of each entity: each of these privileges granted to, or revoked from, each of these principals."""

    verb: PlanVerb
    principals: tuple[str, ...]
    privileges: tuple[Privilege, ...]

    def __str__(self) -> str:
        """`Grant READ, WRITE to user:alice and 2 more`."""
        more = f" and {len(self.principals) - 1:,} more" if len(self.principals) > 1 else ""
        return (f"{self.verb.value.capitalize()} {', '.join(self.privileges)} {_TO[self.verb]} "
                f"{self.principals[0]}{more}")

    @property
    def recipe(self) -> dict:
        return {"verb": self.verb.value, "principals": list(self.principals), "privileges": list(map(str, self.privileges))}


def parse_bulk_change(*, verb: str, principals: Iterable[str], privileges: Iterable[str]) -> BulkChange:
    """Each of the given ones once. Raises PlanError, PrincipalError, VocabularyError."""
    if verb not in PlanVerb.values:
        raise PlanError("neither granting nor revoking is chosen: choose one of the two")
    principals = tuple(dict.fromkeys(map(format_principal, principals)))
    if not principals:
        raise PlanError("no principal is named: write user:NAME or group:NAME")
    if len(principals) > MAX_PRINCIPALS:
        raise PlanError(f"{len(principals):,} principals are named, and {MAX_PRINCIPALS} are allowed: put them into a group, "
                        f"and name the group")
    chosen = set(map(privilege_by_name, privileges))
    if not chosen:
        raise PlanError(f"no privilege is chosen: choose at least one of {', '.join(Privilege)}")
    return BulkChange(PlanVerb(verb), principals, tuple(privilege for privilege in Privilege if privilege in chosen))


def kinds_inside(container: str) -> list[str]:
    """The kinds that lie in a container of that kind, at any depth, in the order of the vocabulary."""
    return [kind for kind in KINDS if container in ancestor_kinds(kind)]


def create_subtree_plan(*, author: Author, change: BulkChange, within: Address, kinds: Collection[str] | None = None,
                    itself: bool = True, renewal_of: Plan | None = None) -> Plan:
    """For the live entities of these kinds inside a container, at every depth. kinds: all that lie in it unless given.
    itself: and for the container. One query for each principal besides what `create_plan` takes. Raises PlanError."""
    revision = current_revision()
    _check_known(change)
    kinds = _kinds_checked(within, kinds, itself)
    container = entity_at(within)
    if container is None:
        raise PlanError(f"{within} is not registered here: name a container that is, or correct the address")
    own = Q(pk=container.pk)
    rows = subtree_of(container).filter(state=State.LIVE)
    rows = rows.filter(Q(kind__in=kinds) | own) if itself else rows.filter(kind__in=kinds).exclude(own)
    return create_plan(author=author, draft=PlanDraft(
        title=f"{change} {_where(within, kinds, itself)}", origin=SUBTREE, base_revision=revision,
        breadth=PlanBreadth.NAMESPACES, watches=change.principals, changes=_changes(change, rows), renewal_of=renewal_of,
        recipe=change.recipe | {"within": str(within), "kinds": kinds, "itself": itself},
        nothing=f"there is nothing to {change.verb} {_where(within, kinds, itself)}: it is so already on all that is live"))


def create_selection_plan(*, author: Author, change: BulkChange, addresses: Iterable[Address]) -> Plan:
    """For these live entities, at most MAX_SELECTED. Raises PlanError."""
    revision, addresses = current_revision(), list(dict.fromkeys(addresses))
    _check_known(change)
    if not addresses:
        raise PlanError("no entity is chosen: choose at least one")
    if len(addresses) > MAX_SELECTED:
        raise PlanError(f"{len(addresses):,} entities are chosen, and {MAX_SELECTED:,} are allowed: choose fewer, or all "
                        f"that lie in a container")
    rows = _live(addresses)
    return _plan_of_rows(author, change, rows, revision, _chosen(len(addresses)))


def plan_of_selection_again(*, author: Author, plan: Plan) -> Plan:
    """For those entities of a plan that are live now."""
    recipe, revision = plan.recipe, current_revision()
    change = parse_bulk_change(**{name: recipe[name] for name in ("verb", "principals", "privileges")})
    _check_known(change)
    rows = Entity.objects.filter(Exists(PlanItem.objects.filter(plan=plan, kind=OuterRef("kind"), key=OuterRef("key"))),
                                 state=State.LIVE)
    return _plan_of_rows(author, change, rows, revision, _chosen(rows.count()), renewal_of=plan)


def plan_of_subtree_again(*, author: Author, plan: Plan) -> Plan:
    recipe = plan.recipe
    change = parse_bulk_change(**{name: recipe[name] for name in ("verb", "principals", "privileges")})
    return create_subtree_plan(author=author, change=change, within=parse_address(recipe["within"]), kinds=recipe["kinds"],
                           itself=recipe["itself"], renewal_of=plan)


def _plan_of_rows(author: Author, change: BulkChange, rows: QuerySet[Entity], revision: int, where: str,
                  renewal_of: Plan | None = None) -> Plan:
    return create_plan(author=author, draft=PlanDraft(
        title=f"{change} {where}", origin=SELECTION, base_revision=revision, watches=change.principals, recipe=change.recipe,
        changes=_changes(change, rows), renewal_of=renewal_of,
        nothing=f"there is nothing to {change.verb} {where}: it is so already"))


def _check_known(change: BulkChange) -> None:
    # first: of somebody unknown nothing is held, which would look like something to do, or like nothing
    if unknown := sorted(set(change.principals) - principals_by_name(change.principals).keys()):
        raise PlanError(f"{', '.join(unknown)} {'is' if len(unknown) == 1 else 'are'} not known here: add first, or correct the "
                        f"name")


def _kinds_checked(within: Address, kinds: Collection[str] | None, itself: bool) -> list[str]:
    if within.kind not in CONTAINER_KINDS:
        raise PlanError(f"nothing lies in {within}: name the instance, a namespace or an application")
    inside = kinds_inside(within.kind)
    if wrong := [kind for kind in kinds or () if kind not in inside]:
        raise PlanError(f"no {wrong[0]} lies in {within}; in it lie {', '.join(inside)}")
    found = inside if kinds is None else [kind for kind in inside if kind in kinds]
    if not found and not itself:
        raise PlanError(f"no kind is chosen: choose at least one of {', '.join(inside)}, or {within} itself")
    return found


def _where(within: Address, kinds: Collection[str], itself: bool) -> str:
    if not kinds:
        return f"on {within}"
    what = "everything" if len(kinds) == len(kinds_inside(within.kind)) else ", ".join(KINDS[kind].plural for kind in kinds)
    return f"on {f'{within} and ' if itself else ''}{what} in {'it' if itself else within}"


def _chosen(total: int) -> str:
    return f"on {total:,} chosen {'entity' if total == 1 else 'entities'}"


def _live(addresses: list[Address]) -> QuerySet[Entity]:
    entities = entities_at(addresses)
    for address in addresses:
        if address not in entities or not entities[address].is_live:
            state = entities[address].state if address in entities else "not registered"
            raise PlanError(f"{address} is {state}, and only live entities are changed together: leave it out")
    return Entity.objects.filter(pk__in=[entity.pk for entity in entities.values()])


def _changes(change: BulkChange, rows: QuerySet[Entity]) -> Iterator[PlanChange]:
    """Principal by principal, each by address; only what changes something."""
    changed = _to_grant if change.verb == PlanVerb.GRANT else _to_revoke
    for principal in change.principals:
        for address, privilege in changed(principal, change.privileges, rows):
            yield change.verb.value, principal, address, privilege


def _to_grant(principal: str, privileges: Iterable[Privilege], rows: QuerySet[Entity]) -> Iterator[tuple[Address, Privilege]]:
    kind, name = parse_principal(principal)
    grants = GRANT_TABLES[kind][0].objects.filter(**{NAME_COLUMNS[kind]: name}, content_object_id=OuterRef("pk"))
    held = {f"holds_{privilege}": Exists(grants.filter(permission_id=permission_ids()[privilege])) for privilege in privileges}
    found = sorted_by_address(rows.annotate(**held).exclude(**dict.fromkeys(held, True)))
    for key_of_entity in found.values_list("kind", "key", *held).iterator(chunk_size=ROWS_AT_ONCE):
        address = Address(*key_of_entity[:2])
        yield from ((address, privilege) for privilege, holds in zip(privileges, key_of_entity[2:], strict=True) if not holds)


def _to_revoke(principal: str, privileges: Iterable[Privilege], rows: QuerySet[Entity]) -> Iterator[tuple[Address, Privilege]]:
    kind, name = parse_principal(principal)
    # from what is held: much less than what there is
    grants = GRANT_TABLES[kind][0].objects.filter(
        **{NAME_COLUMNS[kind]: name}, permission_id__in=[permission_ids()[privilege] for privilege in privileges],
        content_object__in=rows.order_by().values("pk"))
    found = grants.order_by("content_object__kind", "content_object__key", "permission_id").values_list(
        "content_object__kind", "content_object__key", "permission_id")
    for *key_of_entity, permission in found.iterator(chunk_size=ROWS_AT_ONCE):
        yield Address(*key_of_entity), privilege_of(permission)
