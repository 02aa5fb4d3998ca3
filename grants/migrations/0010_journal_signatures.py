import hashlib
import hmac
import json

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import migrations, models
from django.db.models import Exists, OuterRef, Value
from django.db.models.functions import Concat
from django.utils import timezone

# Plain SQL, because Django would copy the whole journal on SQLite for each column.
COLUMNS = ("key_id varchar(16) DEFAULT '' NOT NULL", "mac varchar(64) DEFAULT '' NOT NULL")
# the hashed columns of lines of format 2
CONTENT = ("revision", "at", "actor", "action", "principal", "entity", "privilege", "detail", "reason", "request_id",
           "caller_request_id", "token", "issuer", "format")


# Hashes and signatures as the console computes them. Migrations do not import the console, because its code changes later.
def hash_of_line(previous_hash, line):
    content = [previous_hash, *(getattr(line, name) for name in CONTENT)]
    content[2] = content[2].isoformat(timespec="microseconds")
    return hashlib.sha256(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()


def key_id_of(secret):
    return hashlib.sha256(f"authzconsole key id\n{secret}".encode()).hexdigest()[:16]


def signature(secret, purpose, *values):
    text = "\n".join((f"authzconsole {purpose}", key_id_of(secret), *map(str, values)))
    return hmac.digest(secret.encode(), text.encode(), "sha256").hex()


def seal_journal(apps, schema_editor):
    """Sign the head of an existing journal. The new line `seal` covers the hashes of all earlier lines.

    Accounts without a line, such as those of `createsuperuser`, get a line first.
    """
    User, Line, Head = (apps.get_model("grants", name) for name in ("User", "JournalLine", "JournalHead"))
    head = Head.objects.filter(pk=1).first()
    if head is None or head.revision == 0:
        return
    if not settings.JOURNAL_KEYS:
        raise ImproperlyConfigured("JOURNAL_KEYS contains no key, so the journal cannot be signed")
    secret, sealed = settings.JOURNAL_KEYS[0], f"the hashes of lines 1 to {head.revision}: {head.hash}"
    head.at = max(timezone.now(), head.at or timezone.now())

    def append(**changes):
        line = Line(revision=head.revision + 1, at=head.at, actor="migrate", format=2, reason="upgrade", **changes)
        line.hash = hash_of_line(head.hash, line)
        line.key_id, line.mac = key_id_of(secret), signature(secret, "journal line", line.hash)
        line.save(force_insert=True)
        head.revision, head.hash = line.revision, line.hash

    lines = Line.objects.filter(action="user-add", principal=OuterRef("principal"))
    unknown = User.objects.annotate(principal=Concat(Value("user:"), "username", output_field=models.CharField()))
    for name, is_active, role in list(unknown.exclude(Exists(lines)).order_by("username")
                                      .values_list("username", "is_active", "role")):
        detail = [] if is_active else ["inactive"]
        append(action="user-add", principal=f"user:{name}",
               detail=", ".join([*detail, *([] if role == "ordinary" else [f"role: {role}"]), "without a line until now"]))
    append(action="seal", detail=sealed)
    head.key_id, head.mac = key_id_of(secret), signature(secret, "journal head", head.revision, head.hash)
    head.save()


def signature_fields(model):
    return [
        migrations.AddField(
            model_name=model,
            name='key_id',
            field=models.CharField(blank=True, db_default='', default='', max_length=16),
        ),
        migrations.AddField(
            model_name=model,
            name='mac',
            field=models.CharField(blank=True, db_default='', default='', max_length=64),
        ),
    ]


class Migration(migrations.Migration):
    """Add signatures to the journal and seal the existing lines."""

    dependencies = [
        ('grants', '0009_service_accounts_and_tokens_of_lines'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL([f"ALTER TABLE grants_{table} ADD COLUMN {column}"
                                   for table in ("journalline", "journalhead") for column in COLUMNS]),
            ],
            state_operations=[*signature_fields('journalline'), *signature_fields('journalhead')],
        ),
        migrations.RunPython(seal_journal, migrations.RunPython.noop),
    ]
