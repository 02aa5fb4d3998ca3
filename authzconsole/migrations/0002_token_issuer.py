import re

from django.db import migrations, models

TOKEN_NUMBER = re.compile(r"\(number (\d+)\) for [a-z, ]+, until \d{4}-\d\d-\d\d$")


def set_issuers(apps, schema_editor):
    """Set the issuer of each token to the actor of its journal line."""
    tokens, lines = apps.get_model("authzconsole", "ApiToken"), apps.get_model("grants", "JournalLine")
    for actor, detail in lines.objects.filter(action="token-add").values_list("actor", "detail").iterator():
        if match := TOKEN_NUMBER.search(detail):
            tokens.objects.filter(pk=int(match[1])).update(issued_by=actor)


class Migration(migrations.Migration):

    dependencies = [
        ('authzconsole', '0001_initial'),
        ('grants', '0009_service_accounts_and_tokens_of_lines'),
    ]

    operations = [
        migrations.AddField(
            model_name='apitoken',
            name='issued_by',
            field=models.CharField(blank=True, db_default='', default='', max_length=150),
        ),
        migrations.RunPython(set_issuers, migrations.RunPython.noop),
    ]
