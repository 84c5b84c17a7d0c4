"""Asks the standard gRPC health service, with the few frames of HTTP/2 that one call needs."""

import socket

STATUS = {1: "SERVING", 2: "NOT_SERVING"}


def literal(name, value):
    """A header of HPACK, written out and not indexed."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def exactly(connection, size):
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionError("the connection ended before an answer")
        data += chunk
    return data


def health(address):
    """SERVING or NOT_SERVING, as the coordinator at HOST:PORT says."""
    host, port = address.rsplit(":", 1)
    headers = b"".join(literal(name, value) for name, value in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/grpc.health.v1.Health/Check"),
        (b":authority", address.encode()), (b"te", b"trailers"), (b"content-type", b"application/grpc")))
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + frame(1, 4, 1, headers) +
                           frame(0, 1, 1, b"\0" * 5))  # an empty message
        while True:
            head = exactly(connection, 9)
            payload = exactly(connection, int.from_bytes(head[:3], "big"))
            if head[3] == 0 and int.from_bytes(head[5:], "big") == 1 and payload:
                return STATUS[payload[6]]  # after five bytes of length: field 1, its value
