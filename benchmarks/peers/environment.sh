#!/usr/bin/env bash
# The environment of a peer, which needs nothing of this package: environment.sh PEER FOLDER makes FOLDER/PEER
set -euo pipefail
case "$1" in
  numpyro) packages="numpyro==0.22.0 jax==0.10.2 jaxlib==0.10.2 scipy==1.17.1" ;;
  blackjax) packages="blackjax==1.7.1 jax==0.10.2 jaxlib==0.10.2 scipy==1.17.1" ;;
  pymc) packages="pymc==5.28.5 nutpie==0.16.8" ;;
  gpy) packages="GPy==1.15.0" ;;
  gpflow) packages="gpflow==2.11.2" ;;
  gpboost) packages="gpboost==1.8.0 pandas==3.1.1" ;;
  *) echo "environment.sh: no peer $1; allowed: numpyro, blackjax, pymc, gpy, gpflow, gpboost" >&2; exit 2 ;;
esac
python3 -m venv "$2/$1"
# shellcheck disable=SC2086
"$2/$1/bin/python" -m pip install --quiet $packages
