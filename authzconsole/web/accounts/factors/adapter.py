"""The adapter of django-allauth for second factors: it encrypts their secrets, and draws the QR code."""

import logging

from allauth.mfa.adapter import DefaultMFAAdapter
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.html import format_html

from authzconsole.common.encryption import UnknownKey, decrypt, encrypt
from grants.models import User

logger = logging.getLogger(__name__)

PURPOSE = b"secrets of second factors\n"


class FactorAdapter(DefaultMFAAdapter):
    """Encrypt secrets, and draw the QR code."""

    def encrypt(self, text: str) -> str:
        return encrypt(text, PURPOSE)

    def decrypt(self, encrypted_text: str) -> str:
        """Return the secret. Raise ValidationError if no key can decrypt it."""
        try:
            return decrypt(encrypted_text, PURPOSE)
        except UnknownKey:
            logger.error("a second factor cannot be decrypted: neither MFA_KEYS nor SECRET_KEY has its key")
            raise ValidationError(
                "The console lacks the key of your second factor. Ask the operator of the console."
            ) from None

    def get_totp_label(self, user: User) -> str:
        return user.username

    def _get_user_identifier(self, user: User) -> str:
        return user.username

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        return super().get_public_key_credential_rp_entity() | {"name": settings.MFA_TOTP_ISSUER}

    def build_totp_svg(self, url: str) -> str:
        """Return the QR code as an SVG image with one path, which the CSP permits."""
        # here, because the import takes time
        import qrcode

        code = qrcode.QRCode(border=4)
        code.add_data(url)
        rows = code.get_matrix()
        path = "".join(
            f"M{x} {y}h1v1h-1z" for y, row in enumerate(rows) for x, is_dark in enumerate(row) if is_dark
        )
        return format_html(
            '<svg class="qr-code" viewBox="0 0 {0} {0}" role="img" aria-label="QR code with the key">'
            '<path d="{1}" /></svg>',
            len(rows),
            path,
        )
