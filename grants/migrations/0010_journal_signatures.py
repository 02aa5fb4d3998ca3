from django.db import migrations, models
from django.db.models import Exists, OuterRef, Value
from django.db.models.functions import Concat
from django.utils import timezone

from grants.journal_keys import signing_key
from grants.models import JournalLine, line_hash

# Plain SQL, because Django would copy the whole journal on SQLite for each column.
COLUMNS = ("key_id varchar(16) DEFAULT '' NOT NULL", "mac varchar(64) DEFAULT '' NOT NULL")
# the columns and the hash of lines of format 2
CONTENT = ("revision", "at", "actor", "action", "principal", "entity", "privilege", "detail", "reason", "request_id",
           "caller_request_id", "token", "issuer", "format")
assert CONTENT == JournalLine.HASHED


def seal_journal(apps, schema_editor):
    """Sign the head of an existing journal. The new line `seal` covers the hashes of all earlier lines.

    Accounts without a line, such as those of `createsuperuser`, get a line first.
    """
    User, Line, Head = (apps.get_model("grants", name) for name in ("User", "JournalLine", "JournalHead"))
    head = Head.objects.filter(pk=1).first()
    if head is None or head.revision == 0:
        return
    key, sealed = signing_key(), f"the hashes of lines 1 to {head.revision}: {head.hash}"
    head.at = max(timezone.now(), head.at or timezone.now())

    def append(**changes):
        line = Line(revision=head.revision + 1, at=head.at, actor="migrate", format=2, reason="upgrade", **changes)
        line.hash = line_hash(head.hash, [getattr(line, name) for name in CONTENT])
        line.key_id, line.mac = key.key_id, key.sign_line(line.hash)
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
    head.key_id, head.mac = key.key_id, key.sign_head(head.revision, head.hash)
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
