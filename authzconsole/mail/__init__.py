"""E-mail about access requests, ended and break-glass access, in plain text, through the mail server of
EMAIL_HOST.
"""
