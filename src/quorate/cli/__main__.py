"""``python -m quorate.cli`` is ``quorate``."""

import sys

from quorate.cli import main

sys.exit(main())
