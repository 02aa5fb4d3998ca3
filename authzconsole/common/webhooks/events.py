"""Write a journal line as a CloudEvent, and sign it as Standard Webhooks describes."""

import base64
import hashlib
import hmac
import time

from cloudevents.core.bindings.http import to_structured_event
from cloudevents.core.v1.event import CloudEvent
from django.conf import settings

from authzconsole.models import Webhook
from grants.models import JournalLine

TYPE_PREFIX = "authzconsole.journal."
SECRET_PREFIX = "whsec_"


def secret_of(webhook: Webhook) -> str:
    """Return the secret that signs the events. It is derived, so the database does not contain it."""
    key = hmac.new(
        settings.SECRET_KEY.encode(), f"authzconsole.webhook:{webhook.nonce}".encode(), hashlib.sha256
    ).digest()
    return SECRET_PREFIX + base64.b64encode(key).decode()


def signed_request(webhook: Webhook, line: JournalLine) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of the request that delivers the line."""
    event_id = f"{line.revision}-{line.hash[:16]}"
    data = {name: getattr(line, name) for name in (*JournalLine.HASHED, "hash", "key_id", "mac")} | {
        "at": line.at.isoformat()
    }
    message = to_structured_event(
        CloudEvent(
            {
                "id": event_id,
                "source": settings.PUBLIC_URL,
                "type": TYPE_PREFIX + line.action,
                "specversion": "1.0",
                "time": line.at,
                "datacontenttype": "application/json",
                **({"subject": subject} if (subject := line.entity or line.principal) else {}),
            },
            data,
        )
    )
    body, timestamp = bytes(message.body), str(int(time.time()))
    key = base64.b64decode(secret_of(webhook).removeprefix(SECRET_PREFIX))
    signature = hmac.new(key, f"{event_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return body, {
        **message.headers,
        "Webhook-Id": event_id,
        "Webhook-Timestamp": timestamp,
        "Webhook-Signature": f"v1,{base64.b64encode(signature).decode()}",
        "User-Agent": "authzconsole",
    }
