"""A program as people write it with requests-oauthlib and websocket-client.

Reads the address of the REST interface from its first argument. Prints one JSON document a line:
first the page a person must open, at the end what it did. Reads the address the browser came back to
from its standard input.
"""

import base64
import hashlib
import json
import os
import secrets
import sys
import uuid

os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"  # The service of the test speaks plain HTTP.

import requests
import websocket
from oauthlib.oauth2 import BackendApplicationClient
from requests_oauthlib import OAuth2Session

base_url = sys.argv[1]
redirect_uri = "http://localhost:8765/callback"
scopes = ["agents:read", "sessions:read", "sessions:write", "realtime:read"]


def say(**document):
    print(json.dumps(document), flush=True)


def discover():
    resource = requests.get(f"{base_url}/.well-known/oauth-protected-resource").json()
    issuer = resource["authorization_servers"][0]
    return requests.get(f"{issuer}/.well-known/oauth-authorization-server").json()


def talk(session, socket_token, ws_url):
    """Creates a session and waits for its message over the socket."""
    socket = websocket.create_connection(ws_url, header=[f"Authorization: Bearer {socket_token}"], timeout=20)
    created = session.post(
        f"{base_url}/sessions",
        json={"initial_message": {"content": "hello"}},
        headers={"Idempotency-Key": str(uuid.uuid4())},
    )
    created.raise_for_status()
    session_id = created.json()["session_id"]
    while True:
        event = json.loads(socket.recv())
        if event["type"] == "session.message" and event["session_id"] == session_id:
            socket.close()
            return event["payload"]["content"]


server = discover()
ws_url = next(row["resource"] for row in server["resource_servers"] if row["resource"].startswith("ws"))
token_url = server["token_endpoint"]

if sys.argv[2:] == ["credentials"]:
    client_id, client_secret = os.environ["CLIENT_ID"], os.environ["CLIENT_SECRET"]
    session = OAuth2Session(client=BackendApplicationClient(client_id=client_id))
    # HTTP Basic, and no resource: what the library does when nobody says otherwise.
    session.fetch_token(token_url, client_id=client_id, client_secret=client_secret)
    other = OAuth2Session(client=BackendApplicationClient(client_id=client_id))
    socket_token = other.fetch_token(token_url, client_id=client_id, client_secret=client_secret, resource=ws_url)
    handle = session.get(f"{base_url}/agents/me").json()["canonical_handle"]
    say(handle=handle, content=talk(session, socket_token["access_token"], ws_url))
    sys.exit()

registered = requests.post(
    server["registration_endpoint"],
    json={
        "client_name": "requests-oauthlib",
        "redirect_uris": [redirect_uri],
        "token_endpoint_auth_method": "none",
        "scope": " ".join(scopes),
    },
).json()
client_id = registered["client_id"]

verifier = secrets.token_urlsafe(64)
challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
session = OAuth2Session(client_id, redirect_uri=redirect_uri, scope=scopes)
url, state = session.authorization_url(
    server["authorization_endpoint"], code_challenge=challenge, code_challenge_method="S256"
)
say(open=url)

# A public client without a secret: the library sends it in HTTP Basic with an empty password.
first = session.fetch_token(token_url, authorization_response=sys.stdin.readline().strip(), code_verifier=verifier)
renewed = session.refresh_token(token_url, client_id=client_id)
socket_token = OAuth2Session(client_id, token=renewed).refresh_token(token_url, client_id=client_id, resource=ws_url)
handle = session.get(f"{base_url}/agents/me").json()["canonical_handle"]
say(
    handle=handle,
    renewed=renewed["access_token"] != first["access_token"],
    content=talk(session, socket_token["access_token"], ws_url),
)
