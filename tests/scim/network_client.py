"""A SCIM client that sends its requests over the network."""

import http.client

from scim2_client.engines.inprocess import Headers, InProcessResponse
from scim2_client.engines.wsgi import WSGISCIMClient, _prepare_request


class NetworkClient(WSGISCIMClient):
    """A SCIM client that sends its requests over the network."""

    def request(self, method, url, **kwargs):
        request = _prepare_request(self.base_url, self.headers, method, url, **kwargs)
        connection = http.client.HTTPConnection(request.url.hostname, request.url.port, timeout=30)
        target = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
        connection.request(request.method, target, body=request.body or None, headers=dict(request.headers))
        response = connection.getresponse()
        try:
            return InProcessResponse(
                status_code=response.status, headers=Headers(response.getheaders()), content=response.read()
            )
        finally:
            connection.close()
