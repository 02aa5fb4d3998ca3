"""Read and change the active generation, which pages and decisions use unless a request names another
generation.
"""

from datetime import timedelta

from django.conf import settings
from django.db import connection
from django.utils import timezone

from grants.authority.four_eyes import is_restricted
from grants.authority.persons import accounts_of, accounts_of_line, are_one_person
from grants.authority.proposals import PROPOSAL_DAYS
from grants.authority.transactions import administrator_transaction
from grants.change_set import ActivateGeneration
from grants.errors import SecondPersonRequired
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import ActiveGeneration, JournalHead, JournalLine
from grants.outcomes import Outcome
from grants.policies.catalogue import generation_by_name
from grants.policies.policy import Generation, rules_digest
from grants.roles.capabilities import Capability

# in the detail of a proposal, before the digest of the proposed rules
_RULES = "; rules "
# SQL, because this query runs before every decision, and the ORM takes longer to build it than the database
# to run it.
ACTIVE_GENERATION_SQL = f"SELECT name FROM {ActiveGeneration._meta.db_table} WHERE id = 1"


def active_generation() -> Generation:
    """Return the generation that an administrator activated, or else the setting DEFAULT_GENERATION.

    Runs one query.
    """
    with connection.cursor() as cursor:
        cursor.execute(ACTIVE_GENERATION_SQL)
        row = cursor.fetchone()
    return generation_or_default(row[0] if row else None)


def generation_or_default(name: str | None) -> Generation:
    """Return the generation for a result of ACTIVE_GENERATION_SQL. name: None if no generation was activated.

    Statements that contain ACTIVE_GENERATION_SQL use this function too.
    """
    return generation_by_name(name or settings.DEFAULT_GENERATION)


def write_active_generation(head: JournalHead, author: Author, change: ActivateGeneration) -> Outcome:
    """Make another generation active, for `grants.changes.apply`.

    Raise SecondPersonRequired if another person must propose it first (FOUR_EYES).
    """
    before, name = active_generation(), change.generation.name
    if before == change.generation:
        return Outcome(False, f"`{name}` is the active generation already: nothing changed", head.revision)
    if fault := activation_fault(author, name):
        raise SecondPersonRequired(fault)
    ActiveGeneration.objects.update_or_create(pk=1, defaults={"name": name})
    entry = JournalEntry("generation-activate", detail=f"from {before.name} to {name}")
    append_to_journal(head, [entry], author=author)
    sentence = f"`{name}` is the active generation now; it was `{before.name}`"
    return Outcome(True, sentence, head.revision, (change,))


def propose_generation(*, author: Author, name: str) -> Outcome:
    """Propose that another administrator makes `name` the active generation.

    Raise UnknownGeneration if there is none.
    """
    generation = generation_by_name(name)
    with administrator_transaction(author, capability=Capability.MANAGE_SETTINGS) as head:
        before = active_generation()
        if before == generation:
            return Outcome(
                False, f"`{name}` is the active generation already: nothing changed", head.revision
            )
        change = JournalEntry(
            "generation-propose", detail=f"from {before.name} to {name}{_RULES}{rules_digest(generation)}"
        )
        revision = append_to_journal(head, [change], author=author)
    return Outcome(
        True,
        f"`{name}` is proposed; another administrator can activate it within {PROPOSAL_DAYS} days",
        revision,
    )


def activation_fault(author: Author, name: str) -> str:
    """Return why the person of the author may not activate the generation; empty if it may.

    With FOUR_EYES, another person must have proposed it within PROPOSAL_DAYS. Nothing else may have been
    proposed or activated since, and another version of the console may not have changed its rules. Runs no
    query unless FOUR_EYES is on.
    """
    if not is_restricted(author):
        return ""
    line = latest_proposal()
    if line is None or proposed_name(line) != name:
        return f"one person cannot activate `{name}`: propose it, and let another administrator activate it"
    if line.detail.rpartition(_RULES)[2] != rules_digest(generation_by_name(name)):
        return f"the rules of `{name}` have changed since {line.actor} proposed it: propose it again"
    # an account that no longer exists cannot be compared
    proposers = accounts_of_line(line)
    if not proposers or are_one_person(accounts_of(author), proposers):
        return f"another person must activate `{name}`, because {line.actor} proposed it"
    return ""


def proposed_name(line: JournalLine) -> str:
    """Return the name of the generation that a journal line proposes."""
    return line.detail.partition(_RULES)[0].rpartition(" to ")[2]


def latest_proposal() -> JournalLine | None:
    """Return the journal line of the open proposal; None if there is none.

    Runs one query if FOUR_EYES is on.
    """
    if not settings.FOUR_EYES:
        return None
    lines = JournalLine.objects.filter(action__in=("generation-propose", "generation-activate"))
    line = lines.order_by("-revision").first()
    if (
        line is None
        or line.action != "generation-propose"
        or line.at < timezone.now() - timedelta(days=PROPOSAL_DAYS)
    ):
        return None
    return line
