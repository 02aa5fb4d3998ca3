"""Evaluate changes before they are made: which permissions users gain and lose through them.

A change is a grant, a revocation, a membership, the activation of a user or the state of an entity. The
package reads data and rules, and writes nothing. Changes are made in `grants.changes`, `grants.principals`,
`grants.lifecycle` and `grants.plans`.
"""
