"""E-mail about access requests and break-glass access, in plain text, through the mail server of EMAIL_HOST; times in e-mail."""
