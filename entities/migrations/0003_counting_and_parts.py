from django.db import DatabaseError, migrations, models, transaction

BY_PARTS = "entity_key_parts"


def add_parts_index(apps, schema_editor) -> None:
    """Add an index for searches of any part of a key, in any case.

    The index needs an extension, which PostgreSQL adds only for a role that may create objects in the database. If the
    extension is refused or not available, the index is left out, and a search reads all keys.
    """
    if schema_editor.connection.vendor != "postgresql":
        return
    try:
        with transaction.atomic(using=schema_editor.connection.alias):
            schema_editor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
            schema_editor.execute(f"CREATE INDEX IF NOT EXISTS {BY_PARTS} ON entities_entity USING gin (upper(key) gin_trgm_ops)")
    except DatabaseError:
        pass


def drop_parts_index(apps, schema_editor) -> None:
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"DROP INDEX IF EXISTS {BY_PARTS}")


class Migration(migrations.Migration):
    """Add indexes from which PostgreSQL counts the entities of a namespace and searches keys without reading the table."""

    dependencies = [("entities", "0002_byte_order")]

    operations = [
        migrations.RemoveIndex("entity", "entity_in_namespace"),
        migrations.AddIndex("entity", models.Index(fields=["namespace", "kind", "state", "id"], name="entity_in_namespace")),
        migrations.RunPython(add_parts_index, drop_parts_index),
    ]
