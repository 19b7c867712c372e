"""Entry point of the command ``qubolearn`` and of ``python -m qubolearn``."""

import os
import signal
import sys
from types import FrameType


def main() -> int:
    """Run the command line as its own process: with standard streams, and without tracebacks on Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a background job ignores it
        signal.signal(signal.SIGINT, _interrupt)
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:  # closed, as by >&-; the next file must not take its number
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
            setattr(sys, name, open(descriptor, mode))  # noqa: SIM115
    try:
        from qubolearn.cli import main as run

        return run()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is left to clean up


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, or exit at once during an import, whose modules might not pass it on."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            show_cursor = b"\x1b[?25h" if os.isatty(2) else b""
            os.write(2, show_cursor + b"qubolearn: interrupted\n")
            os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
