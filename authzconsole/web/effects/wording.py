"""Describe effects in words."""

from collections.abc import Iterator

from authzconsole.web.shared.times import exact_time
from entities.vocabulary import quantity
from grants.effects.consequences import Consequences
from grants.effects.effect import KnownEffect, Tally


def effect_sentence(effect: KnownEffect) -> str:
    """Return a sentence such as `Gives 8 permissions (3 come with the grants, 1 side effect) and removes 1 permission, on 2
    entities.`, and how many of them need no grant.
    """
    if not effect.has_effect:
        return "Changes no permission."
    tally, side_effects = effect.tally, effect.with_attached_intended.tally
    parts = [
        _change_phrase("gives", "come", tally.gained_for, tally.gained_beyond, side_effects.gained_beyond),
        _change_phrase("removes", "go", tally.lost_for, tally.lost_beyond, side_effects.lost_beyond),
    ]
    entities = quantity(effect.entity_count, "entity", "entities")
    sentence = f"{' and '.join(filter(None, parts)).capitalize()}, on {entities}."
    return f"{sentence} {_grantless_sentence(effect)}".rstrip()


def _grantless_sentence(effect: KnownEffect) -> str:
    """Return a sentence about operations such as `delete-all-streams` of a namespace without streams; empty if there are
    none.
    """
    count = effect.figures.grantless
    if not count:
        return ""
    subject = quantity(count, "of them needs", "of them need")
    if count == effect.tally.total:
        subject = "It needs" if count == 1 else "All of them need"
    return f"{subject} no grant as long as there is nothing that they act on."


def filtered_sentence(effect: KnownEffect, selected: KnownEffect | None) -> str:
    """Return a sentence such as `With these filters: gives 1 permission. Without: gives 8 permissions and
    removes 1 permission.`

    selected: the changes that the filters select; None if their totals are not known.
    """
    without = sentence_part(effect_sentence(effect))
    if selected is None:
        return f"Without the filters, as in the tables below: {without}"
    return f"With these filters: {sentence_part(effect_sentence(selected))} Without: {without}"


def sentence_part(sentence: str) -> str:
    """Return a sentence as the rest of a longer one."""
    return f"{sentence[0].lower()}{sentence[1:]}"


def _change_phrase(verb: str, comes: str, within: int, beyond: int, side_effects: int) -> str:
    """Return a phrase such as `gives 8 permissions (3 come with the grants, 1 side effect)`.

    within, beyond: permissions by the purpose of the change. side_effects: those beyond it that grants do not bring with
    them. comes: the verb of the others.
    """
    if not within + beyond:
        return ""
    attached = beyond - side_effects
    notes = [
        f"{quantity(attached, f'{comes}es' if comes == 'go' else f'{comes}s', comes)} with the grants"
        if attached
        else "",
        quantity(side_effects, "side effect", "side effects") if side_effects else "",
    ]
    note = f" ({', '.join(filter(None, notes))})" if beyond else ""
    return f"{verb} {quantity(within + beyond, 'permission', 'permissions')}{note}"


def button_numbers(tally: Tally) -> str:
    """Return a text for a button, such as `: 8 permissions gained, 1 lost`; empty if no permission changes."""
    gained, lost = tally.gained_for + tally.gained_beyond, tally.lost_for + tally.lost_beyond
    parts = [
        f"{quantity(gained, 'permission', 'permissions')} gained" if gained else "",
        f"{f'{lost:,}' if gained else quantity(lost, 'permission', 'permissions')} lost" if lost else "",
    ]
    return f": {', '.join(filter(None, parts))}" if any(parts) else ""


def tally_phrases(tally: Tally) -> str:
    """Return a text such as `gains 8, loses 1; side effects: gains 4`."""
    intended = [
        f"gains {tally.gained_for:,}" if tally.gained_for else "",
        f"loses {tally.lost_for:,}" if tally.lost_for else "",
    ]
    beyond = [
        f"gains {tally.gained_beyond:,}" if tally.gained_beyond else "",
        f"loses {tally.lost_beyond:,}" if tally.lost_beyond else "",
    ]
    parts = [
        ", ".join(filter(None, intended)),
        f"side effects: {', '.join(filter(None, beyond))}" if any(beyond) else "",
    ]
    return "; ".join(filter(None, parts))


def time_title(number: int, effect: KnownEffect) -> str:
    """Return the heading of the effect at one of the times; number: its position among them."""
    return f"From {exact_time(effect.at)}" if number else "Now"


def later_beginnings_sentence(effect: KnownEffect) -> str:
    """Return a sentence about the beginnings at which the effect was not evaluated; empty if there are none."""
    count, last = effect.other_beginnings, effect.last_beginning
    if last is None:
        return ""
    beginnings = quantity(count, "later beginning", "later beginnings")
    return f"{beginnings} until {exact_time(last)} {'is' if count == 1 else 'are'} not evaluated."


def consequence_sentences(consequences: Consequences) -> Iterator[str]:
    """Yield a sentence for each consequence."""
    if count := consequences.leftover_created:
        yield f"{quantity(count, 'leftover grant', 'leftover grants')} on deleted addresses will remain."
    if count := consequences.leftover_removed:
        yield f"{quantity(count, 'leftover grant', 'leftover grants')} will be gone."
    if consequences.sessions_ended or consequences.tokens_ended:
        sessions = quantity(consequences.sessions_ended, "session", "sessions")
        yield f"{sessions} and {quantity(consequences.tokens_ended, 'API token', 'API tokens')} end."
