"""Let plans add groups."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("grants", "0044_journal_namespace")]

    operations = [
        migrations.AlterField(
            model_name="planitem",
            name="verb",
            field=models.CharField(
                max_length=10,
                choices=[
                    ("add", "Add"),
                    ("grant", "Grant"),
                    ("revoke", "Revoke"),
                    ("join", "Join"),
                    ("leave", "Leave"),
                    ("activate", "Activate"),
                    ("deactivate", "Deactivate"),
                ],
            ),
        ),
    ]
