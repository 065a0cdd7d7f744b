"""A server of WebSockets through python3-websockets: sockets.py PORT

Answers each message with the same; `/ws/close` closes behind the first, with 4000. It knows the
subprotocol `chat`, and compresses where the client can.
"""

import asyncio
import sys

from websockets.exceptions import ConnectionClosed
from websockets.server import serve


async def echo(socket):
    try:
        async for message in socket:
            await socket.send(message)
            if socket.path == "/ws/close":
                await socket.close(4000, "enough")
                return
    except ConnectionClosed:
        pass  # the client has gone


async def main():
    async with serve(echo, "127.0.0.1", int(sys.argv[1]), subprotocols=["chat"], max_size=None):
        await asyncio.Future()


if __name__ == "__main__":
    asyncio.run(main())
