"""The monitor: is the promise kept in production?"""

from isrr.monitor.monitor import Monitor
from isrr.monitor.stream import Alarm

__all__ = ["Alarm", "Monitor"]
