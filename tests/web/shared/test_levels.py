"""Test the sentences about access levels."""

from authzconsole.web.shared.levels import phrases_by_verb
from grants.policies.levels import Level, LevelCount


def test_a_level_with_other_operations_before_and_after_is_no_gain_and_loss_at_once():
    finance = LevelCount(Level.ADMINISTERS, "namespace", "finance", 1, None)
    datasets = LevelCount(Level.READS, "dataset", "finance", 3, None)
    assert phrases_by_verb([finance, datasets], [finance]) == {
        "gains": ["reads 3 datasets in finance"],
        "loses": [],
        "gains some operations and loses others": ["administers 1 namespace"],
    }
