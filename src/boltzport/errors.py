"""The one exception for input that a user can mend."""


class InputError(ValueError):
    """Bad input: one line that says what was expected, what came and what to do.

    The command line prints the message and exits with 2; no traceback.
    """
