"""The analysis of a data set of one's own: from a CSV file to an answer."""
