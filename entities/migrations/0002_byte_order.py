from django.db import migrations

COLUMNS = {"kind": 63, "key": 512}


def collate(schema_editor, collation: str) -> None:
    if schema_editor.connection.vendor != "postgresql":
        # SQLite compares bytes by default
        return
    for column, length in COLUMNS.items():
        schema_editor.execute(f'ALTER TABLE entities_entity ALTER COLUMN "{column}" TYPE varchar({length}) COLLATE "{collation}"')


class Migration(migrations.Migration):
    """Sort addresses by their bytes on every database, so that a search for the start of a key uses the index."""

    dependencies = [("entities", "0001_initial")]

    operations = [
        migrations.RunPython(
            lambda apps, schema_editor: collate(schema_editor, "C"),
            lambda apps, schema_editor: collate(schema_editor, "default"),
        ),
    ]
