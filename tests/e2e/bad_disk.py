"""A file system with one file, m.gguf, whose reads fail from some byte on, as those of a bad disk do.

The kernel's side of FUSE by hand (Linux, Documentation/filesystems/fuse.rst, include/uapi/linux/fuse.h): it needs root and /dev/fuse.
"""
import ctypes
import errno
import os
import stat
import struct
import threading

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = (
    1, 2, 3, 14, 15, 17, 18, 25, 26, 27, 28, 29, 36, 42)
NAME = b"m.gguf"
ROOT, FILE = 1, 2
LIBC = ctypes.CDLL(None, use_errno=True)


class BadDisk:
    """data: of the file. fails_at: reads that reach this byte fail; None: none does."""

    def __init__(self, folder, data):
        self.data, self.fails_at, self.folder, self.n_failed = data, None, str(folder), 0
        self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.fd},rootmode=40000,user_id=0,group_id=0"
        if LIBC.mount(b"bad-disk", self.folder.encode(), b"fuse", 0, options.encode()) != 0:
            number = ctypes.get_errno()
            os.close(self.fd)
            raise OSError(number, os.strerror(number))
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def close(self):
        LIBC.umount2(self.folder.encode(), 2)  # MNT_DETACH
        self.thread.join(10)
        os.close(self.fd)

    def attr(self, node):
        is_root = node == ROOT
        mode, size = (stat.S_IFDIR | 0o755, 0) if is_root else (stat.S_IFREG | 0o644, len(self.data))
        return struct.pack("<6Q10I", node, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0, mode, 2 if is_root else 1, 0, 0, 0, 4096, 0)

    def answer(self, opcode, node, body):
        """The bytes of the answer, or a negative errno."""
        if opcode == INIT:
            major, minor, readahead = struct.unpack_from("<3I", body)
            return struct.pack("<4I2H2I2H8I", major, min(minor, 31), readahead, 0, 12, 9, 4096, 1, 0, 0, *(8 * [0]))
        if opcode == LOOKUP:
            if body.rstrip(b"\0") != NAME:
                return -errno.ENOENT
            return struct.pack("<4Q2I", FILE, 0, 60, 60, 0, 0) + self.attr(FILE)
        if opcode == GETATTR:
            return struct.pack("<Q2I", 60, 0, 0) + self.attr(node)
        if opcode in (OPEN, OPENDIR):
            return struct.pack("<Q2I", 0, 0, 0)
        if opcode == READ:
            _, offset, size = struct.unpack_from("<2QI", body)
            if self.fails_at is not None and offset + size > self.fails_at:
                self.n_failed += 1
                return -errno.EIO
            return self.data[offset:offset + size]
        if opcode == STATFS:
            return struct.pack("<5Q4I6I", 0, 0, 0, 1, 0, 4096, 255, 4096, 0, *(6 * [0]))
        return b"" if opcode in (RELEASE, RELEASEDIR, FLUSH, READDIR) else -errno.ENOSYS

    def run(self):
        while True:
            try:
                request = os.read(self.fd, 1 << 18)
            except InterruptedError:
                continue
            except OSError:  # it is no longer mounted
                return
            _, opcode, unique, node = struct.unpack_from("<2I2Q", request)
            if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            found = self.answer(opcode, node, request[40:])
            data, number = (b"", found) if isinstance(found, int) else (found, 0)
            try:
                os.write(self.fd, struct.pack("<IiQ", 16 + len(data), number, unique) + data)
            except OSError:
                pass  # whoever asked has gone
