"""The one exception that means "wrong use": the command line turns it into exit code 2."""


class InputError(ValueError):
    """What the user gave cannot be used; the message says what is wrong and what would be right."""
