"""The manager of users gets methods (grants.querysets); no table changes."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("grants", "0007_plan_item_is_noop")]

    operations = [migrations.AlterModelManagers(name="user", managers=[])]
