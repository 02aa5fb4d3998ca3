from django.db import DatabaseError, migrations, models, transaction

BY_PARTS = "entity_key_parts"


def index_parts(apps, schema_editor) -> None:
    """An index that finds any part of a key in any case. PostgreSQL lets who may create in the database add the extension that
    it takes; where that is refused, or the extension is not there, a search reads through the keys as it does without."""
    if schema_editor.connection.vendor != "postgresql":
        return
    try:
        with transaction.atomic(using=schema_editor.connection.alias):
            schema_editor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
            schema_editor.execute(f"CREATE INDEX IF NOT EXISTS {BY_PARTS} ON entities_entity USING gin (upper(key) gin_trgm_ops)")
    except DatabaseError:
        pass


def forget_parts(apps, schema_editor) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"DROP INDEX IF EXISTS {BY_PARTS}")


class Migration(migrations.Migration):
    """What a page counts in a namespace, and what a text finds, comes from an index alone."""

    dependencies = [("entities", "0002_byte_order")]

    operations = [
        migrations.RemoveIndex("entity", "entity_in_namespace"),
        migrations.AddIndex("entity", models.Index(fields=["namespace", "kind", "state", "id"], name="entity_in_namespace")),
        migrations.RunPython(index_parts, forget_parts),
    ]
