"""The study of own data: from a CSV file to an answer."""
