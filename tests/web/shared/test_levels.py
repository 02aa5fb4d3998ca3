"""Test the sentences about access levels."""

import pytest

from authzconsole.web.shared.levels import (
    effect_sentences,
    effect_table,
    level_sentences,
    level_table,
    phrases_by_verb,
)
from entities.address import parse_address
from entities.models import State
from entities.vocabulary import ADMIN
from grants.effects.changes import StateChange
from grants.effects.effect import effect_of
from grants.models import User
from grants.policies.catalogue import GENERATIONS
from grants.policies.levels import Level, LevelCount
from tests.support.changes import add_grant, add_user


def test_a_level_with_other_operations_before_and_after_is_no_gain_and_loss_at_once():
    finance = LevelCount(Level.ADMINISTERS, "namespace", "finance", 1, None)
    datasets = LevelCount(Level.READS, "dataset", "finance", 3, None)
    assert phrases_by_verb([finance, datasets], [finance]) == {
        "gains": ["reads 3 datasets in finance"],
        "loses": [],
        "gains some operations and loses others": ["administers 1 namespace"],
    }


def test_a_level_of_which_only_a_part_of_the_operations_is_permitted_says_so():
    datasets = LevelCount(Level.ADMINISTERS, "dataset", "finance", 3)
    namespace = LevelCount(Level.ADMINISTERS, "namespace", "finance", 1, is_partial=True)

    assert level_sentences([datasets, namespace]) == [
        "Administers 3 datasets in finance, and in part 1 namespace."
    ]
    assert level_sentences([namespace], is_own=True) == ["You administer in part 1 namespace."]
    (cell,) = level_table([datasets, namespace])["rows"][0]["cells"]
    assert (cell["count"], cell["partial"], cell["title"]) == (4, 1, "3 datasets, 1 namespace in part")


@pytest.mark.django_db
def test_who_gains_a_level_is_named_beside_many_who_lose_what_needed_no_grant(cast):
    for number in range(30):
        add_user(f"aa{number}")
        User.objects.filter(username=f"aa{number}").update(is_active=True, is_principal=True)
    clicks = parse_address("stream:hr.clicks")
    add_grant("user:out", clicks, ADMIN)
    effect = effect_of([StateChange(clicks, State.LIVE)], GENERATIONS["final"])
    assert effect.people_count > 30 and [*effect.figures.levels_by_person] == ["out"]
    assert [person["user"] for person in effect_sentences(effect)] == ["out"]
    assert [row["user"] for part in effect_table(effect)["parts"] for row in part["rows"]] == ["out"]
