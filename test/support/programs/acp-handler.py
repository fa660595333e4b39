# A handler that keeps running and uses no library: it reads JSON lines from standard input and writes JSON lines to
# standard output, as the Agent Client Protocol defines them. It cannot load the sessions of an earlier process.
import json
import os
import random
import re
import sys
import threading
import time

log = open(sys.argv[1], "a", buffering=1)
lock = threading.Lock()
sessions = 0


def send(message):
    with lock:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(request, session, text):
    number = re.search(r"number-\d+", text).group()
    is_marked = "that turn was cut off" in text
    log.write(json.dumps({"pid": os.getpid(), "at": time.time() * 1000, "text": number, "isMarked": is_marked}) + "\n")
    time.sleep(0.2)
    content = {"type": "text", "text": f"{number} {random.random()}"}
    update = {"sessionUpdate": "agent_message_chunk", "content": content}
    send({"method": "session/update", "params": {"sessionId": session, "update": update}})
    send({"id": request, "result": {"stopReason": "end_turn"}})


for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params")
    if method == "initialize":
        send({"id": message["id"], "result": {"protocolVersion": 1, "agentCapabilities": {}}})
    elif method == "session/new":
        sessions += 1
        send({"id": message["id"], "result": {"sessionId": f"{os.getpid()}-{sessions}"}})
    elif method == "session/prompt":
        words = (message["id"], params["sessionId"], params["prompt"][0]["text"])
        threading.Thread(target=answer, args=words, daemon=True).start()
