from django.db import migrations, models
from django.db.models import Value


class Migration(migrations.Migration):
    dependencies = [("grants", "0041_name_unanswered_items")]

    operations = [
        migrations.AddField(
            model_name="campaign",
            name="levels",
            field=models.JSONField(db_default=Value({}, output_field=models.JSONField()), default=dict),
        ),
    ]
