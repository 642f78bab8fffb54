"""Format counts, percentages and evidence."""

from collections.abc import Mapping


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, singular if the number is 1.

    Example:
        >>> counted(1, "judged query"), counted(2_000, "query"), counted(3, "row")
        ('1 judged query', '2,000 queries', '3 rows')
    """
    if number != 1:
        noun = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun}"


def percent(share: float) -> str:
    """Return a measured share to a tenth of a percent.

    Example:
        >>> percent(0.1726), percent(-0.00001)
        ('17.3 %', '0.0 %')
    """
    return f"{round(100 * share, 1) + 0.0:.1f} %"  # −0 and 0 are the same number


def in_segment(segment: str | None) -> str:
    """Return " in segment 'NAME'", or nothing for all queries."""
    return "" if segment is None else f" in segment {segment!r}"


def wealth(evidence: float) -> str:
    """Return evidence as text, in as many digits as can be read.

    Example:
        >>> wealth(0.7512), wealth(1234.5), wealth(4e35)
        ('0.75', '1,234', 'more than a million')
    """
    return f"{evidence:.2f}" if evidence < 100 else f"{evidence:,.0f}" if evidence < 1e6 else "more than a million"


def against(evidence: float, alarm_at: float) -> str:
    """Return the evidence against a promise beside the evidence that revokes it.

    Example:
        >>> against(0.7512, 20.0)
        'evidence against the promise 0.75 (20 revokes it)'
    """
    return f"evidence against the promise {wealth(evidence)} ({alarm_at:.4g} revokes it)"


def reasons_in_words(left_out: Mapping[str, int]) -> list[str]:
    """Return a line for each reason why something does not count.

    Example:
        >>> reasons_in_words({"late clicks": 1200})
        ['left out     1,200 late clicks']
    """
    return [f"left out     {n:,} {reason}" for reason, n in left_out.items()]
