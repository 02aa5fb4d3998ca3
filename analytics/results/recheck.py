"""Check rows of a report again: which of their problems were solved since, with a fixed number of queries for all rows."""

from collections.abc import Callable, Sequence

from analytics.analyses import AnalysisName
from analytics.models import AnalysisRun
from entities.address import address_or_none
from entities.models import Entity
from entities.selectors import entities_at
from entities.vocabulary import Privilege
from grants.administrators import MIN_ADMINISTRATORS, too_few_administrators
from grants.change_set import Revoke
from grants.changes import existing_grants
from grants.evaluation.facts import gather_facts
from grants.policies.decide import is_permitted
from grants.policies.question import Question


def _ready_since(run: AnalysisRun, rows: Sequence[dict]) -> set[int]:
    return _can_delete(run, rows, {n: row["user"] for n, row in enumerate(rows) if not row["ready"]})


def _deletable_since(run: AnalysisRun, rows: Sequence[dict]) -> set[int]:
    """Return the indexes of the namespaces that the user who lacked the fewest grants can delete now."""
    users = {n: row["nearest_user"] for n, row in enumerate(rows) if row["nobody_can_delete"]}
    return _can_delete(run, rows, {n: user for n, user in users.items() if user})


def _can_delete(run: AnalysisRun, rows: Sequence[dict], users: dict[int, str]) -> set[int]:
    """Return the indexes of the rows of which the user can delete the namespace now."""
    questions = {
        number: Question("user", user, "delete", address, run.options["generation"])
        for number, user in users.items()
        if (address := address_or_none(f"namespace:{rows[number]['namespace']}"))
    }
    facts = gather_facts(list(questions.values())) if questions else []
    return {
        number
        for (number, question), known in zip(questions.items(), facts, strict=True)
        if is_permitted(question, known)
    }


def current_administrators(rows: Sequence[dict]) -> list[int | None]:
    """Return how many administrators the entity of each row has now, at most MIN_ADMINISTRATORS; None if it is not live."""
    addresses = [address_or_none(row["entity"]) for row in rows]
    entities = entities_at(filter(None, addresses))
    live = {address: entity.pk for address, entity in entities.items() if entity.is_live}
    too_few = {pk: len(users) for pk, users in too_few_administrators(live.values()).items()}
    return [
        too_few.get(live[address], MIN_ADMINISTRATORS) if address in live else None for address in addresses
    ]


def _stranded_before(run: AnalysisRun, rows: Sequence[dict]) -> set[int]:
    return {
        number
        for number, admins in enumerate(current_administrators(rows))
        if admins is None or admins >= MIN_ADMINISTRATORS
    }


def _ghosts_before(run: AnalysisRun, rows: Sequence[dict]) -> set[int]:
    return _revoked_before(run, rows, is_fixed=lambda entity: entity.is_live)


def _revoked_before(
    run: AnalysisRun, rows: Sequence[dict], is_fixed: Callable[[Entity], bool] = lambda entity: False
) -> set[int]:
    """Return the indexes of the grants that were revoked, or on entities that solve the problem."""
    grants = {
        number: Revoke(row["principal"], address, Privilege(row["privilege"]))
        for number, row in enumerate(rows)
        # the kind may not exist any more
        if (address := address_or_none(row["entity"]))
    }
    entities = entities_at(grant.address for grant in grants.values())
    found = existing_grants(grants.values(), entities=entities)
    return {
        number
        for number, grant in grants.items()
        if grant.key not in found or is_fixed(entities[grant.address])
    }


# by analysis and table: the function that returns the indexes of the rows with a solved problem
FINDERS: dict[tuple[str, str], Callable[[AnalysisRun, Sequence[dict]], set[int]]] = {
    (AnalysisName.DELETE_READINESS, "rows"): _ready_since,
    (AnalysisName.DELETE_READINESS, "namespaces"): _deletable_since,
    (AnalysisName.STRANDED, "rows"): _stranded_before,
    (AnalysisName.GHOST_GRANTS, "rows"): _ghosts_before,
    (AnalysisName.REDUNDANT, "rows"): _revoked_before,
    (AnalysisName.UNUSED, "grants"): _revoked_before,
}


def fixed_rows(run: AnalysisRun, table: str, rows: Sequence[dict]) -> set[int]:
    """Return the indexes of the rows of a table of FINDERS with a solved problem."""
    return FINDERS[run.type, table](run, rows) if rows else set()
