"""Reserve names that begin with `role:`: such a group is a role from now on."""

from django.db import migrations

MAX_LISTED = 5


def refuse_group_names(apps, schema_editor):
    groups = apps.get_model("auth", "Group").objects.filter(name__startswith="role:").order_by("name")
    if names := list(groups.values_list("name", flat=True)[:MAX_LISTED]):
        listed = ", ".join(f"group:{name}" for name in names)
        raise ValueError(f"the names of groups cannot begin with `role:` any more: rename {listed} before the upgrade")


class Migration(migrations.Migration):
    dependencies = [("grants", "0050_finding_mail")]
    operations = [migrations.RunPython(refuse_group_names, migrations.RunPython.noop)]
