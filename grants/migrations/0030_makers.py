from django.db import migrations, models
from django.db.models import Value


class Migration(migrations.Migration):

    dependencies = [
        ('grants', '0029_review_item_indexes'),
    ]

    operations = [
        migrations.AddField(
            model_name='accessrequest',
            name='maker_ids',
            field=models.JSONField(db_default=Value([], output_field=models.JSONField()), default=list),
        ),
        migrations.AddField(
            model_name='campaign',
            name='creator_ids',
            field=models.JSONField(db_default=Value([], output_field=models.JSONField()), default=list),
        ),
        migrations.AddField(
            model_name='campaign',
            name='maker_ids',
            field=models.JSONField(db_default=Value([], output_field=models.JSONField()), default=list),
        ),
    ]
