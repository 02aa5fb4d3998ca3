"""Create the fixed users of the tests and a small tenant.

ada is an administrator and aud an auditor of the console; ned has ADMIN on the namespace `sales` and
everything in it, dee has a grant on one dataset, grp has grants only through a group, ina is inactive, out
has no grants.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group
from django.db.transaction import atomic, set_rollback

from entities.address import parse_address
from entities.models import Entity, State
from entities.services import ensure_entities
from entities.vocabulary import Privilege
from grants.authority.transactions import administrator_transaction
from grants.changes import write_changes
from grants.journal import Author, JournalEntry, append_to_journal
from grants.models import Role, User
from tests.support.changes import grants_and_revocations

PASSWORD = "a long enough password"

SALES = (
    "namespace:sales",
    "dataset:sales.orders",
    "dataset:sales.customers",
    "application:sales.shop",
    "program:sales.shop.workflow.daily",
    "artifact:sales.etl-1.0",
)
HR = ("namespace:hr", "dataset:hr.salaries")
PLANNED, DELETED = "dataset:sales.forecast", "dataset:sales.legacy"
SETUP = Author("the tests")
T = TypeVar("T")


def create_sample_users() -> dict[str, User]:
    """Create the fixed users and the group `operators`. Return the users by name."""
    roles = {"ada": Role.ADMINISTRATOR, "aud": Role.AUDITOR}
    users = User.objects.bulk_create(
        User(
            username=name,
            password=make_password(PASSWORD),
            role=roles.get(name, Role.ORDINARY),
            is_active=name != "ina",
            is_principal=name not in roles,
        )
        for name in ("ada", "aud", "ned", "dee", "grp", "ina", "out")
    )
    cast = {user.username: user for user in users}
    Group.objects.create(name="operators").user_set.add(cast["grp"])
    return cast


def create_sample_tenant() -> dict[str, User]:
    """Create two namespaces, a planned and a deleted dataset, and the users with their grants. Return the
    users by name.

    Writes the rows and journal lines of `register_entity` and `change_grants` in one transaction, because
    most tests call it.
    """
    cast = create_sample_users()
    addresses = [parse_address(address) for address in (*SALES, *HR)]
    ned_grants = [("user:ned", address, Privilege.ADMIN) for address in addresses[: len(SALES)]]
    with administrator_transaction(SETUP) as head:
        created = ensure_entities(states=dict.fromkeys(addresses, State.LIVE)).created
        containers = [address for address in created if address not in addresses]
        append_to_journal(
            head,
            [JournalEntry("register", entity=str(address)) for address in (*containers, *addresses)],
            author=SETUP,
        )
        write_changes(
            head,
            SETUP,
            grants_and_revocations(
                [
                    *ned_grants,
                    ("user:dee", "dataset:sales.orders", Privilege.READ),
                    (
                        "group:operators",
                        "program:sales.shop.workflow.daily",
                        Privilege.EXECUTE,
                    ),
                    ("user:ina", "dataset:sales.orders", Privilege.READ),
                    ("group:operators", PLANNED, Privilege.READ),
                    ("user:dee", DELETED, Privilege.WRITE),
                ]
            ),
        )
        Entity.objects.filter(kind="dataset", key="sales.legacy").update(state=State.DELETED)
    return cast


def create_role_accounts() -> dict[str, User]:
    """Create sec (a security administrator), app (an approver) and ope (an operator), without grants.

    Return them by name.
    """
    roles = {"sec": Role.SECURITY_ADMINISTRATOR, "app": Role.APPROVER, "ope": Role.OPERATOR}
    users = User.objects.bulk_create(
        User(username=name, role=role, is_principal=False, password=make_password(None))
        for name, role in roles.items()
    )
    return {user.username: user for user in users}


@contextlib.contextmanager
def created_for_several_tests(create: Callable[[], T], django_db_blocker) -> Iterator[T]:
    """Create data in a transaction that encloses the transactions of the tests, and roll it back at the end.

    For fixtures with a wider scope than one test; these must request `django_db_setup`.
    """
    transaction = atomic()
    with django_db_blocker.unblock():
        transaction.__enter__()
    try:
        with django_db_blocker.unblock():
            data = create()
        yield data
    finally:
        with django_db_blocker.unblock():
            set_rollback(True)
            transaction.__exit__(None, None, None)
