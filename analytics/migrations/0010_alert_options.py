"""Store for which options an alert has crossed its value, so that runs with other options do not change it."""

from django.db import migrations, models


def copy_state(apps, schema_editor):
    alert, schedule = apps.get_model("analytics", "FigureAlert"), apps.get_model("analytics", "Schedule")
    options = dict(schedule.objects.values_list("analysis", "options"))
    for row in alert.objects.filter(is_crossed=True):
        # nightly runs are those that alerts are mostly about
        row.crossed_options = [options.get(row.analysis, {})]
        row.save(update_fields=["crossed_options"])


def restore_state(apps, schema_editor):
    apps.get_model("analytics", "FigureAlert").objects.exclude(crossed_options=[]).update(is_crossed=True)


class Migration(migrations.Migration):
    dependencies = [("analytics", "0009_alerts")]

    operations = [
        migrations.AddField("figurealert", "crossed_options", models.JSONField(default=list)),
        migrations.RunPython(copy_state, restore_state),
        migrations.RemoveField("figurealert", "is_crossed"),
    ]
