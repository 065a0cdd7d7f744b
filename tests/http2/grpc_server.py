"""A server of gRPC that may be killed at any time: grpc_server.py PORT

The last part of the method says what it does. `Collect` answers with the number of bytes that it
got; `Serve` sends what its request asks for: messages, bytes of each and seconds between them;
`Chat` gives back what it gets; `Sleep` never answers. `Health/Check` always says that it serves.
"""

import asyncio
import sys

import grpc

SERVING = b"\x08\x01"


async def collect(requests, _):
    got = 0
    async for message in requests:
        got += len(message)
    return str(got).encode()


async def serve(request, _):
    count, size, pause = request.split()[:3]
    for _ in range(int(count)):
        yield b"s" * int(size)
        await asyncio.sleep(float(pause))


async def chat(requests, _):
    async for message in requests:
        yield message


async def sleep(_request, _):
    await asyncio.sleep(3600)
    return b""


async def echo(request, _):
    return request


async def check(_request, _):
    return SERVING


class Methods(grpc.GenericRpcHandler):
    KINDS = {"Collect": grpc.stream_unary_rpc_method_handler(collect),
             "Serve": grpc.unary_stream_rpc_method_handler(serve),
             "Chat": grpc.stream_stream_rpc_method_handler(chat),
             "Sleep": grpc.unary_unary_rpc_method_handler(sleep),
             "Echo": grpc.unary_unary_rpc_method_handler(echo),
             "Check": grpc.unary_unary_rpc_method_handler(check)}

    def service(self, details):
        return self.KINDS.get(details.method.rsplit("/", 1)[1])


async def run(port):
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1),
                                      ("grpc.max_send_message_length", -1),
                                      ("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((Methods(),))
    if not server.add_insecure_port(f"127.0.0.1:{port}"):
        sys.exit(f"port {port} is taken")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(run(int(sys.argv[1])))
