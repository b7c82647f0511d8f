"""The exceptions that the command line reports in one line instead of a traceback."""


class InputError(ValueError):
    """Bad input: one line that says what was expected, what was given and what to do.

    The command line prints the message without a traceback and exits with code 2.
    """


class RunError(RuntimeError):
    """A run that cannot continue for a reason other than its input: one line, exit code 1."""


class LostProcess(Exception):  # noqa: N818
    """Another process of the task has ended; no step can be repeated without it, as one after a `RunError` can."""
