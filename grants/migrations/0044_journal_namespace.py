"""Index the namespace of journal lines, for the lines about a namespace and its contents."""

from django.db import migrations, models
from django.db.models.functions import Abs

from grants.models.journal import NamespaceName


class Migration(migrations.Migration):

    dependencies = [("grants", "0043_guardrails")]

    operations = [
        migrations.AddIndex(
            "journalline",
            models.Index(
                NamespaceName("entity"),
                Abs("revision").desc(),
                name="journal_namespace",
                condition=~models.Q(entity=""),
            ),
        ),
    ]
