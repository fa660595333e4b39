# A handler that keeps running and uses no library: a message on each line of standard input, a reply on each line of
# standard output. The first word of a message says what to do. With a path, it writes down what it gets.
import json
import os
import random
import re
import subprocess
import sys
import time

log = open(sys.argv[1], "a", buffering=1) if len(sys.argv) > 1 else None


def write(value):
    sys.stdout.buffer.write(json.dumps(value).encode() + b"\n")
    sys.stdout.buffer.flush()


for line in sys.stdin:
    event = json.loads(line)
    asp, content, id = event["asp"], event["payload"]["content"], event["event_id"]
    word, _, rest = content.partition(" ")
    if log:
        number = re.search(r"number-\d+", content)
        text = number.group() if number else content
        entry = {"pid": os.getpid(), "at": time.time() * 1000, "text": text, "isMarked": asp["try"] > 1}
        log.write(json.dumps(entry) + "\n")
    reply = {"content": json.dumps({"pid": os.getpid(), "asp": asp})}
    if word == "pause":
        time.sleep(0.3)
        reply = {"content": f"{rest} {random.random()}"}
    elif word == "sleep":
        time.sleep(float(rest))
    elif word == "reply":
        reply = json.loads(rest)
    elif word == "print":
        sys.stdout.buffer.write(rest.encode().decode("unicode_escape").encode("latin-1") + b"\n")
        sys.stdout.buffer.flush()
        continue
    elif word == "taken":
        write({"event_id": id, "taken": True})
        while not os.path.exists(rest):
            time.sleep(0.05)
    elif word == "hold":
        path, _, reply = rest.partition(" ")
        while not os.path.exists(path):
            time.sleep(0.05)
        reply = json.loads(reply)
    elif word == "close":
        os.close(1)
        time.sleep(60)
    elif word == "detach":
        subprocess.Popen(["sleep", "40"], start_new_session=True, stderr=subprocess.DEVNULL)
        os._exit(3)
    elif word == "sizes":
        reply = {"content": json.dumps([len(one["content"]) for one in asp["recent"]])}
    elif word == "quiet":
        reply = {}
    elif word == "exit":
        os._exit(int(rest))
    elif word == "send":
        subprocess.run(rest, shell=True, check=True, stdout=subprocess.DEVNULL)
    write({"event_id": id, **reply})
    if word == "noise":
        for number in range(50):
            write({"noise": number})
    if word == "leave":
        subprocess.Popen(["sleep", "40"], start_new_session=True, stderr=subprocess.DEVNULL)
        os._exit(3)
    if word == "last":
        # The next message is on its way by then.
        time.sleep(0.3)
        os._exit(0)

if log:
    log.write(json.dumps({"end": os.getpid()}) + "\n")
