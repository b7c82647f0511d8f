"""Optional libraries: what is missing, and the command that installs it."""

from importlib.util import find_spec

from boltzport.core.errors import InputError


def require_extra(what: str, modules: tuple[str, ...], *, extra: str) -> None:
    """Check that the modules of an extra are installed.

    Args:
        what: What needs them, for the message.
        modules: Their names.
        extra: The extra of boltzport that has them.

    Raises:
        InputError: One is missing; the message has the command that installs it.

    Example:
        >>> require_extra("a sum", ("math",), extra="sums")
    """
    for module in modules:
        if find_spec(module) is None:
            raise InputError(f"{what} needs {module}, which is not installed: pip install 'boltzport[{extra}]'")
