"""A program that is called like ``groupcast sim`` and misbehaves as told: what a real one does only by accident.

It takes ``--set behave.KEY=VALUE``: ``sleep`` (seconds), ``exit`` (code, after a word on standard error), ``die_once``
(a path: the first to see that it does not exist makes it and kills itself). Its table says what it was told.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path


def main(arguments: list[str]) -> int:
    verb, scenario, *options = arguments
    assert verb == "sim"
    text = Path(scenario).read_text(encoding="utf-8")
    pairs = list(zip(options[::2], options[1::2], strict=True))
    named = dict(pairs)
    overrides = dict(value.split("=", 1) for option, value in pairs if option == "--set")
    behave = {key[7:]: value.strip('"') for key, value in overrides.items() if key.startswith("behave.")}

    first, end = map(int, named["--seeds"].split(".."))
    time.sleep(float(behave.get("sleep", 0)))
    if mark := behave.get("die_once"):
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)
        except FileExistsError:
            pass
    if code := int(behave.get("exit", 0)):
        print(f"{scenario}: told to end with {code}", file=sys.stderr)
        return code

    out = Path(named["--out"])
    out.mkdir(parents=True)
    size = int(overrides.get("source.0.size", 0))
    lines = ["seed,delivered,latency_mean_s,trace_hash"]
    lines += [f"{seed},{size * 10 + seed},{0.001 * (seed + 1)!r},{seed:016x}" for seed in range(first, end)]
    (out / "runs.csv").write_text("\n".join(lines) + "\n")
    (out / "summary.json").write_text(json.dumps({"scenario": Path(scenario).stem}))
    (out / "hosts.csv.partial").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
