import io
import re

import pytest
from django.contrib.auth import authenticate, get_user_model
from django.core.management import call_command

from authzconsole.demo import history
from authzconsole.management.commands import bootstrap
from entities.models import Entity
from grants.journal import first_break
from grants.models import JournalLine, Role

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def existing_entity(settings, tmp_path):
    """Use a database with one entity, so that no demo tenant is loaded, and a temporary folder for static
    files.
    """
    settings.STATIC_ROOT = tmp_path / "static"
    return Entity.objects.create(kind="instance", key="cdap")


def run_bootstrap():
    output = io.StringIO()
    call_command("bootstrap", stdout=output)
    return output.getvalue()


def first_account():
    """Return the name and the password that the command prints."""
    return re.search(r"Sign in as (\S+) with the password (\S+)", run_bootstrap()).groups()


def test_the_first_start_creates_an_administrator_that_is_not_a_principal():
    name, password = first_account()
    admin = authenticate(username=name, password=password)
    assert admin.username == "admin"
    assert admin.role == Role.ADMINISTRATOR
    assert not admin.is_principal and not admin.is_superuser and not admin.is_staff
    line = JournalLine.objects.get()
    assert (line.actor, line.action, line.principal) == ("bootstrap", "user-add", "user:admin")
    assert line.detail == "role: administrator" and first_break() is None


def test_the_first_password_must_be_changed_at_the_first_sign_in(client):
    name, password = first_account()
    assert client.post("/sign-in", {"username": name, "password": password}).status_code == 302
    assert client.get("/").headers["Location"] == "/password?next=%2F"
    new = "quite another password"
    client.post("/password", {"old_password": password, "new_password1": new, "new_password2": new})
    assert client.get("/password").status_code == 200 and client.get("/ask").status_code == 200


def test_the_password_is_printed_once():
    assert "password" in run_bootstrap()
    assert run_bootstrap() == ""
    assert get_user_model().objects.count() == 1


def test_an_inactive_administrator_is_replaced():
    run_bootstrap()
    get_user_model().objects.update(is_active=False)
    assert "Sign in as administrator with" in run_bootstrap()


def test_a_tenant_user_named_admin_does_not_become_a_console_administrator():
    get_user_model().objects.create_user("admin")
    assert "Sign in as administrator with" in run_bootstrap()
    assert get_user_model().objects.get(username="admin").role == Role.ORDINARY


def test_an_empty_database_gets_the_demo_tenant_with_its_history_before_the_first_account(monkeypatch):
    Entity.objects.all().delete()
    loads = []
    monkeypatch.setattr(
        bootstrap, "load_history", lambda: loads.append(get_user_model().objects.count()) or 3
    )
    output = run_bootstrap()
    assert loads == [0]
    assert "3 journal lines" in output and "Sign in as admin" in output


def test_a_journal_with_lines_gets_only_the_present_demo_tenant(monkeypatch):
    run_bootstrap()
    Entity.objects.all().delete()
    imports = []
    original = bootstrap.call_command
    monkeypatch.setattr(bootstrap, "load_history", lambda: imports.append("history"))
    monkeypatch.setattr(
        bootstrap,
        "call_command",
        lambda name, *args, **options: (
            imports.append((name, *args)) if name == "import_tenant" else original(name, *args, **options)
        ),
    )
    run_bootstrap()
    assert imports == [("import_tenant", str(bootstrap.DEMO_TENANT))]


def test_an_empty_database_in_production_gets_no_demo_tenant(settings):
    settings.PRODUCTION = True
    Entity.objects.all().delete()
    assert "Sign in as admin" in run_bootstrap()
    assert not Entity.objects.exists()


def test_static_files_are_collected_again_only_after_a_change(settings, tmp_path, monkeypatch):
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "one.css").write_text("a {}")
    settings.STATICFILES_DIRS = [folder]
    calls = []
    original = bootstrap.call_command
    monkeypatch.setattr(
        bootstrap,
        "call_command",
        lambda *args, **options: (calls.append(args[0]), original(*args, **options)),
    )
    bootstrap.collect_static_files()
    bootstrap.collect_static_files()
    assert calls == ["collectstatic"]
    assert (settings.STATIC_ROOT / "one.css").is_file()
    (folder / "two.css").write_text("b {}")
    bootstrap.collect_static_files()
    assert calls == ["collectstatic", "collectstatic"]
    assert (settings.STATIC_ROOT / "two.css").is_file()


def test_the_password_is_printed_even_if_the_demo_tenant_fails_to_load(monkeypatch, tmp_path):
    Entity.objects.all().delete()
    (tmp_path / "history.jsonl").write_text("no change\n")
    monkeypatch.setattr(history, "FOLDER", tmp_path)
    output = io.StringIO()
    with pytest.raises(ValueError):
        call_command("bootstrap", stdout=output)
    assert "Sign in as admin with the password" in output.getvalue()
