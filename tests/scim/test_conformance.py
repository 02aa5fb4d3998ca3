"""The conformance tool scim2-tester finds no error in the running console."""

import http.client

import pytest
from scim2_client.engines.inprocess import Headers, InProcessResponse
from scim2_client.engines.wsgi import WSGISCIMClient, _prepare_request
from scim2_tester import Status, check_server

from tests.scim.conftest import ROOT, provisioning_token


class NetworkClient(WSGISCIMClient):
    """A SCIM client that sends its requests over the network."""

    def request(self, method, url, **kwargs):
        request = _prepare_request(self.base_url, self.headers, method, url, **kwargs)
        connection = http.client.HTTPConnection(request.url.hostname, request.url.port, timeout=30)
        target = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
        connection.request(request.method, target, body=request.body or None, headers=dict(request.headers))
        response = connection.getresponse()
        try:
            return InProcessResponse(status_code=response.status, headers=Headers(response.getheaders()), content=response.read())
        finally:
            connection.close()


@pytest.mark.django_db(transaction=True)
def test_the_conformance_tool_finds_no_error(live_server, settings):
    settings.SCIM_ENABLED, settings.PUBLIC_URL = True, live_server.url
    headers = {"Authorization": f"Bearer {provisioning_token().secret}"}
    client = NetworkClient(lambda environ, start: [], base_url=f"{live_server.url}{ROOT}", headers=headers)
    results = check_server(client)
    failures = [f"{result.title} {result.resource_type}: {result.reason}" for result in results
                if result.status not in (Status.SUCCESS, Status.SKIPPED)]
    assert failures == []
    skipped = {result.title for result in results if result.status == Status.SKIPPED}
    assert skipped <= {"search_with_attributes"}
    assert sum(result.status == Status.SUCCESS for result in results) >= 40
