"""The table of console roles: what it says, where it is repeated, and that accounts cannot exceed their role."""

from pathlib import Path

import pytest
from django.conf import settings

from authzconsole.settings.sign_in import ROLES
from grants.authority.transactions import check_can_manage, check_capability
from grants.errors import NotAdministrator
from grants.journal import Author
from grants.models import User
from grants.roles.capabilities import (
    CAPABILITIES,
    CHANGING_CAPABILITIES,
    Capability,
    Role,
    role_includes,
    role_names,
    roles_with,
)


def test_every_role_has_a_row():
    assert set(CAPABILITIES) == set(Role)
    assert CAPABILITIES[Role.ADMINISTRATOR] == set(Capability) and not CAPABILITIES[Role.ORDINARY]
    assert not CAPABILITIES[Role.AUDITOR] & CHANGING_CAPABILITIES


def test_only_administrators_change_grants_and_settings():
    for capability in (Capability.CHANGE_GRANTS, Capability.MANAGE_SETTINGS):
        assert roles_with(capability) == [Role.ADMINISTRATOR]
    assert role_names(Capability.READ_JOURNAL) == "administrators and auditors"
    assert role_names(Capability.READ_ACCOUNTS) == "administrators, auditors and security administrators"


def test_sign_in_maps_the_same_roles_and_prefers_those_that_include_others():
    assert set(ROLES) == set(Role.values)
    for index, role in enumerate(ROLES):
        assert not any(role_includes(earlier, role) for earlier in ROLES[:index])


def test_the_documentation_has_the_same_table():
    """docs/concepts/roles.md: one row for each capability, one column for each role."""
    lines = Path(settings.BASE_DIR, "docs/concepts/roles.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    header, table = rows[0], {row[0].strip("`"): row[1:] for row in rows if row[0].startswith("`")}
    assert header[2:] == [f"`{role}`" for role in Role]
    for capability in Capability:
        cells = ["yes" if capability in CAPABILITIES[role] else "" for role in Role]
        description, *documented = table.pop(capability)
        assert description and documented == cells
    assert not table


@pytest.mark.django_db
@pytest.mark.parametrize("role", Role)
def test_an_author_has_exactly_the_capabilities_of_the_role(role):
    user = User.objects.create(username="x", role=role)
    author = Author("x", user_id=user.pk)
    for capability in Capability:
        if capability in CAPABILITIES[role]:
            check_capability(author, capability)
        else:
            with pytest.raises(NotAdministrator):
                check_capability(author, capability)
    for other in Role:
        if CAPABILITIES[role] >= CAPABILITIES[other]:
            check_can_manage(author, other)
        else:
            with pytest.raises(NotAdministrator):
                check_can_manage(author, other)
    User.objects.update(is_active=False)
    for refused in (
        lambda: check_capability(author, Capability.READ_ALL),
        lambda: check_can_manage(author, Role.ADMINISTRATOR),
    ):
        with pytest.raises(NotAdministrator):
            refused()
