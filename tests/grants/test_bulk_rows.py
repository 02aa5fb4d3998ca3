"""Rows that are written with COPY fail with the errors of Django, as all other statements do."""

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction

from grants.bulk_rows import insert_rows

pytestmark = pytest.mark.django_db


def test_an_error_while_rows_are_copied_is_an_error_of_django():
    with pytest.raises(IntegrityError), transaction.atomic():
        insert_rows(Group, ("name",), [("analysts",), ("analysts",)])
    assert not Group.objects.filter(name="analysts").exists()
