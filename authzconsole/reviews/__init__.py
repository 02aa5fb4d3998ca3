"""Prepare and finish access reviews in Celery tasks, write their evidence bundles, and remind reviewers.

`grants.reviews` contains the rules; this package contains tasks, files and messages.
"""
