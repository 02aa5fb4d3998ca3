import pytest

from tests.support.cast import create_sample_tenant


@pytest.fixture
def cast(db):
    return create_sample_tenant()
