from django.db import migrations, models

# Plain SQL, because Django would copy the whole journal on SQLite for each column.
ADD_COLUMN = "ALTER TABLE grants_journalline ADD COLUMN {}"


class Migration(migrations.Migration):
    """Add service accounts, and the token and the caller's request id to journal lines. Existing lines get format 1."""

    dependencies = [
        ('grants', '0008_user_manager'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL([
                    ADD_COLUMN.format("caller_request_id varchar(200) DEFAULT '' NOT NULL"),
                    ADD_COLUMN.format("token bigint NULL"),
                    ADD_COLUMN.format("issuer varchar(150) DEFAULT '' NOT NULL"),
                    ADD_COLUMN.format("format smallint DEFAULT 1 NOT NULL"),
                ]),
            ],
            state_operations=[
                migrations.AddField(
                    model_name='journalline',
                    name='caller_request_id',
                    field=models.CharField(blank=True, db_default='', default='', max_length=200),
                ),
                migrations.AddField(
                    model_name='journalline',
                    name='token',
                    field=models.BigIntegerField(null=True),
                ),
                migrations.AddField(
                    model_name='journalline',
                    name='issuer',
                    field=models.CharField(blank=True, db_default='', default='', max_length=150),
                ),
                migrations.AddField(
                    model_name='journalline',
                    name='format',
                    field=models.SmallIntegerField(db_default=1, default=2),
                ),
            ],
        ),
        migrations.AddField(
            model_name='user',
            name='is_service',
            field=models.BooleanField(db_default=False, default=False),
        ),
    ]
