"""The monitor: is the promise kept in production?"""

from isrr.monitor.watch import Alarm, Monitor

__all__ = ["Alarm", "Monitor"]
