from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('authzconsole', '0010_evidence_contents'),
    ]

    operations = [
        migrations.AddField(
            model_name='accountsession',
            name='provider_name',
            field=models.CharField(blank=True, db_default='', db_index=True, default='', max_length=64),
        ),
    ]
