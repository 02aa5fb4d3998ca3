"""Drop the tables of the former scheduler, which only repeated the settings."""

from django.db import migrations

# first the table that refers to the others
TABLES = (
    "periodictask",
    "periodictasks",
    "intervalschedule",
    "crontabschedule",
    "solarschedule",
    "clockedschedule",
)


class Migration(migrations.Migration):

    dependencies = [("authzconsole", "0013_jobs")]

    operations = [
        migrations.RunSQL([f"DROP TABLE IF EXISTS django_celery_beat_{table}" for table in TABLES]),
    ]
