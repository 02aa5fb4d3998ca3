"""Questions and their explained answers.

Rules are in `grants.policies`; plans that are created from answers are in `authzconsole.web.plans`.
"""
