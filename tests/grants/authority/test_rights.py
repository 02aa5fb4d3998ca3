"""Rights of accounts on single entities."""

import pytest

from entities.address import parse_address
from entities.selectors import entity_at
from entities.vocabulary import Privilege
from grants.authority.rights import approvers_of, can_change_some_grants, can_see_holders, is_approver

pytestmark = pytest.mark.django_db

READ = Privilege.READ


def test_only_administrators_change_grants_and_approve(cast):
    for address in map(parse_address, ("dataset:sales.orders", "dataset:sales.nothing")):
        for target in filter(None, (address, entity_at(address))):
            assert [name for name, user in cast.items() if can_change_some_grants(user, target)] == ["ada"]
            assert [name for name, user in cast.items() if is_approver(user, target, READ)] == ["ada"]
            assert [user.username for user in approvers_of(target, READ)] == ["ada"]
            assert [name for name, user in cast.items() if can_see_holders(user, target)] == ["ada", "aud"]
