from django.db import migrations, models


class Migration(migrations.Migration):
    """Rename the field `PlanItem.is_so` to `is_noop`. The column keeps its name, so the database does not change."""

    dependencies = [
        ('grants', '0006_journal_by_place'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RenameField(model_name='planitem', old_name='is_so', new_name='is_noop'),
                migrations.AlterField(
                    model_name='planitem',
                    name='is_noop',
                    field=models.BooleanField(db_column='is_so', default=False),
                ),
            ],
        ),
    ]
