"""How the programs are run that Starling is compared with: by the Python that Debian's packages are for, one thread each.

OpenBLAS makes its threads when it is loaded, and those that have nothing to do spin: without the environment a peer's
processor time is half as much again, and eight agents on two cores are in each other's way.
"""
import os

PYTHON = "/usr/bin/python3"
ENVIRONMENT = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
