"""Numbers with their nouns, for messages that people read."""


def counted(number: int, noun: str) -> str:
    """A number and its noun, singular where the number is 1.

    Example:
        >>> counted(1, "judged query"), counted(2_000, "query"), counted(3, "row")
        ('1 judged query', '2,000 queries', '3 rows')
    """
    if number != 1:
        noun = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun}"
