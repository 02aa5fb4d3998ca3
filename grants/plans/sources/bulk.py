"""Create plans for many entities, which grant or revoke the same privileges for the same principals on each
entity.

Grants that exist already, and revocations of grants that do not exist, are skipped and do not count against
the limit. The plan watches its principals, so it becomes stale when a skipped grant changes.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from django.db.models import Exists, OuterRef, Q, QuerySet

from entities.address import Address, kinds_inside
from entities.frozen import frozen
from entities.models import Entity, State
from entities.selectors import entities_at, entity_at, sorted_by_address, subtree_of
from entities.vocabulary import CONTAINER_KINDS, KINDS, Privilege, privilege_by_name
from grants.change_set import Grant, Revoke
from grants.errors import PlanError
from grants.models import (
    GRANT_VERBS,
    PRINCIPAL_TYPES,
    Plan,
    PlanBreadth,
    PlanItem,
    PlanVerb,
    permission_ids,
)
from grants.plans.create import PlanDraft, PlanOrigin, plan_source
from grants.plans.sources.recipes import read_address
from grants.principal_names import format_principal, grants_of, parse_principal, principals_by_name
from grants.stored_changes import stored_grants
from grants.validity import VALIDITY_COLUMNS, Validity, format_time

MAX_PRINCIPALS = 100
MAX_SELECTED = 500
ROWS_PER_READ = 2_000
_PREPOSITIONS = {PlanVerb.GRANT: "to", PlanVerb.REVOKE: "from"}


@frozen
class BulkChange:
    """The change on each entity: grant each of these privileges to, or revoke it from, each of these
    principals.

    validity: the period of the grants.
    """

    verb: PlanVerb
    principals: tuple[str, ...]
    privileges: tuple[Privilege, ...]
    validity: Validity = Validity()

    def __str__(self) -> str:
        """Return a string such as `Grant READ, WRITE to user:alice and 2 more`."""
        more = f" and {len(self.principals) - 1:,} more" if len(self.principals) > 1 else ""
        privileges = ", ".join(self.privileges)
        period = f" {self.validity.sentence}" if self.validity.is_limited else ""
        return f"{self.verb.value.capitalize()} {privileges} {_PREPOSITIONS[self.verb]} {self.principals[0]}{more}{period}"

    @property
    def recipe(self) -> dict:
        return {
            "verb": self.verb.value,
            "principals": list(self.principals),
            "privileges": list(map(str, self.privileges)),
            **{name: format_time(time) for name, time in self.validity._asdict().items() if time is not None},
        }

    @property
    def existing_condition(self) -> Q:
        """The condition on stored grants that exist as the change wants them: for a grant, with the same
        period.
        """
        return Q(**self.validity._asdict()) if self.verb == PlanVerb.GRANT else Q()

    @classmethod
    def of_recipe(cls, recipe: Mapping) -> "BulkChange":
        return parse_bulk_change(
            verb=recipe["verb"],
            principals=recipe["principals"],
            privileges=recipe["privileges"],
            validity=Validity.parse(*map(recipe.get, VALIDITY_COLUMNS)),
        )


def parse_bulk_change(
    *, verb: str, principals: Iterable[str], privileges: Iterable[str], validity: Validity | None = None
) -> BulkChange:
    """Validate the input and remove repeated principals and privileges.

    validity: the period of the grants. Raise PlanError, PrincipalError, ValidityError or VocabularyError if
    the input is invalid.
    """
    validity = validity if validity is not None and verb == PlanVerb.GRANT else Validity()
    validity.check_not_over()
    if verb not in GRANT_VERBS:
        raise PlanError("neither granting nor revoking is selected: select one of the two")
    principals = tuple(dict.fromkeys(map(format_principal, principals)))
    if not principals:
        raise PlanError("no principal is named: write user:NAME or group:NAME")
    if len(principals) > MAX_PRINCIPALS:
        raise PlanError(
            f"{len(principals):,} principals are named, and {MAX_PRINCIPALS} are allowed: put them into a group, "
            f"and name the group"
        )
    selected = set(map(privilege_by_name, privileges))
    if not selected:
        raise PlanError(f"no privilege is selected: select at least one of {', '.join(Privilege)}")
    return BulkChange(
        PlanVerb(verb),
        principals,
        tuple(privilege for privilege in Privilege if privilege in selected),
        validity,
    )


@plan_source(PlanOrigin.SUBTREE, lambda plan: _inputs_of(plan, "within", "kinds", "itself"))
def subtree_plan(
    *, change: BulkChange, within: Address | str, kinds: Collection[str] | None = None, itself: bool = True
) -> PlanDraft:
    """Return a plan for the entities inside a container, at every depth: live ones, and to revoke also
    planned and deleted ones.

    kinds: include only entities of these kinds; all kinds by default. itself: also include the container.
    Runs one query for each principal. Raise PlanError if the plan cannot be created.
    """
    _check_principals(change)
    address = read_address(within)
    assert address is not None
    kinds = _validated_kinds(address, kinds, itself)
    container = entity_at(address)
    if container is None:
        raise PlanError(
            f"{address} is not registered here: name a registered container, or correct the address"
        )
    entities = changed_entities_of(container, kinds, change.verb, includes_container=itself)
    where = _subtree_text(address, kinds, itself)
    return PlanDraft(
        title=f"{change} {where}",
        breadth=PlanBreadth.NAMESPACES,
        watches=change.principals,
        changes=_plan_changes(change, entities),
        recipe=change.recipe | {"within": str(address), "kinds": kinds, "itself": itself},
        empty_message=_empty_message(change, where),
    )


def _inputs_of(plan: Plan, *names: str) -> dict:
    """Return the change and other members of the recipe."""
    return {"change": BulkChange.of_recipe(plan.recipe), **{name: plan.recipe[name] for name in names}}


def changed_entities_of(
    container: Entity, kinds: Collection[str], verb: str, *, includes_container: bool
) -> QuerySet[Entity]:
    """Return the entities of these kinds inside a container, and optionally the container itself.

    Grants are for live entities only. Revocations are for entities in every state, so that no leftover or
    planned grant remains.
    """
    is_container, entities = Q(pk=container.pk), subtree_of(container)
    if verb != PlanVerb.REVOKE:
        entities = entities.filter(state=State.LIVE)
    if includes_container:
        return entities.filter(Q(kind__in=kinds) | is_container)
    return entities.filter(kind__in=kinds).exclude(is_container)


def existing_grant_count(change: BulkChange, entities: QuerySet[Entity], *, max_counted: int) -> int:
    """Return how many of the grants that a change names exist; at most `max_counted` for each type of
    principal.

    Runs one query for each type of principal.
    """
    permissions = [permission_ids()[privilege] for privilege in change.privileges]
    names: dict[str, list[str]] = {}
    for type_, name in map(parse_principal, change.principals):
        names.setdefault(type_, []).append(name)
    return sum(
        PRINCIPAL_TYPES[type_]
        .grants.filter(
            change.existing_condition,
            **{f"{PRINCIPAL_TYPES[type_].name_path}__in": of_type},
            permission_id__in=permissions,
            content_object__in=entities.order_by().values("pk"),
        )[:max_counted]
        .count()
        for type_, of_type in names.items()
    )


@plan_source(PlanOrigin.SELECTION, lambda plan: _inputs_of(plan) | {"entities": _live_entities_of(plan)})
def selection_plan(
    *, change: BulkChange, addresses: Iterable[Address] = (), entities: QuerySet[Entity] | None = None
) -> PlanDraft:
    """Return a plan for the live entities with these addresses. entities: used instead of addresses.

    Raise PlanError for more than MAX_SELECTED, or for none.
    """
    _check_principals(change)
    if entities is None:
        entities = _live_entities(list(dict.fromkeys(addresses)))
    total = entities.count()
    where = f"on {total:,} selected {'entity' if total == 1 else 'entities'}"
    return PlanDraft(
        title=f"{change} {where}",
        watches=change.principals,
        recipe=change.recipe,
        changes=_plan_changes(change, entities),
        empty_message=_empty_message(change, where),
    )


def _live_entities_of(plan: Plan) -> QuerySet[Entity]:
    """Return the entities of a plan that are live now."""
    items = PlanItem.objects.filter(plan=plan, kind=OuterRef("kind"), key=OuterRef("key"))
    return Entity.objects.filter(Exists(items), state=State.LIVE)


def _empty_message(change: BulkChange, where: str) -> str:
    reason = "all of these grants exist" if change.verb == PlanVerb.GRANT else "none of these grants exists"
    return f"there is nothing to {change.verb} {where}: {reason}"


def _check_principals(change: BulkChange) -> None:
    # Check this first: an unknown principal has no grants, so every grant would seem new and every revocation
    # unnecessary.
    if unknown := sorted(set(change.principals) - principals_by_name(change.principals).keys()):
        names, verb, pronoun = ("name", "does", "it") if len(unknown) == 1 else ("names", "do", "them")
        raise PlanError(f"{', '.join(unknown)} {verb} not exist: add {pronoun} first, or correct the {names}")


def _validated_kinds(within: Address, kinds: Collection[str] | None, includes_container: bool) -> list[str]:
    """Return the selected kinds in the order of the vocabulary.

    Raise PlanError if they are not possible inside `within`.
    """
    if within.kind not in CONTAINER_KINDS:
        raise PlanError(f"{within} is not a container: name the instance, a namespace or an application")
    possible = kinds_inside(within.kind)
    if wrong := [kind for kind in kinds or () if kind not in possible]:
        raise PlanError(
            f"{within} cannot contain entities of kind {wrong[0]}; it can contain {', '.join(possible)}"
        )
    selected = possible if kinds is None else [kind for kind in possible if kind in kinds]
    if not selected and not includes_container:
        raise PlanError(
            f"no kind is selected: select at least one of {', '.join(possible)}, or {within} itself"
        )
    return selected


def _subtree_text(within: Address, kinds: Collection[str], includes_container: bool) -> str:
    """Return a string such as `on namespace:sales and datasets in it`."""
    if not kinds:
        return f"on {within}"
    is_everything = len(kinds) == len(kinds_inside(within.kind))
    content = "everything" if is_everything else ", ".join(KINDS[kind].plural for kind in kinds)
    return f"on {within} and {content} in it" if includes_container else f"on {content} in {within}"


def _live_entities(addresses: list[Address]) -> QuerySet[Entity]:
    """Return the entities with these addresses. Raise PlanError for too many or none, or if one of them is
    not live.
    """
    if not addresses:
        raise PlanError("no entity is selected: select at least one")
    if len(addresses) > MAX_SELECTED:
        raise PlanError(
            f"{len(addresses):,} entities are selected, and {MAX_SELECTED:,} are allowed: select fewer, or "
            f"everything inside a container"
        )
    entities = entities_at(addresses)
    for address in addresses:
        if address not in entities or not entities[address].is_live:
            state = entities[address].state if address in entities else "not registered"
            raise PlanError(
                f"{address} is {state}, and only live entities can be changed together: deselect it"
            )
    return Entity.objects.filter(pk__in=[entity.pk for entity in entities.values()])


def _plan_changes(change: BulkChange, entities: QuerySet[Entity]) -> Iterator[Grant | Revoke]:
    """Yield the changes that have an effect, sorted by principal and address.

    Runs one query for each principal.
    """
    for principal in change.principals:
        if change.verb == PlanVerb.GRANT:
            for address, privilege in _new_grants(principal, change, entities):
                yield Grant(principal, address, privilege, change.validity)
        else:
            yield from (Revoke(*grant.key) for grant in _existing_grants(principal, change, entities))


def _new_grants(
    principal: str, change: BulkChange, entities: QuerySet[Entity]
) -> Iterator[tuple[Address, Privilege]]:
    """Yield the privileges that the principal does not hold yet, or holds for another period."""
    privileges = change.privileges
    grants = grants_of(principal).filter(change.existing_condition, content_object_id=OuterRef("pk"))
    columns = {
        f"holds_{privilege}": Exists(grants.filter(permission_id=permission_ids()[privilege]))
        for privilege in privileges
    }
    rows = sorted_by_address(entities.annotate(**columns).exclude(**dict.fromkeys(columns, True)))
    for entity_kind, key, *holds in rows.values_list("kind", "key", *columns).iterator(
        chunk_size=ROWS_PER_READ
    ):
        address = Address(entity_kind, key)
        yield from (
            (address, privilege) for privilege, is_held in zip(privileges, holds, strict=True) if not is_held
        )


def _existing_grants(principal: str, change: BulkChange, entities: QuerySet[Entity]) -> Iterator[Grant]:
    """Yield the grants of the principal."""
    # start from the grants of the principal, which are far fewer than the entities
    return stored_grants(
        grants_of(principal).filter(
            permission_id__in=[permission_ids()[privilege] for privilege in change.privileges],
            content_object__in=entities.order_by().values("pk"),
        )
    )
