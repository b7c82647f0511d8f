"""The two exceptions that the command line reports in one line instead of a traceback."""


class InputError(ValueError):
    """Bad input: one line that says what was expected, what was given and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """


class RunError(RuntimeError):
    """A run that cannot continue for a reason other than its input: one line, exit code 1."""
