"""One torch thread in tests, Ctrl-C as in a terminal, no network, and long tests only where asked for."""

import signal
import sys

import pytest
import torch

torch.set_num_threads(1)  # the matrices are small, and CI shares its cores
# A shell starts what runs in its background with Ctrl-C ignored, and tests that press it would wait in vain.
signal.signal(signal.SIGINT, signal.default_int_handler)

LOCAL = {None, "", "localhost", "127.0.0.1", "::1", "0.0.0.0"}


def refuse_network(event: str, arguments: tuple[object, ...]) -> None:
    """Python tells audit hooks of every connection and every look-up of a name before it is made."""
    if event in ("socket.connect", "socket.sendto") and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    host = host.decode() if isinstance(host, bytes) else host
    if host not in LOCAL and not str(host).startswith("127."):
        raise RuntimeError(f"a test tried to reach {host} over the network")


sys.addaudithook(refuse_network)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests marked soak, unless ``-m`` names them."""
    if "soak" in config.option.markexpr:
        return
    long = [item for item in items if item.get_closest_marker("soak")]
    items[:] = [item for item in items if item not in long]
    config.hook.pytest_deselected(items=long)
