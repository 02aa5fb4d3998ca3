import hashlib
import secrets
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.core.management.base import BaseCommand

from entities.models import Entity
from grants.changes.authority import administrator_transaction
from grants.journal import Author
from grants.models import Role, User
from grants.principals.services import add_user

DEMO_TENANT = Path(settings.BASE_DIR) / "authzconsole" / "demo" / "tenant.jsonl"
# nothing that is easily misread when copied from a screen
LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"


def static_fingerprint() -> str:
    """Changes with the names, sizes and times of the files that `collectstatic` would collect."""
    digest = hashlib.sha256()
    for finder in get_finders():
        for name, storage in finder.list(ignore_patterns=[]):
            facts = Path(storage.path(name)).stat()
            digest.update(f"{name} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def static_collect() -> None:
    root = Path(settings.STATIC_ROOT)
    # beside the folder, not in it: what is in it is served
    stamp, fingerprint = root.with_name(f"{root.name}.collected"), static_fingerprint()
    if not root.is_dir() or not stamp.is_file() or stamp.read_text() != fingerprint:
        call_command("collectstatic", "--clear", "--noinput", verbosity=0)
        stamp.write_text(fingerprint)


def administrator_create() -> tuple[str, str] | None:
    """The name and password of the first administrator; None where an active one exists."""
    author = Author("bootstrap", reason="the first start")
    with administrator_transaction(author):
        if User.objects.filter(role=Role.ADMINISTRATOR, is_active=True).exists():
            return None
        # an account that is there keeps its role: a tenant's own `admin` does not become the console's
        names = ["admin", "administrator", *(f"administrator{number}" for number in range(2, 100))]
        name = next(name for name in names if not User.objects.filter(username=name).exists())
        password = "-".join("".join(secrets.choice(LETTERS) for _ in range(5)) for _ in range(4))
        add_user(author=author, name=name, role=Role.ADMINISTRATOR, is_principal=False)
        user = User.objects.get(username=name)
        user.set_password(password)
        user.save(update_fields=["password"])
    return name, password


class Command(BaseCommand):
    help = ("Brings database and static files to this version; on an empty database also makes the first "
            "administrator, whose password it prints this once, and loads the demo tenant.")

    def handle(self, **options):
        call_command("migrate", interactive=False, verbosity=0)
        static_collect()
        made = administrator_create()
        try:
            if not Entity.objects.exists():
                call_command("import_tenant", str(DEMO_TENANT), stdout=self.stdout, stderr=self.stderr)
        finally:
            # also when the demo does not load: the account is there, and nothing else knows its password
            if made:
                self._tell(*made)

    def _tell(self, name: str, password: str) -> None:
        self.stdout.write(f"Sign in as {name} with the password {password}\n"
                          f"It is shown only now; `.venv/bin/python manage.py changepassword {name}` sets another.")
        self.stdout.flush()
