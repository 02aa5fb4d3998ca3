from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("grants", "0032_grant_kinds")]

    operations = [
        migrations.RunSQL(
            f"UPDATE {table} SET entity_kind = e.kind FROM entities_entity e WHERE e.id = {table}.content_object_id",
            migrations.RunSQL.noop)
        for table in ("grants_usergrant", "grants_groupgrant")
    ]
