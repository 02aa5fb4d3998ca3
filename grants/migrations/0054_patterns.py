"""Grants on patterns. Addresses cannot contain `*` or `?` from now on, because they would be patterns."""

import django.db.models.deletion
from django.db import migrations, models

MAX_LISTED = 5


def refuse_wildcards(apps, schema_editor):
    addresses = set()
    for wildcard in "*?":
        rows = apps.get_model("entities", "Entity").objects.filter(key__contains=wildcard)
        addresses.update(f"{kind}:{key}" for kind, key in rows.values_list("kind", "key")[:MAX_LISTED])
        lines = apps.get_model("grants", "JournalLine").objects.filter(entity__contains=wildcard)
        addresses.update(lines.values_list("entity", flat=True)[:MAX_LISTED])
    if addresses:
        listed = ", ".join(sorted(addresses)[:MAX_LISTED])
        raise ValueError(
            f"addresses cannot contain `*` or `?` any more, because they would become patterns: {listed}. Nothing was changed. "
            "See `Addresses with * or ?` in docs/guides/upgrading.md"
        )


class Migration(migrations.Migration):

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('entities', '0004_entity_not_live'),
        ('grants', '0053_plan_role_groups'),
    ]

    operations = [
        migrations.RunPython(refuse_wildcards, migrations.RunPython.noop),
        migrations.RemoveIndex(
            model_name='groupgrant',
            name='group_grant_on_entity',
        ),
        migrations.RemoveIndex(
            model_name='groupgrant',
            name='group_grant_in_namespace',
        ),
        migrations.RemoveIndex(
            model_name='usergrant',
            name='user_grant_on_entity',
        ),
        migrations.RemoveIndex(
            model_name='usergrant',
            name='user_grant_in_namespace',
        ),
        migrations.AlterUniqueTogether(
            name='groupgrant',
            unique_together=set(),
        ),
        migrations.AlterUniqueTogether(
            name='usergrant',
            unique_together=set(),
        ),
        migrations.AddField(
            model_name='groupgrant',
            name='pattern',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='entities.entity'),
        ),
        migrations.AddField(
            model_name='groupgrantperiod',
            name='is_on_pattern',
            field=models.BooleanField(db_default=False),
        ),
        migrations.AddField(
            model_name='usergrant',
            name='pattern',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='entities.entity'),
        ),
        migrations.AddField(
            model_name='usergrantperiod',
            name='is_on_pattern',
            field=models.BooleanField(db_default=False),
        ),
        migrations.AddIndex(
            model_name='groupgrant',
            index=models.Index(fields=['content_object', 'group', 'permission'], include=('valid_from', 'valid_until', 'pattern'), name='group_grant_on_entity'),
        ),
        migrations.AddIndex(
            model_name='groupgrant',
            index=models.Index(fields=['group', 'namespace', 'permission', 'content_object'], include=('valid_from', 'valid_until', 'pattern'), name='group_grant_in_namespace'),
        ),
        migrations.AddIndex(
            model_name='groupgrant',
            index=models.Index(condition=models.Q(('pattern__isnull', False)), fields=['pattern', 'group', 'permission'], name='group_grant_by_pattern'),
        ),
        migrations.AddIndex(
            model_name='groupgrantperiod',
            index=models.Index(condition=models.Q(('is_on_pattern', True)), fields=['group'], name='group_grant_period_pattern'),
        ),
        migrations.AddIndex(
            model_name='usergrant',
            index=models.Index(fields=['content_object', 'user', 'permission'], include=('valid_from', 'valid_until', 'pattern'), name='user_grant_on_entity'),
        ),
        migrations.AddIndex(
            model_name='usergrant',
            index=models.Index(fields=['user', 'namespace', 'permission', 'content_object'], include=('valid_from', 'valid_until', 'pattern'), name='user_grant_in_namespace'),
        ),
        migrations.AddIndex(
            model_name='usergrant',
            index=models.Index(condition=models.Q(('pattern__isnull', False)), fields=['pattern', 'user', 'permission'], name='user_grant_by_pattern'),
        ),
        migrations.AddIndex(
            model_name='usergrantperiod',
            index=models.Index(condition=models.Q(('is_on_pattern', True)), fields=['user'], name='user_grant_period_pattern'),
        ),
        migrations.AddConstraint(
            model_name='groupgrant',
            constraint=models.UniqueConstraint(condition=models.Q(('pattern__isnull', True)), fields=('group', 'content_object', 'permission'), name='group_grant_key'),
        ),
        migrations.AddConstraint(
            model_name='usergrant',
            constraint=models.UniqueConstraint(condition=models.Q(('pattern__isnull', True)), fields=('user', 'content_object', 'permission'), name='user_grant_key'),
        ),
    ]
