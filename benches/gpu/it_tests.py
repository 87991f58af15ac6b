"""Runs ignored tests of the program `it` one after the other, and counts them.

    python3 benches/gpu/it_tests.py IT FILTER
"""

import json
import re
import subprocess
import sys


def main():
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    program, wanted = sys.argv[1:]
    command = [program, wanted, "--ignored", "--test-threads=1"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    text = ""
    for line in running.stdout:
        print(line, end="", flush=True)
        text += line
    status = running.wait()
    result = re.search(r"^test result: \w+\. (\d+) passed; (\d+) failed", text, re.MULTILINE)
    passed, failed = map(int, result.groups()) if result else (0, 0)
    names = re.findall(r"^test (\S+) .*FAILED$", text, re.MULTILINE)
    print(f"figures: {json.dumps({'passed': passed, 'failed': failed, 'names': names})}")
    sys.exit(status or (0 if passed else 1))


if __name__ == "__main__":
    main()
