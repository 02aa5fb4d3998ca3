"""Resources for the monitoring of the console by other systems: security events and webhooks."""
