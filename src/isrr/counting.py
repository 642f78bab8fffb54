"""Numbers as people read them: with their nouns, and shares in percent."""


def counted(number: int, noun: str) -> str:
    """A number and its noun, singular where the number is 1.

    Example:
        >>> counted(1, "judged query"), counted(2_000, "query"), counted(3, "row")
        ('1 judged query', '2,000 queries', '3 rows')
    """
    if number != 1:
        noun = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun}"


def percent(share: float) -> str:
    """A measured share, to a tenth of a percent.

    Example:
        >>> percent(0.1726), percent(0.3)
        ('17.3 %', '30.0 %')
    """
    return f"{100 * share:.1f} %"
