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
from grants.changes.services import change_grants
from grants.journal import Author, Change, append_to_journal
from grants.lifecycle.services import register_entity
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
    """Create two namespaces, a planned and a deleted dataset, and the users with their grants. Return the users by name."""
    cast = create_sample_users()
    _register_entities()
    ned_grants = [("user:ned", parse_address(address), Privilege.ADMIN) for address in SALES]
    change_grants(author=SETUP, grant=[
        *ned_grants,
        ("user:dee", parse_address("dataset:sales.orders"), Privilege.READ),
        ("group:operators", parse_address("program:sales.shop.workflow.daily"), Privilege.EXECUTE),
        ("user:ina", parse_address("dataset:sales.orders"), Privilege.READ),
        ("group:operators", parse_address(PLANNED), Privilege.READ),
        ("user:dee", parse_address(DELETED), Privilege.WRITE),
    ])
    Entity.objects.filter(kind="dataset", key="sales.legacy").update(state=State.DELETED)
    return cast


def _register_entities() -> None:
    """Write what `register_entity` would write for each address, in bulk: most tests create the sample tenant."""
    first, *others = map(parse_address, (*SALES, *HR))
    register_entity(author=SETUP, address=first)
    with administrator_transaction(SETUP) as head:
        ensure_entities(states=dict.fromkeys(others, State.LIVE))
        append_to_journal(head, [Change("register", entity=str(address)) for address in others], author=SETUP)
