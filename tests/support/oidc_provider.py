"""Run an OpenID Connect provider (oidc-provider-mock) as a server that can also send false answers, and sign
in through it.
"""

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import flask
import jwt
import requests
import werkzeug.serving
from django.test import Client

from authzconsole.settings.sign_in import allauth_providers, oidc_providers


@dataclass
class OidcProvider:
    """A running provider. requests: the received (path, form) pairs.

    change_answer: called with the path and the JSON object of an answer, which it changes.
    change_token: called with the claims of an ID token; returns the arguments `key` and `algorithm` for
    signing, or None.
    """

    issuer: str
    requests: list[tuple[str, dict]] = field(default_factory=list)
    change_answer: Callable[[str, dict], object] | None = None
    change_token: Callable[[dict], dict | None] | None = None

    def reset(self) -> None:
        self.change_answer = self.change_token = None
        self.requests.clear()

    def sign_in(self, client: Client, subject: str, claims: dict | None = None, **options):
        """Sign in with the browser `client`. Return the response to the redirect from the provider."""
        return client.get(self.callback_url(client, subject, claims, **options))

    def callback_url(
        self,
        client: Client,
        subject: str,
        claims: dict | None = None,
        *,
        path: str = "/sign-in/corp",
        deny: bool = False,
    ) -> str:
        """Start a sign-in and consent at the provider. Return the URL to which the provider redirects.

        claims: by default the name of the user, which is the subject `s-NAME` without its prefix.
        """
        claims = {"preferred_username": subject.removeprefix("s-")} if claims is None else claims
        started = client.get(path)
        assert started.status_code == 302, started.content
        requests.put(f"{self.issuer}/users/{subject}", json=claims, timeout=10).raise_for_status()
        consent = {"action": "deny"} if deny else {"sub": subject}
        answer = requests.post(started["Location"], data=consent, allow_redirects=False, timeout=10)
        assert answer.status_code == 302, answer.text
        location = answer.headers["Location"]
        if deny:
            # this provider forgets the state of a refusal
            location += "&state=" + parse_qs(urlsplit(started["Location"]).query)["state"][0]
        return location


@contextmanager
def run_oidc_provider() -> Iterator[OidcProvider]:
    # the provider itself uses deprecated functions of its libraries
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import oidc_provider_mock

    os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
    app = oidc_provider_mock.app(require_nonce=True)
    provider = OidcProvider("")

    @app.before_request
    def record_request():
        provider.requests.append((flask.request.path, flask.request.form.to_dict()))

    @app.after_request
    def change(response):
        if response.is_json and response.status_code == 200:
            value = response.get_json()
            if "id_token" in value and provider.change_token:
                claims = jwt.decode(value["id_token"], options={"verify_signature": False})
                private_key = flask.g.oidc_provider_mock_storage.jwk
                signature = {"key": private_key.as_pem(is_private=True), "algorithm": "RS256"}
                signature |= provider.change_token(claims) or {}
                value["id_token"] = jwt.encode(claims, **signature, headers={"kid": private_key.thumbprint()})
            if provider.change_answer:
                provider.change_answer(flask.request.path, value)
            response.set_data(flask.json.dumps(value))
        return response

    server = werkzeug.serving.make_server("127.0.0.1", 0, app, threaded=True)
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def configure_oidc(settings, issuer: str, **options) -> None:
    """Configure the provider `corp` as the environment variable OIDC_PROVIDERS would."""
    import json

    described = {
        "corp": {
            "issuer": issuer,
            "client_id": "console",
            "client_secret": "s3cret",
            "name": "Corp",
            **options,
        }
    }
    settings.SIGN_IN_PROVIDERS = oidc_providers({"OIDC_PROVIDERS": json.dumps(described)})
    settings.SOCIALACCOUNT_PROVIDERS = allauth_providers(settings.SIGN_IN_PROVIDERS)
