"""Exit codes, one meaning each in all commands; 0 is done."""

# 1 is a service that could not start, as its log says
UNUSABLE = 2  # input that cannot be used; of `monitor` also judgments of which none counts
ABSTAINED = 3  # an abstention, of `calibrate` and `evaluate`: nothing is promised
BROKEN = 4  # a promise was found broken: the monitor's alarm, or the verdict on new judged queries
INTERRUPTED = 130  # Ctrl-C
