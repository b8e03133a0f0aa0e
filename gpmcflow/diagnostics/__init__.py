"""What draws say about themselves: autocorrelation, importance weights, R-hat."""
