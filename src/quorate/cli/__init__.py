"""The command ``quorate``: one file per command, each imported when it is called.

This file turns what a command raises into what a person reads: one line on standard error and an exit status
(0 done, 1 a defect of ours, 2 a mistake in what was given, 130 interrupted). ``--debug`` shows the traceback instead.
"""

import sys
from collections.abc import Sequence

from quorate.errors import QuorateError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    tokens = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in tokens
    tokens = [token for token in tokens if token != "--debug"]
    try:
        from quorate.cli.app import build

        status = build(tokens)(tokens, result_action="return_value")
        return status if isinstance(status, int) else 0
    except KeyboardInterrupt:
        return _say("interrupted", 130)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read us has gone: nothing more to say
        return 0
    except ModuleNotFoundError as error:
        if debug or (error.name or "").startswith("quorate"):
            raise
        return _say(f"this command needs the package {error.name!r}: {_pip_line(error.name or '')}", 2)
    except (QuorateError, ValueError, TypeError, OSError) as error:
        if debug:
            raise
        return _say(" ".join(str(error).split()) or type(error).__name__, 2)
    except Exception as error:
        if debug:
            raise
        return _say(f"{type(error).__name__}: {error} (a defect in quorate; --debug shows where)", 1)


def _pip_line(package: str) -> str:
    package = package.partition(".")[0]
    extra = {"onnxruntime": "onnxruntime", "openvino": "openvino", "timm": "timm"}.get(package)
    extra = extra or ("all" if package in {"torch", "onnx", "onnxscript"} else "votes")
    return f"pip install 'quorate[{extra}]'"


def _say(message: str, status: int) -> int:
    print(f"quorate: {message}", file=sys.stderr)
    return status
