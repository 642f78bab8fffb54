"""Outcomes: what a calibration answers, how it is stored and how it prints."""
