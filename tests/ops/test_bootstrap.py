import io
import re

import pytest
from django.contrib.auth import authenticate, get_user_model
from django.core.management import CommandError, call_command

from authzconsole.management.commands import bootstrap
from entities.models import Entity
from grants.journal import first_break
from grants.models import JournalLine, Role

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def somebodys_entity(settings, tmp_path):
    """The database is not empty, so that no demo is loaded, and static files go elsewhere."""
    settings.STATIC_ROOT = tmp_path / "static"
    return Entity.objects.create(kind="instance", key="cdap")


def bootstrapped():
    output = io.StringIO()
    call_command("bootstrap", stdout=output)
    return output.getvalue()


def test_the_first_start_makes_an_administrator_who_is_nobody_in_a_decision():
    name, password = re.search(r"Sign in as (\S+) with the password (\S+)", bootstrapped()).groups()
    admin = authenticate(username=name, password=password)
    assert admin.username == "admin"
    assert admin.role == Role.ADMINISTRATOR
    assert not admin.is_principal and not admin.is_superuser and not admin.is_staff


def test_the_password_is_shown_once():
    assert "password" in bootstrapped()
    assert bootstrapped() == ""
    assert get_user_model().objects.count() == 1


def test_an_administrator_who_was_made_inactive_is_replaced():
    bootstrapped()
    get_user_model().objects.update(is_active=False)
    assert "Sign in as administrator with" in bootstrapped()


def test_a_tenants_own_user_called_admin_does_not_become_the_consoles():
    get_user_model().objects.create_user("admin")
    assert "Sign in as administrator with" in bootstrapped()
    assert get_user_model().objects.get(username="admin").role == Role.ORDINARY


def test_an_empty_database_gets_the_demo_tenant(monkeypatch):
    Entity.objects.all().delete()
    called = []
    real = bootstrap.call_command
    monkeypatch.setattr(bootstrap, "call_command",
                        lambda name, *args, **options: called.append((name, *args)) if name == "import_tenant"
                        else real(name, *args, **options))
    bootstrapped()
    assert called == [("import_tenant", str(bootstrap.DEMO_TENANT))]


def test_static_files_are_collected_again_only_when_one_changed(settings, tmp_path, monkeypatch):
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "one.css").write_text("a {}")
    settings.STATICFILES_DIRS = [folder]
    calls = []
    real = bootstrap.call_command
    monkeypatch.setattr(bootstrap, "call_command", lambda *args, **options: (calls.append(args[0]), real(*args, **options)))
    bootstrap.collect_static_files()
    bootstrap.collect_static_files()
    assert calls == ["collectstatic"]
    assert (settings.STATIC_ROOT / "one.css").is_file()
    (folder / "two.css").write_text("b {}")
    bootstrap.collect_static_files()
    assert calls == ["collectstatic", "collectstatic"]
    assert (settings.STATIC_ROOT / "two.css").is_file()


def test_the_password_is_told_also_when_the_demo_does_not_load(monkeypatch, tmp_path):
    Entity.objects.all().delete()
    (tmp_path / "broken.jsonl").write_text("no tenant\n")
    monkeypatch.setattr(bootstrap, "DEMO_TENANT", tmp_path / "broken.jsonl")
    output = io.StringIO()
    with pytest.raises(CommandError):
        call_command("bootstrap", stdout=output)
    assert "Sign in as admin with the password" in output.getvalue()


def test_the_first_administrator_stands_in_the_journal():
    bootstrap.create_first_administrator()
    line = JournalLine.objects.get()
    assert (line.actor, line.action, line.principal) == ("bootstrap", "user-add", "user:admin")
    assert line.detail == "role: administrator"
    assert first_break() is None
