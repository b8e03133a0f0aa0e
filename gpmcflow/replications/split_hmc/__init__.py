"""Split Hamiltonian Monte Carlo for logistic regression."""
