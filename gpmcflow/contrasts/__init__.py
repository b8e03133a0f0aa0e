"""What draws say at rows of the user's choice: joint draws, contrasts, average effects, terms."""
