from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("authzconsole", "0020_connection_syncs"),
    ]

    operations = [
        migrations.AddField(
            model_name="connection",
            name="maker_ids",
            field=models.JSONField(default=list),
        ),
    ]
