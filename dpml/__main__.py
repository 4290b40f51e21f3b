"""Run the command line: ``python -m dpml epsilon ...`` or ``python -m dpml noise ...``."""

if __name__ == "__main__":
    import sys

    from dpml.command_line import main

    sys.exit(main())
