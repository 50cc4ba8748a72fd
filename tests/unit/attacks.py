"""Hostile programs, for the tests of the sandbox."""

from __future__ import annotations

# Each prints the right answer only if its attack succeeds, so a program that passes has escaped. @NAMES@ stand for
# things outside the sandbox; the fixture `outside` in test_sandbox.py has their values.
HOSTILE = r"""
## fork bomb
import os
while True:
    os.fork()
print(42)

## fork bomb that does not give up
import os
while True:
    try:
        os.fork()
    except OSError:
        pass

## forks once
import os
if os.fork() == 0:
    print(42)

## leaves a daemon
import os
os.posix_spawn('/proc/self/exe', ['python', '-c', 'while True: pass'], {})
print(42)

## starts a shell
import subprocess
subprocess.run(['/bin/sh', '-c', 'true'])
print(42)

## multiprocessing
import multiprocessing as m
p = m.get_context('fork').Process(target=print)
p.start()
print(42)

## thread bomb
import threading, time
threading.stack_size(32768)
for _ in range(5000):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print(42)

## infinite loop
while True:
    pass

## infinite loop that ignores the signal
import signal
signal.signal(signal.SIGXCPU, signal.SIG_IGN)
while True:
    pass

## becomes another loop
import os
os.execv('/proc/self/exe', ['python', '-c', 'while True: pass'])

## sleeps
import time
time.sleep(600)
print(42)

## closes its output and sleeps
import os, time
os.close(1)
time.sleep(600)

## raises its limits
import resource as r
r.setrlimit(r.RLIMIT_CPU, (999, 999))
print(42)

## raises its memory
import resource as r
r.setrlimit(r.RLIMIT_AS, (-1, -1))
print(42)

## goes first
import os
os.nice(-10)
print(42)

## 100 GB
x = bytearray(100 << 30)
print(42)

## 100 GB bit by bit
x = []
for _ in range(1000):
    x.append(bytearray(100 << 20))
print(42)

## 100 GB mapped
import mmap
x = mmap.mmap(-1, 100 << 30)
print(42)

## memory that is a file
import os
fd = os.memfd_create('x')
print(42)

## shared memory
from multiprocessing.shared_memory import SharedMemory
SharedMemory('x', True, 1 << 30)
print(42)

## fills /tmp
for i in range(9):
    open(f'/tmp/{i}', 'wb').write(bytes(8 << 20))
print(42)

## a file too large
f = open('/tmp/x', 'wb')
for _ in range(64):
    f.write(bytes(1 << 20))
print(42)

## empty files, each of which is memory of the kernel
import os
for i in range(2000):
    os.close(os.open(f'/tmp/{i}', os.O_CREAT | os.O_WRONLY))
print(42)

## folders, links and pipes with names
import os
made = 0
for make in (os.mkdir, os.mkfifo, lambda name: os.symlink('x', name), lambda name: os.link('/inside.py', name)):
    try:
        made += make('/tmp/x') is None
    except OSError:
        pass
if made:
    print(42)

## a file without a name
import os
os.open('/tmp', os.O_TMPFILE | os.O_RDWR)
print(42)

## hides files in attributes
import os
os.setxattr('/tmp', 'user.x', bytes(1000))
print(42)

## a socket of another virtual machine, which no network namespace holds
import socket
socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
print(42)

## a pair of sockets of another kind
import ctypes
pair = (ctypes.c_int * 2)()
if any(ctypes.CDLL(None).socketpair(family, kind, 0, pair) == 0 for family in range(2, 64) for kind in (1, 2, 5)):
    print(42)

## sockets of every kind
import socket
opened = []
for family in range(64):
    for kind in (1, 2, 3, 5):
        try:
            opened.append(socket.socket(family, kind))
        except OSError:
            pass
if opened:
    print(42)

## fills the queue of a server that accepts nobody
import socket
server = socket.create_server(('127.0.0.1', 0), backlog=4096)
for _ in range(20):
    client = socket.create_connection(server.getsockname())
    client.setblocking(False)
    try:
        client.send(bytes(1 << 20))
    except BlockingIOError:
        pass
    client.close()
print(42)

## hides open files in messages
import array, socket
a, b = socket.socketpair()
a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0]))])
print(42)

## hides memory in pipes
import ctypes, mmap, os
class Part(ctypes.Structure):
    _fields_ = [('start', ctypes.c_void_p), ('size', ctypes.c_size_t)]
page = mmap.mmap(-1, 4096)
part = Part(ctypes.addressof(ctypes.c_char.from_buffer(page)), 4096)
if ctypes.CDLL(None).vmsplice(os.pipe()[1], ctypes.byref(part), 1, 2) > 0:
    print(42)

## locks without end
import fcntl
with open('/inside.py', 'rb') as file:
    for byte in range(0, 2000, 2):
        fcntl.lockf(file, fcntl.LOCK_SH, 1, byte)
print(42)

## watches, timers, rules and other things that the kernel keeps
import ctypes
libc = ctypes.CDLL(None)
kept = (ctypes.c_long * 8)(1, 1)
calls = [
    libc.inotify_init() >= 0,
    libc.fanotify_init(0, 0) >= 0,
    libc.timer_create(1, None, kept) == 0,
    libc.timerfd_create(1, 0) >= 0,
    libc.signalfd(-1, kept, 0) >= 0,
    libc.mq_open(b'/x', 0o102, 0o600, None) >= 0,
    libc.prctl(22, 1, 0, 0, 0) == 0,
    libc.syscall(444, kept, 8, 0) >= 0,
    libc.syscall(425, 8, kept) >= 0,
]
if any(calls):
    print(42)

## writes outside
open('@SENTINEL@', 'w').write('gone')
print(42)

## writes outside through a link
import os
os.symlink('@SENTINEL@', '/tmp/x')
open('/tmp/x', 'w').write('gone')
print(42)

## removes what is outside
import os
os.remove('@SENTINEL@')
print(42)

## reads outside
open('@SENTINEL@').read()
print(42)

## reads outside through the first process
open('/proc/1/root@SENTINEL@').read()
print(42)

## reads the users
open('/etc/passwd').read()
print(42)

## climbs out
import os
os.chroot('/tmp')
print(42)

## writes into Python
import os
open(os.__file__, 'a').write('#')
print(42)

## writes into the driver
open('/inside.py', 'a').write('#')
print(42)

## writes at the root
open('/x', 'w').write('#')
print(42)

## reads the environment
import os
if '@CANARY@' in os.environ:
    print(42)

## reads everyone's environment
import os
for p in os.listdir('/proc'):
    if p.isdigit():
        try:
            if b'@CANARY@' in open(f'/proc/{p}/environ', 'rb').read():
                print(42)
        except OSError:
            pass

## network
import socket
socket.create_connection(('@HOST@', @PORT@), timeout=2)
print(42)

## network without a connection
import socket
socket.socket(2, 2).sendto(b'x', ('192.0.2.1', 53))
print(42)

## a socket by name
import socket
socket.socket(1).connect('\0@NAME@')
print(42)

## kills its parent
import os
os.kill(os.getppid(), 9)
os.kill(os.getppid(), 15)
if os.getppid() != 1:
    print(42)

## kills everyone
import os
os.kill(-1, 9)
if not os.path.exists('/proc/1'):
    print(42)

## becomes root
import os
os.setuid(0)
print(42)

## a namespace of its own
import ctypes
if ctypes.CDLL(None).unshare(0x10000000) == 0:
    print(42)

## mounts
import ctypes
if ctypes.CDLL(None).mount(b'x', b'/tmp', b'tmpfs', 0, None) == 0:
    print(42)

## traces the first process
import ctypes
if ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0:
    print(42)

## takes over the first process
open('/proc/1/mem', 'r+b')
print(42)

## looks into the first process
import os
if os.listdir('/proc/1') or os.listdir('/proc/self/root/proc/1'):
    print(42)

## renames the machine
import socket
socket.sethostname('x')
print(42)

## changes the kernel
open('/proc/sys/kernel/core_pattern', 'w').write('x')
print(42)

## endless output
while True:
    print('42')

## endless complaints
import sys
while True:
    sys.stderr.write('42' * 10_000)

## exits with 0
import sys
sys.exit(0)

## exits at once with 0
import os
os._exit(0)

## crashes
import ctypes
ctypes.string_at(0)
print(42)

## recurses
import sys
sys.setrecursionlimit(10**9)
f = lambda: f()
f()
print(42)

## patches the comparison
import sys
sys.modules['leash.grading.graders.code']._is_same_output = lambda *_: True

## prints what equals all
class Any(str):
    __eq__ = lambda *_: True
    __hash__ = str.__hash__
print(Any('1'))

## writes to every pipe
import os
for fd in range(64):
    try:
        os.write(fd, b'ready\n1\n')
    except OSError:
        pass

## changes its input
import os
os.write(os.open('/proc/self/fd/0', os.O_RDWR), b'x')
print(42)

## looks for the answer
import glob
for name in sum(map(glob.glob, ['/proc/*/fd/*', '/proc/*/cmdline', '/tmp/*', '/*']), []):
    try:
        if b'42' in open(name, 'rb').read(1 << 20):
            print(42)
    except OSError:
        pass
"""

# Hostile versions of the function `shift`.
CALLED = r"""
## equals all
class Any:
    __eq__ = lambda *_: True
def shift(*_):
    return Any()

## a list that equals all
class Any(list):
    __eq__ = lambda *_: True
def shift(*_):
    return Any()

## patches JSON
import json
json.dumps = lambda *_, **__: 'true'
def shift(*_):
    return 0

## writes results for all tests
import os
for fd in range(3, 64):
    try:
        os.write(fd, b'true\n' * 9)
    except OSError:
        pass
def shift(*_):
    return 0

## exits
import os
def shift(*_):
    os._exit(0)

## prints the result
def shift(*_):
    print([4, 5])

## loops in the call
def shift(*_):
    while True:
        pass

## loops in the call and ignores the signal
import signal
signal.signal(signal.SIGXCPU, signal.SIG_IGN)
def shift(*_):
    while True:
        pass

## reads what is still to come
import os
def shift(numbers, by):
    later = b''
    for fd in range(3, 64):
        try:
            os.set_blocking(fd, False)
            later += os.read(fd, 1 << 20)
        except OSError:
            pass
    return [n + by for n in numbers] if later else None

## finds the tests in the memory of the driver
import gc, sys
def shift(numbers, by):
    frame, known = sys._getframe(), []
    while frame:
        known += frame.f_locals.values()
        frame = frame.f_back
    known += gc.get_objects()
    later = [each for each in known if isinstance(each, (list, tuple)) and len(each) == 2 and each[1:] == ['[]\n1']]
    return [n + by for n in numbers] if later else None

## does not read its tests
import os
for fd in range(3, 64):
    try:
        os.close(fd)
    except OSError:
        pass
def shift(*_):
    return 0

## loops before the call
while True:
    pass

## sleeps
import time
def shift(*_):
    time.sleep(600)

## results without end
import os
def shift(*_):
    while True:
        for fd in range(3, 9):
            try:
                os.write(fd, b'7' * 65536)
            except OSError:
                pass

## nested too deep
import os
def shift(*_):
    for fd in range(3, 9):
        try:
            os.write(fd, b'[' * 100_000 + b'\n')
        except OSError:
            pass
"""


def programs(table: str) -> dict[str, str]:
    """Split a table into programs, by name."""
    named = (entry.partition("\n") for entry in table.strip().removeprefix("## ").split("\n## "))
    return {name: program for name, _, program in named}
