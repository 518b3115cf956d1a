"""Which of the cases marked `slow` run: all of them, unless --slow says otherwise, as ./dev test does."""
import os
import zlib

import pytest


def pytest_addoption(parser):
    choices = ["all", "none", *"0123456789"]
    text = "which slow cases run; a number: that tenth of them"
    parser.addoption("--slow", choices=choices, default="all", help=text)


def pytest_collection_modifyitems(config, items):
    choice = config.getoption("--slow")

    def runs(item):
        slow = item.get_closest_marker("slow") is not None
        return not slow or choice == "all" or choice == str(zlib.crc32(item.nodeid.encode()) % 10)

    left_out = [item for item in items if not runs(item)]
    items[:] = [item for item in items if runs(item)]
    config.hook.pytest_deselected(items=left_out)
    if path := os.environ.get("TEST_LEFT_OUT_FILE"):  # for ./dev test, which adds the number to its own
        with open(path, "w") as file:
            file.write(str(len(left_out)))


@pytest.fixture
def one_thread():
    """Sums of PyTorch in one order."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
