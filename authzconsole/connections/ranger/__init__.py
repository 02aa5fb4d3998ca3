"""Apache Ranger as the enforcer of CDAP: read policies of the service type `cdap`, and evaluate them as the
plugin of CDAP and as later versions of Ranger do.

Pure Python: it reads no database and imports no framework.
"""
