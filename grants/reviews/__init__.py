"""Access reviews: prepare the items of a campaign with their evidence, assign and answer them, and finish
with a plan.

This package contains no mail and no files: `authzconsole.reviews` sends reminders and writes evidence
bundles.
"""
