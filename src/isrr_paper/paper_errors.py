"""Errors of the scorers."""

from isrr.errors import IsrrError


class ScorerError(IsrrError, ValueError):
    """A saved scorer that is damaged, of another version, or trained on other features."""
