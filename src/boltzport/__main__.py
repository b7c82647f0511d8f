"""`python -m boltzport` is `boltzport`."""

from boltzport.cli import main

if __name__ == "__main__":
    main()
