"""The state at every revision of a random history equals the state that was recorded then, for all
evaluators.
"""

import random
from collections import Counter

import pytest

from entities.address import parse_address
from entities.models import Entity
from entities.vocabulary import KINDS
from grants.active_generation import active_generation
from grants.evaluation.authzen_search import search_entities, search_operations, search_principals
from grants.evaluation.engine import check_many
from grants.evaluation.visibility import visibility_of
from grants.history import as_of
from grants.history.events import rename_of_line
from grants.history.periods import catch_up
from grants.journal import VERIFIED_COLUMNS, current_revision
from grants.models import JournalLine, User
from grants.models.history import PERIOD_MODELS, HistoryAddress, HistoryPosition, HistoryPrincipal
from grants.policies.catalogue import GENERATIONS
from grants.policies.question import Question
from grants.verification.facts import SEPARATOR, facts_of_line, facts_of_tables
from tests.support.random_histories import ADDRESSES, GROUPS, USERS, begin_history, change_at_random

pytestmark = pytest.mark.django_db
CHANGES = 60
ACTIONS = {
    "grant",
    "revoke",
    "plan",
    "register",
    "delete",
    "recreate",
    "user-add",
    "principal-add",
    "user-deactivate",
    "role-set",
    "group-add",
    "group-remove",
    "user-rename",
    "group-rename",
    "user-remove",
    "member-add",
    "member-remove",
    "generation-activate",
}


def questions(dice: random.Random) -> list[Question]:
    found = []
    for text in ADDRESSES:
        address = parse_address(text)
        for generation in GENERATIONS:
            for operation in KINDS[address.kind].operations:
                type_, name = dice.choice(
                    [("user", name) for name in USERS] + [("group", name) for name in GROUPS]
                )
                found.append(Question(type_, name, operation, address, generation))
    return dice.sample(found, 60)


def state(seed: int) -> dict:
    """Return what the evaluators and lists say now, for questions that depend only on the seed."""
    asked = questions(random.Random(seed))
    decisions = [
        (decision.is_permitted, decision.reason, decision.missing_grants) for decision in check_many(asked)
    ]
    searched = asked[::10]
    return {
        # before the first change of the generation, the table has no row, and the periods have the generation
        # that it replaced
        "facts": {fact for fact in facts_of_tables() if fact[0] != "generation"},
        "generation": active_generation().name,
        "decisions": decisions,
        "principals": set(User.objects.active_principals().values_list("username", flat=True)),
        "who": [search_principals(question, after="", max_rows=50) for question in searched],
        "what": [search_entities(question, after="", max_rows=50) for question in searched],
        "operations": [search_operations([question], after="", max_rows=50) for question in searched],
        "visible": {user.username: _visible(user) for user in User.objects.order_by("username")},
    }


def _visible(user: User) -> list[str]:
    rows = Entity.objects.filter(visibility_of(user, active_generation()).all_rows).order_by("kind", "key")
    return [str(row) for row in rows.distinct()]


def periods() -> list[list]:
    """Return what the periods say, with names in place of ids, which depend on the batches."""
    names = dict(HistoryPrincipal.objects.values_list("pk", "name"))
    keys = dict(HistoryAddress.objects.values_list("pk", "key"))
    names_by_column = {"user": names, "group": names, "granted_by": names} | dict.fromkeys(
        ("entity", "parent", "namespace", "application"), keys
    )
    tables = []
    for model in PERIOD_MODELS:
        columns = [field.name for field in model._meta.fields if field.name not in ("id", "since")]
        rows = model.objects.values(*columns)
        tables.append(
            sorted(
                str([names_by_column.get(column, {}).get(value, value) for column, value in row.items()])
                for row in rows
            )
        )
    return tables


@pytest.mark.parametrize("seed", [1, 2])
def test_every_revision_gives_the_answers_recorded_at_that_time(seed):
    dice, recorded = random.Random(seed), {}
    begin_history(dice)
    for number in range(CHANGES):
        change_at_random(dice)
        if number % 11 == 0:
            recorded[current_revision()] = state(seed)
        if number % 20 == 0:
            catch_up()
    present = state(seed)
    for revision, expected in recorded.items():
        with as_of(revision):
            assert state(seed) == expected
    assert state(seed) == present
    assert len(recorded) > 4 and len({str(expected["decisions"]) for expected in recorded.values()}) > 3


def test_every_line_sets_what_the_replay_of_the_journal_says(settings):
    dice, facts = random.Random(10), {}
    begin_history(dice)
    for _ in range(CHANGES + 20):
        change_at_random(dice)
    for values in JournalLine.objects.order_by("revision").values_list(*VERIFIED_COLUMNS):
        if (rename := rename_of_line(values)) is not None:
            facts = {
                SEPARATOR.join(
                    rename[1] if part == rename[0] else part for part in key.split(SEPARATOR)
                ): value
                for key, value in facts.items()
                if value is not None
            }
        facts.update(facts_of_line(values, Counter()))
        if dice.random() < 0.6:
            continue
        with as_of(values[0]):
            stored = dict(facts_of_tables())
            if "generation" not in facts:
                assert stored.pop("generation", settings.DEFAULT_GENERATION) == settings.DEFAULT_GENERATION
            assert stored == {key: value for key, value in facts.items() if value is not None}
    assert len(ACTIONS - set(JournalLine.objects.values_list("action", flat=True))) <= 3


def test_periods_do_not_depend_on_when_the_lines_were_processed(monkeypatch):
    dice = random.Random(4)
    for _ in range(CHANGES):
        change_at_random(dice)
    monkeypatch.setattr("grants.history.periods.LINES_PER_BATCH", 7)
    lines = current_revision()
    assert catch_up() == lines and catch_up() == 0
    in_small_batches = periods()
    monkeypatch.undo()
    # the periods of another journal are derived again
    HistoryPosition.objects.update(hash="another")
    assert catch_up() == lines
    assert periods() == in_small_batches
