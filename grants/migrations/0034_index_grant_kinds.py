from django.db import migrations, models


class Migration(migrations.Migration):
    """Add an index that finds the grants of a principal on one kind."""

    dependencies = [("grants", "0033_fill_grant_kinds")]

    operations = [
        migrations.AddIndex(f"{principal}grant",
                            models.Index(fields=[principal, "entity_kind"], name=f"{principal}_grant_on_kind"))
        for principal in ("user", "group")
    ]
