"""Findings: what needs attention, in one inbox.

`sources` finds it, in reports, guardrails, periods, plans, jobs and the console itself. `refresh` stores what was found, and
resolves what is no longer found. `services` writes what accounts decide: accept, reopen, assign, and rules that accept
classes of findings. What waits for one account, such as a request to decide, is not stored
(`authzconsole.web.findings.items`).
"""
