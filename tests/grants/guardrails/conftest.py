"""The sample tenant of `tests.support.cast`, written by services, so that its journal can be verified."""

import pytest

from grants.models import Role, User
from tests.support.authors import COMMAND
from tests.support.cast import HR, SALES
from tests.support.changes import (
    add_grant,
    add_group,
    add_member,
    add_user,
    change_grants,
    delete_entity,
    register_entity,
    set_user_active,
)


@pytest.fixture
def cast(db) -> dict[str, User]:
    add_user("ada", role=Role.ADMINISTRATOR, is_principal=False, author=COMMAND)
    for name in ("ned", "dee", "grp", "ina", "out"):
        add_user(name)
    set_user_active("ina", active=False)
    add_group("operators")
    add_member("grp", "operators")
    for address in (*SALES, *HR, "dataset:sales.legacy"):
        register_entity(address)
    delete_entity("dataset:sales.legacy")
    change_grants(grant=[("user:ned", address, "ADMIN") for address in SALES])
    add_grant("user:dee", "dataset:sales.orders", "READ")
    add_grant("user:ina", "dataset:sales.orders", "READ")
    add_grant("user:dee", "dataset:sales.legacy", "WRITE")
    return {user.username: user for user in User.objects.all()}
