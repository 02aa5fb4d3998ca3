"""An account gives back its own access, and nothing else."""

import pytest

from entities.address import parse_address
from entities.vocabulary import Privilege
from grants.change_set import Leave, Revoke
from grants.changes import give_back
from grants.errors import GrantError, NotAdministrator
from grants.journal import current_revision
from tests.support.authors import account, all_grants, author_named, database_state, lines_after
from tests.support.changes import add_grant, add_group, add_member, set_user_active

ORDERS = parse_address("dataset:sales.orders")
pytestmark = pytest.mark.usefixtures("cast")


def revocation(name: str, privilege: str = "READ") -> Revoke:
    return Revoke(f"user:{name}", ORDERS, Privilege(privilege))


def test_a_grant_and_a_membership_are_given_back():
    before = current_revision()
    give_back(author=author_named("dee"), change=revocation("dee"))
    give_back(author=author_named("grp"), change=Leave("grp", "operators"))
    assert ("user:dee", str(ORDERS), "READ") not in all_grants() and not account("grp").groups.exists()
    assert [line[:2] for line in lines_after(before)] == [
        ("revoke", "user:dee"),
        ("member-remove", "user:grp"),
    ]


@pytest.mark.parametrize(
    "change",
    [revocation("dee"), Leave("grp", "operators"), Revoke("group:operators", ORDERS, Privilege.READ)],
)
def test_the_access_of_others_cannot_be_given_back(change):
    before = database_state()
    with pytest.raises(NotAdministrator, match="your own access only"):
        give_back(author=author_named("out"), change=change)
    assert database_state() == before


def test_an_inactive_account_gives_nothing_back():
    author = author_named("dee")
    set_user_active("dee", active=False)
    with pytest.raises(NotAdministrator, match="not an active account"):
        give_back(author=author, change=revocation("dee"))


def test_the_last_holders_of_admin_keep_it():
    for change in (revocation("ned", "ADMIN"),):
        with pytest.raises(GrantError, match="fewer than two ADMIN holders"):
            give_back(author=author_named("ned"), change=change)
    add_group("owners")
    for name in ("dee", "out"):
        add_member(name, "owners")
    add_grant("group:owners", str(ORDERS), "ADMIN")
    give_back(author=author_named("ned"), change=revocation("ned", "ADMIN"))
    with pytest.raises(GrantError, match="fewer than two ADMIN holders"):
        give_back(author=author_named("dee"), change=Leave("dee", "owners"))


def test_access_that_is_not_held_changes_nothing_and_tells_nothing():
    before = database_state()[1:]
    outcomes = [
        give_back(author=author_named("out"), change=Revoke("user:out", parse_address(text), Privilege.READ))
        for text in ("dataset:hr.salaries", "dataset:hr.nothing")
    ]
    assert not any(outcome.has_changed for outcome in outcomes) and database_state()[1:] == before
    first, second = (outcome.sentence for outcome in outcomes)
    assert first.replace("salaries", "nothing") == second


def test_a_group_of_others_and_a_missing_one_give_the_same_answer():
    """The account may not list groups, so it must not learn which names exist."""
    before, author = database_state(), author_named("out")
    sentences = [
        give_back(author=author, change=Leave("out", name)).sentence.replace(name, "NAME")
        for name in ("operators", "missing")
    ]
    assert sentences[0] == sentences[1] and "nothing changed" in sentences[0]
    assert database_state() == before
