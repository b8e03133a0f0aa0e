"""Parameters of models: hyperpriors, sharing, coordinates, and the space of all of them."""
