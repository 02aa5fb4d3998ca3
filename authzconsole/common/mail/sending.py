"""Send an e-mail to one recipient, so that an address that is refused does not stop the e-mails to others."""

import logging
from smtplib import SMTPRecipientsRefused, SMTPSenderRefused

from django.core.mail import EmailMessage

logger = logging.getLogger(__name__)


def send_message(message: EmailMessage, about: object) -> int:
    """Send a message to its only recipient. Return 1 if the mail server took it, otherwise 0. Raise OSError
    if it failed.

    about: what the message is about, for the log.
    """
    try:
        return message.send()
    # Django raises ValueError for a text that is no address; accounts may have any text as their e-mail
    except (SMTPRecipientsRefused, SMTPSenderRefused, ValueError) as error:
        logger.warning("an e-mail about %s was refused (%s)", about, type(error).__name__)
        return 0
