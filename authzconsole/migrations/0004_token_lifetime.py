import django.db.models.functions.datetime
import django.utils.timezone
from django.db import migrations, models


def keep_tokens_of_services(apps, schema_editor):
    """Let tokens of ordinary accounts ask about all subjects until they expire, because version 1.0 had no service accounts.

    Tokens of demoted accounts are not kept.
    """
    tokens, lines = apps.get_model("authzconsole", "ApiToken"), apps.get_model("grants", "JournalLine")
    demoted = {principal.removeprefix("user:") for principal in
               lines.objects.filter(action="role-set").values_list("principal", flat=True).distinct()}
    rows = tokens.objects.filter(scopes__contains="decide", owner__role="ordinary", revoked_at=None)
    for pk, owner in rows.values_list("pk", "owner__username"):
        if owner not in demoted:
            tokens.objects.filter(pk=pk).update(is_unlimited=True)


class Migration(migrations.Migration):

    dependencies = [
        ('authzconsole', '0003_provisioning'),
    ]

    operations = [
        migrations.AddField(
            model_name='apitoken',
            name='limit_starts_at',
            field=models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), default=django.utils.timezone.now),
        ),
        migrations.AddField(
            model_name='apitoken',
            name='is_unlimited',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.RunPython(keep_tokens_of_services, migrations.RunPython.noop),
    ]
