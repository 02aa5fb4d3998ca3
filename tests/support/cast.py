"""The fixed people of the tests and the small house that they live in.

ada administers the console, aud audits it; ned owns the namespace `sales`, dee is granted one dataset, grp acts only through a
group, ina is inactive, out is a stranger.
"""

from django.contrib.auth.models import Group

from entities.address import parse_address
from entities.models import Entity, State
from entities.vocabulary import Privilege
from grants.changes.services import change_grants
from grants.journal import Author
from grants.lifecycle.services import register_entity
from grants.models import Role, User

PASSWORD = "a long enough password"

SALES = ("namespace:sales", "dataset:sales.orders", "dataset:sales.customers", "application:sales.shop",
         "program:sales.shop.workflow.daily", "artifact:sales.etl-1.0")
HR = ("namespace:hr", "dataset:hr.salaries")
PLANNED, DELETED = "dataset:sales.forecast", "dataset:sales.legacy"
SETUP = Author("the tests")


def create_sample_users() -> dict[str, User]:
    roles = {"ada": Role.ADMINISTRATOR, "aud": Role.AUDITOR}
    cast = {}
    for name in ("ada", "aud", "ned", "dee", "grp", "ina", "out"):
        cast[name] = User.objects.create_user(name, password=PASSWORD, role=roles.get(name, Role.ORDINARY),
                                              is_active=name != "ina", is_principal=name not in roles)
    Group.objects.create(name="operators").user_set.add(cast["grp"])
    return cast


def create_sample_tenant() -> dict[str, User]:
    """Two namespaces, a planned and a deleted dataset, and what each of the cast holds."""
    cast = create_sample_users()
    for address in (*SALES, *HR):
        register_entity(author=SETUP, address=parse_address(address))
    own = [("user:ned", parse_address(address), Privilege.ADMIN) for address in SALES]
    change_grants(author=SETUP, grant=[
        *own,
        ("user:dee", parse_address("dataset:sales.orders"), Privilege.READ),
        ("group:operators", parse_address("program:sales.shop.workflow.daily"), Privilege.EXECUTE),
        ("user:ina", parse_address("dataset:sales.orders"), Privilege.READ),
        ("group:operators", parse_address(PLANNED), Privilege.READ),
        ("user:dee", parse_address(DELETED), Privilege.WRITE),
    ])
    Entity.objects.filter(kind="dataset", key="sales.legacy").update(state=State.DELETED)
    return cast
