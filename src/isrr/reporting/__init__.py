"""The report: numbers of an outcome, figures, and one HTML page."""
