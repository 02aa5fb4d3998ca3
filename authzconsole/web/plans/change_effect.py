"""The effect of a single change in forms and dialogs: a sentence, the first changed permissions, and the digest."""

from collections.abc import Iterable
from itertools import islice

from authzconsole.web.shared.links import address_link_to, principal_link_from_text
from entities.address import parse_address
from entities.vocabulary import quantity
from grants.effects.changes import EffectChange
from grants.effects.effect import Effect, RowFilter
from grants.effects.single_changes import digest_of, effect_of_change

MAX_ROWS = 6


def change_effect_context(changes: Iterable[EffectChange]) -> dict:
    """Return the context of `shared/feedback/change_effect.html`."""
    effect = effect_of_change(changes)
    if effect is None:
        return {"digest": digest_of(None), "sentence": "The effect on permissions is too large to be computed.", "rows": []}
    beyond = effect.row_count(RowFilter(purpose="beyond"))
    rows = [*islice(effect.rows(RowFilter(purpose="beyond")), MAX_ROWS)]
    rows += islice(effect.rows(RowFilter(purpose="for")), MAX_ROWS - len(rows))
    return {
        "digest": effect.digest, "sentence": effect_sentence(effect), "is_wide": bool(beyond),
        "rows": [{"row": row, "principal": principal_link_from_text(f"user:{row.user}"),
                  "address_link": address_link_to(parse_address(row.entity))} for row in rows],
        "more": max(0, effect.tally.total - MAX_ROWS),
    }


def effect_sentence(effect: Effect) -> str:
    """Return a sentence such as `Gives 8 permissions and takes 1 permission, of which 4 given beyond its purpose.`"""
    tally = effect.tally
    if not effect.has_effect:
        return "Changes no permission."
    gained, lost = tally.gained_for + tally.gained_beyond, tally.lost_for + tally.lost_beyond
    parts = [f"gives {quantity(gained, 'permission', 'permissions')}" if gained else "",
             f"takes {quantity(lost, 'permission', 'permissions')}" if lost else ""]
    beyond = [f"{tally.gained_beyond:,} given" if tally.gained_beyond else "",
              f"{tally.lost_beyond:,} taken" if tally.lost_beyond else ""]
    text = " and ".join(filter(None, parts)).capitalize()
    return f"{text}, of which {' and '.join(filter(None, beyond))} beyond its purpose." if tally.beyond else f"{text}."
