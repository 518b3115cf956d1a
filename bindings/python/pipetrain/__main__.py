"""The command-line program."""

import sys

from .program import main

sys.exit(main())
