"""The number of entities and grants that the form of a bulk change selects, before its plan is created."""

from collections.abc import Mapping

from django.db.models import QuerySet

from authzconsole.web.shared.times.periods import period_of_form
from entities.address import AddressError, parse_address
from entities.models import Entity
from entities.selectors import entities_at
from entities.vocabulary import VocabularyError, quantity
from grants.errors import GrantError
from grants.models import PlanVerb
from grants.plans.create import MAX_PLAN_ITEMS
from grants.plans.sources.bulk import BulkChange, changed_entities_of, existing_grant_count, parse_bulk_change
from grants.validity import Validity

# existing grants are not counted further; the plan itself counts them all
MAX_GRANTS_COUNTED = 50_000


def change_of_form(form: dict) -> BulkChange:
    """Return the change that the form describes.

    Raise GrantError or VocabularyError if it is incomplete or invalid.
    """
    # Names may begin or end with a space. Only blank lines are skipped.
    names = [name for name in (form["principal"], *form["more"].splitlines()) if name.strip()]
    validity = period_of_form(form) if form["verb"] == PlanVerb.GRANT else Validity()
    return parse_bulk_change(
        verb=form["verb"], principals=names, privileges=form["privileges"], validity=validity
    )


def subtree_count(form: dict, container: Entity, counts: Mapping[str, int] | None) -> str:
    """Describe what the form selects inside a container. counts: live entities by kind; None if they are too
    many to count.
    """
    if not form["kinds"] and not form["itself"]:
        return "Nothing is selected."
    if counts is None:
        return "The plan counts the selected entities."
    total = sum(counts.get(kind, 0) for kind in form["kinds"]) + (form["itself"] and container.is_live)
    entities = changed_entities_of(container, form["kinds"], form["verb"], includes_container=form["itself"])
    return _text(form, total, entities)


def selection_count(form: dict) -> str:
    """Describe what the form selects among addresses.

    Addresses that are invalid or not live are not counted.
    """
    addresses = []
    for text in form["addresses"]:
        try:
            addresses.append(parse_address(text))
        except AddressError:
            continue
    live = [entity.pk for entity in entities_at(addresses).values() if entity.is_live]
    return _text(form, len(live), Entity.objects.filter(pk__in=live))


def _text(form: dict, total: int, entities: QuerySet[Entity]) -> str:
    selected = f"{quantity(total, 'entity', 'entities')} selected"
    try:
        change = change_of_form(form)
    except (GrantError, VocabularyError):
        return f"{selected}."
    existing = existing_grant_count(change, entities, max_counted=MAX_GRANTS_COUNTED)
    if existing >= MAX_GRANTS_COUNTED:
        return f"{selected}. The plan counts the changes."
    missing = total * len(change.principals) * len(change.privileges) - existing
    changes = missing if change.verb == PlanVerb.GRANT else existing
    limit = f" A plan can contain at most {MAX_PLAN_ITEMS:,} changes." if changes > MAX_PLAN_ITEMS else ""
    if change.verb == PlanVerb.GRANT:
        return f"{selected}: {quantity(missing, 'grant', 'grants')} to add, {existing:,} already held.{limit}"
    return f"{selected}: {quantity(existing, 'grant', 'grants')} to revoke, {missing:,} not held.{limit}"
