"""The privilege cells on the pages of entities and people."""

from authzconsole.web.shared.privilege_cells import LETTERS
from entities.vocabulary import Privilege


def test_every_privilege_has_a_letter_that_no_other_has():
    assert list(LETTERS) == list(Privilege)
    assert len(set(LETTERS.values())) == len(LETTERS)
