#!/usr/bin/env bash
# The environment of blackjax_tempered.py, which needs nothing of this package: blackjax_environment.sh FOLDER
set -euo pipefail
python3 -m venv "$1"
"$1/bin/python" -m pip install --quiet blackjax==1.7.1 jax==0.10.2 jaxlib==0.10.2
