"""Test the sentences about access levels."""

from authzconsole.web.shared.levels import level_sentences, level_table, phrases_by_verb
from grants.policies.levels import Level, LevelCount


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
