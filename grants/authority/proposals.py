"""Appointments that two administrators make (FOUR_EYES): one proposes it, another one makes it.

A proposal is a journal line. No table has it, because nothing but the second step reads it.
"""

from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from grants.authority.four_eyes import is_restricted
from grants.authority.persons import accounts_of, accounts_of_line, are_one_person
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import JournalHead, JournalLine
from grants.outcomes import Outcome

# for so long, another person can confirm a proposal
PROPOSAL_DAYS = 7


def propose_first(
    head: JournalHead,
    author: Author,
    entry: JournalEntry,
    proposal: str,
    title: str,
    *,
    detail: str = "",
) -> Outcome | None:
    """Propose the change of a journal entry, unless the author may make it now. Return what was proposed; None if
    the author may make the change: one person may make all changes, or another person proposed the same.

    proposal: the action of the line of a proposal. title: what is proposed, as the beginning of a sentence.
    detail: what tells proposals about the same principal and entity apart. Runs one query for the proposals of the entity, and those of `are_one_person`.
    """
    if not is_restricted(author):
        return None
    others = f"another administrator must do the same within {PROPOSAL_DAYS} days"
    if line := open_proposals(proposal, entry.action, entity=entry.entity, detail=detail).get(
        (entry.principal, entry.entity)
    ):
        proposers = accounts_of_line(line)
        # an account that no longer exists cannot be compared
        if proposers and not are_one_person(accounts_of(author), proposers):
            return None
        if line.actor == author.actor:
            return Outcome(False, f"{title} is proposed by you already: {others}", head.revision)
    append_to_journal(
        head, [JournalEntry(proposal, entry.principal, entry.entity, detail=detail)], author=author
    )
    return Outcome(
        True, f"{title} is proposed now, because one person cannot do this: {others}", head.revision
    )


def open_proposals(
    proposal: str, end: str, *, entity: str = "", detail: str = ""
) -> dict[tuple[str, str], JournalLine]:
    """Return the newest line of each open proposal, by principal and entity.

    end: the action that ends a proposal. entity: empty for those of all entities. detail: likewise. Runs one query if FOUR_EYES is
    on.
    """
    if not settings.FOUR_EYES:
        return {}
    since = timezone.now() - timedelta(days=PROPOSAL_DAYS)
    lines = JournalLine.objects.filter(action__in=(proposal, end), at__gte=since)
    found: dict[tuple[str, str], JournalLine] = {}
    lines = lines.filter(entity=entity) if entity else lines
    lines = lines.filter(detail=detail) if detail else lines
    for line in lines.order_by("revision"):
        if line.action == proposal:
            found[line.principal, line.entity] = line
        else:
            found.pop((line.principal, line.entity), None)
    return found
