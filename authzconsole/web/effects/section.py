"""The section with an effect on permissions: totals, the most affected people, entities and operations, and
every change.
"""

from collections.abc import Iterable
from dataclasses import asdict
from itertools import islice
from urllib.parse import urlencode

from django.http import HttpRequest

from authzconsole.web.effects.forms import top_lists
from authzconsole.web.effects.wording import (
    consequence_sentences,
    effect_sentence,
    filtered_sentence,
    later_beginnings_sentence,
    time_title,
)
from authzconsole.web.shared.paging import numbered_page, page_number
from authzconsole.web.shared.parameters import choice_parameter, text_parameter
from grants.active_generation import active_generation
from grants.effects.consequences import Consequences
from grants.effects.effect import KnownEffect, RowFilter
from grants.policies.catalogue import GENERATIONS
from grants.policies.times import format_time

ROWS_PER_PAGE = 50
# the value of the URL parameter `effect_at` for the present
PRESENT = "now"
MAX_TOP = 8
PURPOSES = {"for": "Purpose of the change", "beyond": "Beyond its purpose"}
CHANGES = {"gained": "Gained", "lost": "Lost"}
DOWNLOAD_TITLES = {"csv": "CSV", "jsonl": "JSON Lines"}


def section_context(
    request: HttpRequest,
    effect: KnownEffect | None,
    *,
    generation: str,
    url: str,
    parameters: Iterable[tuple[str, str]] = (),
    consequences: Consequences | None = None,
) -> dict:
    """Return the context of `effects/_permissions.html`, except its downloads. `whole` in it is the effect at
    all times.

    effect: None if it is not known. generation: in which it was evaluated. url: of the
    page.
    parameters: of the URL of the page, without those of the section. consequences: what the changes do
    besides permissions.
    """
    parameters = list(parameters)
    context = {
        "generation": generation,
        "generations": list(GENERATIONS),
        "active": active_generation().name,
        "url": url,
        "poll_url": f"{url}?{urlencode([*parameters, ('generation', generation)])}",
        "parameters": parameters,
        "clear_url": f"{url}?{urlencode(parameters)}" if parameters else url,
        "consequences": list(consequence_sentences(consequences)) if consequences else [],
    }
    if effect is None:
        return context
    where, whole = effect_filter(request), effect
    effect = effect_at(request, whole)
    query = [*parameters, ("generation", generation), *filter_query(where, "effect_").items()]
    total = effect.row_count(where)
    is_filtered = where != RowFilter()
    selected = effect.filtered_effect(where) if is_filtered else effect
    number = min(page_number(request, "changes"), max(1, -(-total // ROWS_PER_PAGE)))
    rows = islice(effect.rows(where, (number - 1) * ROWS_PER_PAGE), ROWS_PER_PAGE) if total else ()
    page = numbered_page(
        request,
        list(rows),
        number=number,
        total=total,
        max_rows=ROWS_PER_PAGE,
        name="changes",
    )
    return context | {
        "effect": effect,
        "page": page,
        "where": where,
        "is_filtered": is_filtered,
        "operations": effect.operation_names,
        "purposes": PURPOSES,
        "changes": CHANGES,
        "tops": top_lists(selected or effect, MAX_TOP),
        "whole": whole,
        "sentence": filtered_sentence(effect, selected) if is_filtered else effect_sentence(effect),
        "times": [
            {
                "title": time_title(number, one),
                "sentence": effect_sentence(one),
                "is_shown": one.at == effect.at,
                "url": f"{url}?{urlencode([*query, ('effect_at', _time_key(number, one))])}",
            }
            for number, one in enumerate(whole.times)
        ],
        "time": requested_time(request, whole),
        "later": later_beginnings_sentence(whole),
    }


def effect_at(request: HttpRequest, effect: KnownEffect) -> KnownEffect:
    """Return the effect at the time that the URL parameter `effect_at` names; by default, the effect itself."""
    key = requested_time(request, effect)
    return next(
        (one for number, one in enumerate(effect.times) if key and _time_key(number, one) == key), effect
    )


def requested_time(request: HttpRequest, effect: KnownEffect) -> str:
    """Return the URL parameter `effect_at` if the effect was evaluated at that time, otherwise an empty text."""
    return choice_parameter(
        request, "effect_at", [_time_key(number, one) for number, one in enumerate(effect.times)]
    )


def _time_key(number: int, effect: KnownEffect) -> str:
    return format_time(effect.at) if number else PRESENT


def effect_filter(request: HttpRequest) -> RowFilter:
    """Return which changes the filters of the section select."""
    texts = {name: text_parameter(request, f"effect_{name}") for name in ("user", "entity", "operation")}
    return RowFilter(
        **texts,
        change=choice_parameter(request, "effect_change", CHANGES),
        purpose=choice_parameter(request, "effect_purpose", PURPOSES),
    )


def filter_query(where: RowFilter, prefix: str = "") -> dict[str, str]:
    """Return the parameters of a URL for a filter."""
    return {f"{prefix}{name}": value for name, value in asdict(where).items() if value}
