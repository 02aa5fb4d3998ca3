"""Create the fixed users of the tests and a small tenant.

ada is an administrator and aud an auditor of the console; ned has ADMIN on the namespace `sales` and everything in it, dee has
a grant on one dataset, grp has grants only through a group, ina is inactive, out has no grants.
"""

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group

from entities.address import parse_address
from entities.models import Entity, State
from entities.services import ensure_entities
from entities.vocabulary import Privilege
from grants.changes.authority import administrator_transaction
from grants.changes.services import write_changes
from grants.journal import Author, Change, append_to_journal
from grants.models import Role, User

PASSWORD = "a long enough password"

SALES = ("namespace:sales", "dataset:sales.orders", "dataset:sales.customers", "application:sales.shop",
         "program:sales.shop.workflow.daily", "artifact:sales.etl-1.0")
HR = ("namespace:hr", "dataset:hr.salaries")
PLANNED, DELETED = "dataset:sales.forecast", "dataset:sales.legacy"
SETUP = Author("the tests")


def create_sample_users() -> dict[str, User]:
    """Create the fixed users and the group `operators`. Return the users by name."""
    roles = {"ada": Role.ADMINISTRATOR, "aud": Role.AUDITOR}
    users = User.objects.bulk_create(
        User(username=name, password=make_password(PASSWORD), role=roles.get(name, Role.ORDINARY), is_active=name != "ina",
             is_principal=name not in roles)
        for name in ("ada", "aud", "ned", "dee", "grp", "ina", "out"))
    cast = {user.username: user for user in users}
    Group.objects.create(name="operators").user_set.add(cast["grp"])
    return cast


def create_sample_tenant() -> dict[str, User]:
    """Create two namespaces, a planned and a deleted dataset, and the users with their grants. Return the users by name.

    Writes the rows and journal lines of `register_entity` and `change_grants` in one transaction, because most tests call it.
    """
    cast = create_sample_users()
    addresses = [parse_address(address) for address in (*SALES, *HR)]
    ned_grants = [("user:ned", address, Privilege.ADMIN) for address in addresses[: len(SALES)]]
    with administrator_transaction(SETUP) as head:
        created = ensure_entities(states=dict.fromkeys(addresses, State.LIVE)).created
        containers = [address for address in created if address not in addresses]
        append_to_journal(head, [Change("register", entity=str(address)) for address in (*containers, *addresses)], author=SETUP)
        write_changes(head, SETUP, grant=[
            *ned_grants,
            ("user:dee", parse_address("dataset:sales.orders"), Privilege.READ),
            ("group:operators", parse_address("program:sales.shop.workflow.daily"), Privilege.EXECUTE),
            ("user:ina", parse_address("dataset:sales.orders"), Privilege.READ),
            ("group:operators", parse_address(PLANNED), Privilege.READ),
            ("user:dee", parse_address(DELETED), Privilege.WRITE),
        ])
        Entity.objects.filter(kind="dataset", key="sales.legacy").update(state=State.DELETED)
    return cast
