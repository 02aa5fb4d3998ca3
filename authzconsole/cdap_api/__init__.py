"""The administration API of CDAP, under /v3/security/authorization, so that `cdap-cli` and scripts for CDAP manage the
grants of the console.

The calls, bodies and answers are those of `AuthorizationClient` in cdap-client and `AuthorizationHandler` in
cdap-app-fabric.
"""
