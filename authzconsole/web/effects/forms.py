"""The effect in the forms that make a change: what it shows, and how a form makes the change only as it was
shown.

A view renders `effects/_change_effect.html` with `effect_context` inside its form, and calls
`grants.changes.apply` with `shown_effect`. If that raises one of `NOT_AS_SHOWN`, the view renders the form
again with the preview of the error.
"""

from collections.abc import Collection
from itertools import groupby
from urllib.parse import urlencode

from django.http import HttpRequest

from authzconsole.common.messages import as_sentence
from authzconsole.web.effects.runs import change_run_context, effect_parameters, effect_url
from authzconsole.web.effects.wording import (
    button_numbers,
    consequence_sentences,
    effect_sentence,
    later_beginnings_sentence,
    tally_phrases,
    time_title,
)
from authzconsole.web.shared.links import address_link_to, principal_link_from_text
from authzconsole.web.shared.stranding_warning import StrandingWarning
from entities.address import parse_address
from grants.changes import ChangeSet, Preview, Shown, preview
from grants.effects.effect import EffectRow, RowFilter
from grants.effects.known_effect import KnownEffect
from grants.errors import EffectChanged, EffectNotShown, PrincipalError
from grants.principal_rows import principals_by_name

MAX_LINES = 4
# operations in one line
MAX_OPERATIONS = 6
MAX_TOP = 5
NOT_AS_SHOWN = (EffectChanged, EffectNotShown)


def effect_context(
    request: HttpRequest,
    changes: ChangeSet | Preview,
    stranding: StrandingWarning | None = None,
    *,
    has_forecast: bool = False,
) -> dict:
    """Return the context of `effects/_change_effect.html` for changes that are not made yet.

    changes: the changes, or their preview if it is known. stranding: the entities that lose administrators;
    None if none can.
    has_forecast: whether the form itself names leftover grants and the sessions and tokens that end.
    Accounts that do not see everything get the numbers without names.
    """
    shown = changes if isinstance(changes, Preview) else preview(changes)
    context = {
        "digest": shown.digest,
        "identity": shown.change_set.identity,
        "stranding": stranding,
        "consequences": [] if has_forecast else list(consequence_sentences(shown.consequences)),
    }
    if shown.too_large is not None and request.user.can_see_all:
        query = urlencode([*effect_parameters(shown), *([("forecast", "1")] if has_forecast else [])])
        context["run"] = change_run_context(request, shown) | {"query": query}
    if shown.effect is None:
        is_known_to_run = "run" in context and context["run"]["compute_url"]
        sentence = (
            f"The effect is not known: {context['run']['reach']}" if is_known_to_run else str(shown.too_large)
        )
        return context | {"is_wide": True, "sentence": as_sentence(sentence)}
    context |= {
        "sentence": effect_sentence(shown.effect),
        "later": later_beginnings_sentence(shown.effect),
        "is_wide": any(effect.tally.beyond for effect in shown.effect.times or [shown.effect]),
        "times": [
            (time_title(number, effect), effect_sentence(effect))
            for number, effect in enumerate(shown.effect.times)
        ],
        "numbers": button_numbers(shown.effect.tally),
    }
    if not request.user.can_see_all:
        return context
    # the rows of a run are in files; the most affected people and entities are in its summary
    lines = _first_lines(shown.effect) if shown.too_large is None else []
    listed = sum(len(line["operations"]) + line["more"] for line in lines)
    return context | {
        "total": shown.effect.tally.total,
        "lines": lines,
        "has_more": shown.effect.tally.total > listed,
        "tops": top_lists(shown.effect, MAX_TOP),
        "url": effect_url(shown.change_set.texts),
    }


def effect_context_if_known(
    request: HttpRequest,
    changes: ChangeSet,
    principals: Collection[str],
    stranding: StrandingWarning | None = None,
    *,
    has_forecast: bool = False,
) -> dict | None:
    """Return the context of `effect_context`; None while one of the principals is unknown.

    Runs two more queries.
    """
    try:
        is_known = len(principals_by_name(principals)) == len(set(principals))
    except PrincipalError:
        return None
    return effect_context(request, changes, stranding, has_forecast=has_forecast) if is_known else None


def shown_effect(request: HttpRequest) -> Shown:
    """Return the effect that the posted form showed, for `apply`.

    A form that showed no effect makes only changes with an obvious effect.
    """
    return Shown(request.POST.get("effect", ""), request.POST.get("effect_of"), is_required=True)


def refusal_text(error: EffectChanged | EffectNotShown) -> tuple[str, int]:
    """Return the fault and the status with which a form is shown again; the fault is empty if nothing was
    wrong.
    """
    return (f"Nothing was changed: {error}.", 409) if isinstance(error, EffectChanged) else ("", 200)


def _first_lines(effect: KnownEffect) -> list[dict]:
    """Return the first changed permissions, those beyond the purpose first: one line for each user and
    entity.
    """
    rows = (row for purpose in ("beyond", "for") for row in effect.rows(RowFilter(purpose=purpose)))
    lines = []
    for (user, entity, is_gain, is_intended), group in groupby(
        rows, lambda row: (row.user, row.entity, row.after, row.intended)
    ):
        if len(lines) == MAX_LINES:
            break
        operations = [row.operation for row in group]
        lines.append(
            {
                "principal": principal_link_from_text(f"user:{user}"),
                "is_gain": is_gain,
                "is_intended": is_intended,
                "address_link": address_link_to(parse_address(entity)),
                "operations": operations[:MAX_OPERATIONS],
                "more": max(0, len(operations) - MAX_OPERATIONS),
            }
        )
    return lines


def effect_row(row: EffectRow) -> dict:
    return {
        "row": row,
        "principal": principal_link_from_text(f"user:{row.user}"),
        "address_link": address_link_to(parse_address(row.entity)),
    }


def top_lists(effect: KnownEffect, max_rows: int) -> dict:
    """Return the most affected people, entities and operations, each with a text, and the number of others."""
    return {
        "people": [
            (principal_link_from_text(f"user:{name}"), tally_phrases(tally))
            for name, tally in effect.people[:max_rows]
        ],
        "people_more": max(0, effect.people_count - max_rows),
        "entities": [
            (address_link_to(address), tally_phrases(tally)) for address, tally in effect.entities[:max_rows]
        ],
        "entities_more": max(0, effect.entity_count - max_rows),
        "operations": [
            (kind, operation, tally_phrases(tally)) for kind, operation, tally in effect.operations[:max_rows]
        ],
        "operations_more": max(0, len(effect.operations) - max_rows),
    }
