"""Prepare the database and the static files for this version; set up a new console if the database is empty."""

import hashlib
import secrets
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.core.management.base import BaseCommand

from authzconsole.demo.history import load_history
from entities.models import Entity
from grants.authority.transactions import administrator_transaction
from grants.journal import Author, current_revision, read_only_reason
from grants.models import Role, User
from grants.principals.services import add_user, first_password_end

DEMO_TENANT = Path(settings.BASE_DIR) / "authzconsole" / "demo" / "tenant.jsonl"
# without characters that look alike, because users type the password from the screen
LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"


def static_fingerprint() -> str:
    """Return a digest of the names, sizes and modification times of the files that `collectstatic` would
    collect.
    """
    digest = hashlib.sha256()
    for finder in get_finders():
        for name, storage in finder.list(ignore_patterns=[]):
            status = Path(storage.path(name)).stat()
            digest.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def collect_static_files() -> None:
    """Run `collectstatic` unless the collected files are up to date, or an installation has collected them."""
    if settings.IS_STATIC_INSTALLED:
        return
    root = Path(settings.STATIC_ROOT)
    # the stamp is outside the folder, because the web server publishes every file in the folder
    stamp, fingerprint = root.with_name(f"{root.name}.collected"), static_fingerprint()
    if not root.is_dir() or not stamp.is_file() or stamp.read_text() != fingerprint:
        call_command("collectstatic", "--clear", "--noinput", verbosity=0)
        stamp.write_text(fingerprint)


def create_first_administrator() -> tuple[str, str] | None:
    """Create the first administrator and return the name and password; return None if an active administrator
    exists.

    The administrator must change the password at the first sign-in.
    """
    author = Author("bootstrap", reason="the first start")
    with administrator_transaction(author):
        if User.objects.filter(role=Role.ADMINISTRATOR, is_active=True).exists():
            return None
        # an existing account keeps its role, so that the user `admin` of a tenant does not become an
        # administrator
        names = ["admin", "administrator", *(f"administrator{number}" for number in range(2, 100))]
        name = next(name for name in names if not User.objects.filter(username__iexact=name).exists())
        password = "-".join("".join(secrets.choice(LETTERS) for _ in range(5)) for _ in range(4))
        add_user(author=author, name=name, role=Role.ADMINISTRATOR, is_principal=False)
        user = User.objects.get(username=name)
        user.set_password(password)
        user.must_change_password, user.password_expires_at = True, first_password_end()
        user.save(update_fields=["password", "must_change_password", "password_expires_at"])
    return name, password


def manage_command() -> str:
    """Return how an operator calls a command of this installation."""
    return "authzconsole manage" if settings.IS_STATIC_INSTALLED else ".venv/bin/python manage.py"


class Command(BaseCommand):
    help = (
        "Migrate the database and collect the static files. On an empty database, also load the demo tenant with its history "
        "(not in production), create the first administrator, and print the password once."
    )

    def handle(self, **options):
        call_command("migrate", interactive=False, verbosity=0)
        collect_static_files()
        if reason := read_only_reason():
            self.stderr.write(f"The console starts read-only: {reason}.")
            return
        try:
            if not settings.PRODUCTION and not Entity.objects.exists():
                self._load_demo_tenant()
        finally:
            # even if the demo tenant cannot be loaded, because an administrator must be able to sign in
            if credentials := create_first_administrator():
                self._print_credentials(*credentials)

    def _load_demo_tenant(self) -> None:
        """Load the demo tenant.

        Its history is written only if the journal is empty, because lines cannot precede others.
        """
        if current_revision():
            call_command("import_tenant", str(DEMO_TENANT), stdout=self.stdout, stderr=self.stderr)
            return
        lines = load_history()
        self.stdout.write(
            f"The demo tenant was loaded: two years of invented history, {lines:,} journal lines.\n"
            f"Its users have no passwords; `{manage_command()} changepassword bruno.silva` sets that of one."
        )

    def _print_credentials(self, name: str, password: str) -> None:
        command = manage_command()
        self.stdout.write(
            f"Sign in as {name} with the password {password}\n"
            f"You choose your own password then. This one is shown only now and works for "
            f"{settings.FIRST_PASSWORD_HOURS} hours;\n"
            f"`{command} changepassword {name}` sets another."
        )
        self.stdout.flush()
