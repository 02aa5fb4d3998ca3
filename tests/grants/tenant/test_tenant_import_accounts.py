"""Test the effect of an import on accounts, and the permission to import."""

import io

import pytest

from entities.models import Entity
from grants.journal import Author
from grants.models import Role, User
from grants.tenant import import_document as importing
from grants.tenant.reading import BadTenantDocument
from grants.tenant.report import (
    USERS_CHANGED,
)
from tests.support.authors import account
from tests.support.changes import add_user
from tests.support.tenant_documents import (
    EXAMPLE,
    document,
    entity,
    grant,
    group,
    import_lines,
    journal_entries,
    user,
)

pytestmark = pytest.mark.django_db


def test_an_imported_user_is_an_ordinary_principal_without_a_password():
    import_lines(user("ada"))
    ada = User.objects.get()
    assert (ada.role, ada.is_principal, ada.is_active) == (Role.ORDINARY, True, True)
    assert not (ada.is_superuser or ada.is_staff)
    assert not ada.has_usable_password()


def test_an_import_never_changes_the_role_or_the_password_of_an_account():
    root = User.objects.create_user("root", password="secret", role=Role.ADMINISTRATOR, is_principal=False)
    report = import_lines(user("root", email="root@example.com"))
    after = User.objects.get()
    assert (after.role, after.password, after.email, after.is_principal) == (
        root.role,
        root.password,
        "root@example.com",
        True,
    )
    assert report.total(USERS_CHANGED) == 1
    assert [line[:2] for line in journal_entries()] == [
        ("user-change", "user:root"),
        ("principal-add", "user:root"),
    ]


@pytest.mark.parametrize("line", [grant("user:root", "namespace:a", "READ"), group("g", "root")])
def test_an_account_that_a_line_names_becomes_a_principal(line):
    User.objects.create_user("root", is_principal=False, is_active=False, email="root@example.com")
    import_lines(line)
    root = User.objects.get()
    assert (root.is_principal, root.is_active, root.email) == (True, False, "root@example.com")


def test_only_an_administrator_can_import():
    someone = User.objects.create_user("someone", role=Role.AUDITOR)
    with pytest.raises(ValueError, match="not an active administrator"):
        importing.import_tenant(
            stream=io.BytesIO(document(*EXAMPLE)), author=Author("someone", user_id=someone.pk)
        )
    assert not Entity.objects.exists()


def test_a_document_cannot_deactivate_the_last_administrator():
    add_user("ada", role=Role.ADMINISTRATOR)
    with pytest.raises(BadTenantDocument) as refused:
        import_lines(entity("namespace:sales"), user("ada", active=False))
    (fault,) = refused.value.faults
    assert (fault.line, fault.field) == (2, "active") and "no other would stay active" in fault.reason
    assert not Entity.objects.exists()
    add_user("bea", role=Role.ADMINISTRATOR)
    import_lines(user("ada", active=False))
    assert not account("ada").is_active
