"""Webhooks: send journal lines to the endpoints of other systems, as signed CloudEvents, in order and at
least once.
"""
