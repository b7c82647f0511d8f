"""The two exceptions that the command line turns into one line instead of a traceback."""


class InputError(ValueError):
    """Bad input: one line that says what was expected, what came and what to do.

    The command line prints the message and exits with 2; no traceback.
    """


class RunError(RuntimeError):
    """A run that cannot go on for a reason that is not its input; one line, exit code 1."""
