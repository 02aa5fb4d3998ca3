import pytest

from tests.support.oidc_provider import configure_oidc, run_oidc_provider


@pytest.fixture(scope="package")
def oidc_server():
    with run_oidc_provider() as provider:
        yield provider


@pytest.fixture
def oidc(oidc_server, settings):
    """A running provider, which the settings name `corp` and permit to link accounts.

    `oidc.configure(option=...)` changes its options.
    """
    oidc_server.reset()
    oidc_server.configure = lambda **options: configure_oidc(
        settings, oidc_server.issuer, **{"link_existing": "always", **options}
    )
    oidc_server.configure()
    return oidc_server
