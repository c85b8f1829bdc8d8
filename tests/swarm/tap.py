"""A relay between one client and an agent, which keeps what passes and can make the client slow or deaf."""
import contextlib
import select
import socket
import threading
import time


class Tap(threading.Thread):
    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.sent, self.answered, self.is_over = port, b"", b"", False
        self.trickles = False  # from now on the client's bytes pass one a second
        self.is_deaf = False   # from now on nothing is read of the agent's
        self.door = socket.create_server(("127.0.0.1", 0))
        self.start()

    @property
    def address(self):
        return f"tcp://127.0.0.1:{self.door.getsockname()[1]}"

    def run(self):
        client, _ = self.door.accept()
        with client, socket.create_connection(("127.0.0.1", self.port)) as agent:
            while not self.is_over:
                with contextlib.suppress(OSError):
                    for end in select.select([client] + [agent] * (not self.is_deaf), [], [], 0.1)[0]:
                        self.pass_on(end, client, agent)

    def pass_on(self, end, client, agent):
        data = end.recv(1 if self.trickles and end is client else 65536)
        self.is_over = self.is_over or not data
        if end is agent:
            self.answered = (self.answered + data)[:1 << 20]
            client.sendall(data)
        else:
            self.sent = (self.sent + data)[:1 << 20]
            agent.sendall(data)
            if self.trickles:
                time.sleep(1)
