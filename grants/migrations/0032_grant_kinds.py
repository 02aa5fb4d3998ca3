from django.db import migrations, models


class Migration(migrations.Migration):
    """Store the kind of the entity with each grant.

    The next two migrations fill the column and index it: in transactions of their own, so that decisions are answered meanwhile.
    """

    dependencies = [("grants", "0031_review_item_source_order")]

    operations = [
        migrations.AddField(f"{principal}grant", "entity_kind",
                            models.CharField(max_length=63, blank=True, default="", db_default=""))
        for principal in ("user", "group")
    ]
