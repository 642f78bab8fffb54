"""The watch over a promise in production, and the account of what each item was given."""

from isrr.monitor.watch import Alarm, Monitor

__all__ = ["Alarm", "Monitor"]
