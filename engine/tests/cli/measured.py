# Runs a command: python3 measured.py FILE COMMAND... FILE gets the seconds of processor time and the KiB of memory that it used.
import os
import resource
import sys

child = os.fork()
if child == 0:
    # A command that goes wrong must not take the machine with it.
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    os.execv(sys.argv[2], sys.argv[2:])
_, status, used = os.wait4(child, 0)
with open(sys.argv[1], "w") as file:
    file.write(f"{used.ru_utime + used.ru_stime} {used.ru_maxrss}")
sys.exit(os.waitstatus_to_exitcode(status) & 255)
