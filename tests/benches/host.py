"""The host's own limits, to read the other figures by. Nothing of Starling is measured here."""
import ctypes
import mmap
import os
import socket
import statistics
import tempfile
import threading
import time


def fastest(work, times=5):
    """Seconds of the fastest of some runs."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def cores(_starling):
    return len(os.sched_getaffinity(0)), None


def memory_read(_starling):
    """One core reads 256 MiB (memchr for a byte that is not there)."""
    n_bytes = 256 << 20
    with mmap.mmap(-1, n_bytes) as zeros:
        for at in range(0, n_bytes, mmap.PAGESIZE):
            zeros[at] = 1
        return n_bytes / fastest(lambda: zeros.find(b"\xff")) / 1e9, None


def blas_sgemm(_starling):
    """C[512,512] = A[512,512] B[512,512] by OpenBLAS with one thread."""
    blas = ctypes.CDLL("libopenblas.so.0")
    blas.openblas_set_num_threads(1)
    n = 512
    a, b, c = ((ctypes.c_float * (n * n))() for _ in range(3))
    one, zero = ctypes.c_float(1), ctypes.c_float(0)

    def multiply():
        blas.cblas_sgemm(101, 111, 111, n, n, n, one, a, n, b, n, zero, c, n)
    multiply()
    return 2 * n**3 / fastest(multiply) / 1e9, None


def loopback_tcp(_starling):
    """256 MiB in pieces of 1 MiB from one thread to another."""
    n_pieces, piece = 256, bytes(1 << 20)

    def receive(listener):
        buffer = bytearray(1 << 20)
        with listener.accept()[0] as end:
            while end.recv_into(buffer):
                pass

    def transfer():
        with socket.create_server(("127.0.0.1", 0)) as listener:
            receiver = threading.Thread(target=receive, args=(listener,))
            receiver.start()
            with socket.create_connection(listener.getsockname()) as end:
                for _ in range(n_pieces):
                    end.sendall(piece)
            receiver.join()
    return n_pieces * len(piece) / fastest(transfer, 3) / 1e9, None


def fsync(_starling):
    """Median of 20 appends of 4 KiB, each made durable, in the current directory."""
    with tempfile.NamedTemporaryFile(dir=".", prefix=".bench-") as file:
        seconds = []
        for _ in range(20):
            file.write(bytes(4096))
            file.flush()
            start = time.perf_counter()
            os.fsync(file.fileno())
            seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) * 1e3, None
