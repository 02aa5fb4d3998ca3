from django.db import migrations, models


def index(principal: str) -> models.Index:
    return models.Index(fields=[principal, "namespace", "permission", "content_object"], name=f"{principal}_grant_in_namespace")


class Migration(migrations.Migration):
    """Add indexes from which PostgreSQL counts the grants of a principal in a namespace without reading the table."""

    dependencies = [("grants", "0004_journal_filters")]

    operations = [
        operation
        for principal in ("user", "group")
        for operation in (
            migrations.RemoveIndex(f"{principal}grant", f"{principal}_grant_in_namespace"),
            migrations.AddIndex(f"{principal}grant", index(principal)),
        )
    ]
