"""What is wrong with the input of a report."""


class ReportError(ValueError):
    """The report cannot be made from what was given; the message says what would be right."""
