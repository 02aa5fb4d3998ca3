"""The filter for times in templates of e-mail."""

from django import template

from authzconsole.mail import time_in_mail

register = template.Library()
register.filter(time_in_mail)
