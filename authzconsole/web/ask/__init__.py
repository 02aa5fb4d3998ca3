"""Questions and their explained answers.

Rules are in `grants.policies`; a plan made from an answer is in `authzconsole.web.plans`.
"""
