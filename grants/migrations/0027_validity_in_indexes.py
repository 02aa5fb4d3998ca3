from django.db import migrations, models

# by index: its columns. Evaluators compare the validity of each grant that they find in these indexes.
INDEXES = {
    "on_entity": ("content_object", "{principal}", "permission"),
    "in_namespace": ("{principal}", "namespace", "permission", "content_object"),
}


def index(principal: str, name: str) -> models.Index:
    fields = [field.format(principal=principal) for field in INDEXES[name]]
    return models.Index(fields=fields, name=f"{principal}_grant_{name}", include=["valid_from", "valid_until"])


class Migration(migrations.Migration):
    """Include the validity in the indexes of grants, so that PostgreSQL need not read the table. SQLite ignores it."""

    dependencies = [("grants", "0026_break_glass_mail")]

    operations = [
        operation
        for principal in ("user", "group")
        for name in INDEXES
        for operation in (
            migrations.RemoveIndex(f"{principal}grant", f"{principal}_grant_{name}"),
            migrations.AddIndex(f"{principal}grant", index(principal, name)),
        )
    ]
