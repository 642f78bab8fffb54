"""What else the judged queries have to tell: eight other levels of a promise, and who gains what."""
