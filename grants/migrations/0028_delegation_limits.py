from django.db import migrations, models


class Migration(migrations.Migration):
    """Store the limits that administrators set for delegation."""

    dependencies = [("grants", "0027_validity_in_indexes")]

    operations = [
        migrations.CreateModel(
            name="StoredDelegationLimits",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("privileges", models.JSONField()),
                ("kinds", models.JSONField(null=True)),
                ("max_days", models.PositiveIntegerField()),
            ],
            options={
                "default_permissions": (),
                "constraints": [models.CheckConstraint(condition=models.Q(("pk", 1)), name="one_row_of_delegation_limits")],
            },
        ),
    ]
