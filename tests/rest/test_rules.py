"""Every REST endpoint declares for each method which accounts have access; without a rule, every account is
refused.
"""

import pytest

from authzconsole.rest import urls
from authzconsole.rest.framework.endpoint import Endpoint
from authzconsole.rest.journal import Journal
from authzconsole.rest.policies import Generations

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
# they need no account
PUBLIC = {"root", "openapi", "swagger", "redoc", "unknown_path"}


def test_every_url_is_public_or_declares_a_rule_for_each_method():
    endpoints = [getattr(pattern.callback, "view_class", None) for pattern in urls.urlpatterns]
    functions = {
        pattern.callback.__name__
        for pattern in urls.urlpatterns
        if not hasattr(pattern.callback, "view_class")
    }
    assert functions == PUBLIC
    for endpoint in filter(None, endpoints):
        assert issubclass(endpoint, Endpoint) and "permission_classes" not in vars(endpoint)
        assert set(endpoint.rules) == {method for method in METHODS if hasattr(endpoint, method.lower())}, (
            endpoint
        )


@pytest.mark.django_db
@pytest.mark.parametrize(("endpoint", "path"), [(Generations, "/policies"), (Journal, "/journal")])
def test_a_method_without_a_rule_is_refused_for_every_account(by_session, ada, endpoint, path, monkeypatch):
    assert ada.get(path).status_code == 200
    monkeypatch.setattr(endpoint, "rules", {})
    assert ada.get(path).status_code == by_session("ned").get(path).status_code == 403
    assert ada.post(path, {}).status_code == ada.client.options(f"/api/v1{path}").status_code == 405
