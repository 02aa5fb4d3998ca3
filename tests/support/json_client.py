"""A caller of the APIs."""

import json
from dataclasses import dataclass, field
from typing import ClassVar

from django.test import Client
from django.utils.http import urlencode


@dataclass
class JsonClient:
    """Sends bodies as JSON, and bytes and text unchanged. headers: of every request. root: precedes every path."""

    client: Client = field(default_factory=Client)
    headers: dict = field(default_factory=dict)
    root: ClassVar[str] = ""
    content_type: ClassVar[str] = "application/json"

    def get(self, path, **query):
        separator = "&" if "?" in path else "?"
        return self.client.get(
            f"{self.root}{path}{separator if query else ''}{urlencode(query)}", headers=self.headers
        )

    def post(self, path, body=None, **options):
        return self.send("post", path, body, **options)

    def send(self, method, path, body=None, content_type=None, **headers):
        data = body if isinstance(body, bytes | str) else json.dumps({} if body is None else body)
        type_ = self.content_type if content_type is None else content_type
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        # the type is set again because the test client sends none with an empty body
        headers = self.headers | {"Content-Type": type_} | headers
        return getattr(self.client, method)(f"{self.root}{path}", data, content_type=type_, headers=headers)
