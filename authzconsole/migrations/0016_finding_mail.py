from django.db import migrations, models
from django.db.models import F


def mark_as_notified(apps, schema_editor):
    """Send no e-mail about findings of earlier versions."""
    apps.get_model("authzconsole", "Finding").objects.update(notified_at=F("since"))


class Migration(migrations.Migration):

    dependencies = [("authzconsole", "0015_findings")]

    operations = [
        migrations.AddField(
            model_name="finding",
            name="notified_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.RunPython(mark_as_notified, migrations.RunPython.noop),
    ]
