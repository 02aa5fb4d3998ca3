"""The analyses as PySpark jobs.

Nothing here imports Django. Functions of this package that run on executors are sent to them with their code, because
executors may be machines without the console.
"""

import sys

from pyspark import cloudpickle

cloudpickle.register_pickle_by_value(sys.modules[__name__])
