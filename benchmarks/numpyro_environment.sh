#!/usr/bin/env bash
# The environment of numpyro_nuts.py, which needs nothing of this package: numpyro_environment.sh FOLDER
set -euo pipefail
python3 -m venv "$1"
"$1/bin/python" -m pip install --quiet numpyro==0.22.0 jax==0.10.2 jaxlib==0.10.2
