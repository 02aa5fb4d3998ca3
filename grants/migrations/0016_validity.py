from django.conf import settings
from django.db import migrations, models
from django.db.models import F, Q

COLUMNS = ("valid_from", "valid_until")
# by table, with the prefix of its indexes and constraints; evaluators look for times only in the tables with indexes
EVALUATED = {"usergrant": "user_grant", "groupgrant": "group_grant", "membership": "membership"}
CONSTRAINED = {**EVALUATED, "planitem": "plan_item"}
PERIODS = ("membershipperiod", "usergrantperiod", "groupgrantperiod")


class Migration(migrations.Migration):
    """Add the validity of grants and memberships. Memberships get a model on the table that Django made for them."""

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("grants", "0015_history"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(state_operations=[
            migrations.CreateModel(
                name="Membership",
                fields=[
                    ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                    ("user", models.ForeignKey(on_delete=models.CASCADE, related_name="memberships",
                                               to=settings.AUTH_USER_MODEL)),
                    ("group", models.ForeignKey(on_delete=models.CASCADE, related_name="memberships", to="auth.group")),
                ],
                options={"db_table": "grants_user_groups", "default_permissions": (),
                         "unique_together": {("user", "group")}},
            ),
            migrations.AlterField(
                model_name="user",
                name="groups",
                field=models.ManyToManyField(blank=True, related_name="user_set", related_query_name="user",
                                             through="grants.Membership", to="auth.group", verbose_name="groups"),
            ),
        ]),
        *(migrations.AddField(model, column, models.DateTimeField(blank=True, null=True))
          for model in (*CONSTRAINED, *PERIODS) for column in COLUMNS),
        *(migrations.AddConstraint(model, models.CheckConstraint(condition=Q(valid_from__lt=F("valid_until")),
                                                                 name=f"{prefix}_validity"))
          for model, prefix in CONSTRAINED.items()),
        *(migrations.AddIndex(model, models.Index(fields=[column], name=f"{prefix}_{column}",
                                                  condition=Q(**{f"{column}__isnull": False})))
          for model, prefix in EVALUATED.items() for column in COLUMNS),
    ]
