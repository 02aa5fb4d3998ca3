"""What an account may do on an entity: change its grants, see its holders, approve a request for it.

Pages, REST and services ask this package. It reads console roles and grants; it changes nothing.
"""
