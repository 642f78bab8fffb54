"""Exit codes, one meaning each in all commands; docs/index.md lists them.

0 is done, and 1 a service that could not start: `isrr.serve.server` ends with it by itself.
"""

UNUSABLE = 2
ABSTAINED = 3
BROKEN = 4
INTERRUPTED = 130
