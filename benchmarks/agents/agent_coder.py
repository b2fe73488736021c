"""The bundled coding agent, as `accord agent` serves it."""

import sys

from accord.program import main

if __name__ == "__main__":
    sys.exit(main(["agent", "--model", "demo"]))
