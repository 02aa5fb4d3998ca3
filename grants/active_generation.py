"""Read and change the active generation, which pages and decisions use unless a request names another generation."""

from django.conf import settings
from django.db import connection

from grants.changes.authority import administrator_transaction
from grants.changes.outcomes import Outcome
from grants.journal import Author, Change, append_to_journal
from grants.models import ActiveGeneration
from grants.policies.catalogue import generation_by_name
from grants.policies.policy import Generation

# SQL, because this query runs before every decision, and the ORM takes longer to build it than the database to run it.
ACTIVE_GENERATION_SQL = f"SELECT name FROM {ActiveGeneration._meta.db_table} WHERE id = 1"


def active_generation() -> Generation:
    """Return the generation that an administrator activated, or else the setting DEFAULT_GENERATION. Runs one query."""
    with connection.cursor() as cursor:
        cursor.execute(ACTIVE_GENERATION_SQL)
        row = cursor.fetchone()
    return generation_or_default(row[0] if row else None)


def generation_or_default(name: str | None) -> Generation:
    """Return the generation for a result of ACTIVE_GENERATION_SQL. name: None if no generation was activated.

    Statements that contain ACTIVE_GENERATION_SQL use this function too.
    """
    return generation_by_name(name or settings.DEFAULT_GENERATION)


def activate_generation(*, author: Author, name: str) -> Outcome:
    """Make `name` the active generation. Raise UnknownGeneration if there is no such generation."""
    generation = generation_by_name(name)
    with administrator_transaction(author) as head:
        before = active_generation()
        if before == generation:
            return Outcome(False, f"`{name}` is the active generation already: nothing changed", head.revision)
        ActiveGeneration.objects.update_or_create(pk=1, defaults={"name": name})
        change = Change("generation-activate", detail=f"from {before.name} to {name}")
        revision = append_to_journal(head, [change], author=author)
    return Outcome(True, f"`{name}` is the active generation now; it was `{before.name}`", revision)
