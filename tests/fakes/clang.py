"""A fake clang with one channel and one fault, the first argument.

garbage: writes text that is not a log.

outcome: logs an outcome.

skip: skips the number of an observation.

half-header: exits with status 1 in the middle of the header.

half-question: exits with status 1 in the middle of an observation.

ask:N: has no fault. It requests N decisions, exits, and writes the advice as its object.

silent: never opens its channel.

header: writes its header, and then nothing.

flood: requests one decision, then writes to standard error without end.

heir: exits with status 1 and leaves a child running, whose process id is its last word.
"""

import os
import signal
import subprocess
import sys
from typing import NoReturn

FEATURE = '{"name":"a","type":"int64_t","port":0,"shape":[1]}'
ADVICE = '{"name":"decision","type":"int64_t","port":0,"shape":[1]}'
HEADER = f'{{"features":[{FEATURE}],"advice":{ADVICE}}}\n{{"context":""}}\n'.encode()


def question(number: int) -> bytes:
    return b'{"observation":%d}\n' % number + number.to_bytes(8, "little") + b"\n"


def main() -> None:
    behaviour, *arguments = sys.argv[1:]
    bases = [word.partition("=")[2] for word in arguments if "channel-base=" in word]
    if behaviour == "silent":
        signal.pause()
    if behaviour == "heir":
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
        fail(str(child.pid))
    advice = os.open(f"{bases[0]}.in", os.O_RDONLY)
    log = os.open(f"{bases[0]}.out", os.O_WRONLY)
    if behaviour == "garbage":
        os.write(log, b"hello\n")
        signal.pause()
    if behaviour == "half-header":
        os.write(log, HEADER[:20])
        fail("lost in the header")
    os.write(log, HEADER)
    if behaviour == "header":
        signal.pause()
    if behaviour == "outcome":
        os.write(log, b'{"outcome":0}\n' + bytes(8) + b"\n")
        signal.pause()
    if behaviour == "skip":
        os.write(log, question(1))
        signal.pause()
    if behaviour == "half-question":
        os.write(log, question(0)[:-4])
        fail("lost in the question")
    if behaviour == "flood":
        os.write(log, question(0))
        while True:
            os.write(2, b"x" * 4096)
    for number in range(int(behaviour.removeprefix("ask:"))):
        os.write(log, question(number))
        answer = os.read(advice, 8)
        while len(answer) < 8:
            answer += os.read(advice, 8 - len(answer))
        os.write(1, answer)


def fail(message: str) -> NoReturn:
    os.write(2, message.encode())
    os._exit(1)


if __name__ == "__main__":
    main()
