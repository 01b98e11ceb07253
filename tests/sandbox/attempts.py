"""What hostile code would try, as programs. Each says ``DONE`` when it believes to have succeeded.

``facts`` is all that an attacker could know about the hub. The same program runs in the sandbox, where it must fail,
and without it, where it must succeed: an attempt that cannot succeed anywhere proves nothing.
"""

PRELUDE = """
import ctypes, json, os, signal, socket, sqlite3, subprocess, sys
facts = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
"""

EACH = """
import traceback
def outcome_of(code):
    '''Runs one attempt in a process of its own; all it said, and how it failed.'''
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        try:
            exec(code, dict(globals()))
        except BaseException:
            traceback.print_exc(limit=0)
        sys.stdout.flush()
        os._exit(0)
    os.close(writing)
    with open(reading, 'rb') as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said.decode(errors='replace')
"""

ALL = """
print(json.dumps({name: outcome_of(code) for name, code in facts['attempts'].items()}))
"""

DATABASE = {
    "open": "open(facts['db'], 'r+b').write(b'damage')",
    "append": "open(facts['db'], 'ab').write(b'damage')",
    "truncate": "os.truncate(facts['db'], 0)",
    "sqlite": """
c = sqlite3.connect(facts['db'])
c.execute("UPDATE messages SET content = 'damage'")
c.commit()
""",
    "sqlite by uri": """
c = sqlite3.connect('file:' + facts['db'] + '?mode=rw', uri=True)
c.execute("DELETE FROM messages")
c.commit()
""",
    "rename": """
fresh = facts['folder'] + '/fresh'
open(fresh, 'wb').write(b'damage')
os.rename(fresh, facts['db'])
""",
    "rename from the current folder": """
open('fresh', 'wb').write(b'damage')
os.rename('fresh', facts['db'])
""",
    "rename away": "os.rename(facts['db'], facts['db'] + '-gone')",
    "unlink": "os.unlink(facts['db'])",
    "symlink": """
os.symlink(facts['db'], 'link')
open('link', 'r+b').write(b'damage')
""",
    "symlink to its folder": """
os.symlink(facts['folder'], 'folder-link')
open('folder-link/db.sqlite3', 'r+b').write(b'damage')
""",
    "hard link": """
os.link(facts['db'], 'hard')
open('hard', 'r+b').write(b'damage')
""",
    "child process": """
code = "import sys; open(sys.argv[1], 'r+b').write(b'damage')"
subprocess.run([sys.executable, '-I', '-S', '-c', code, facts['db']], check=True)
""",
    "grandchild in a session of its own": """
code = "import sys; open(sys.argv[1], 'r+b').write(b'damage')"
if os.fork() == 0:
    os.setsid()
    os.execv(sys.executable, [sys.executable, '-I', '-S', '-c', code, facts['db']])
os.wait()
""",
    "inherited descriptor": "os.pwrite(facts['descriptor'], b'damage', 0)",
    "any descriptor": """
def damage(descriptor):
    try:
        return os.pwrite(descriptor, b'damage', 0)
    except OSError:
        return 0
if not any([damage(descriptor) for descriptor in range(3, 256)]):
    raise OSError('not one of them')
""",
    "descriptor of the hub": """
open(f"/proc/{facts['pid']}/fd/{facts['descriptor']}", 'r+b').write(b'damage')
""",
    "root folder of the hub": """
open(f"/proc/{facts['pid']}/root{facts['db']}", 'r+b').write(b'damage')
""",
    "current folder of the hub": """
os.chdir(f"/proc/{facts['pid']}/cwd")
open(facts['db'], 'r+b').write(b'damage')
""",
}

SECRET = {
    "token": "print(open(facts['token_file']).read())",
    "server.json": "print(open(facts['server_file']).read())",
    "token by a child": """
code = "import sys; print(open(sys.argv[1]).read())"
subprocess.run([sys.executable, '-I', '-S', '-c', code, facts['token_file']], check=True)
""",
    "token by a relative path": """
up = '../' * 30
print(open(up + facts['token_file'].lstrip('/')).read())
""",
    "token by a symlink": """
os.symlink(facts['token_file'], 'token-link')
print(open('token-link').read())
""",
    "token by the hub's root": """
print(open(f"/proc/{facts['pid']}/root{facts['token_file']}").read())
""",
    "token in the hub's memory": """
with open(f"/proc/{facts['pid']}/mem", 'rb', buffering=0) as memory:
    memory.seek(facts['address_of_token'])
    print(memory.read(facts['token_bytes']).decode())
""",
    "token by process_vm_readv": """
class Vector(ctypes.Structure):
    _fields_ = (('base', ctypes.c_void_p), ('length', ctypes.c_size_t))
buffer = ctypes.create_string_buffer(facts['token_bytes'])
here = Vector(ctypes.addressof(buffer), facts['token_bytes'])
there = Vector(facts['address_of_token'], facts['token_bytes'])
one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
check(libc.process_vm_readv(facts['pid'], ctypes.byref(here), one, ctypes.byref(there), one, none))
print(buffer.value.decode())
""",
}

CONNECTION = {
    "tcp": "socket.create_connection(('127.0.0.1', facts['port']), 5)",
    "tcp over ipv6": "socket.create_connection(('::1', facts['port']), 5)",
    "tcp by any address": "socket.create_connection(('0.0.0.0', facts['port']), 5)",
    "tcp by a mapped address": """
s = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
s.connect(('::ffff:127.0.0.1', facts['port']))
""",
    "tcp that does not wait": """
s = socket.socket()
s.setblocking(False)
try:
    s.connect(('127.0.0.1', facts['port']))
except BlockingIOError:
    import select
    select.select([], [s], [], 5)
""",
    "tcp fast open": """
s = socket.socket()
s.sendto(b'GET / HTTP/1.0', 0x20000000, ('127.0.0.1', facts['port']))
""",
    "tcp fast open by sendmsg": """
s = socket.socket()
s.sendmsg([b'GET / HTTP/1.0'], [], 0x20000000, ('127.0.0.1', facts['port']))
""",
    "tcp by a child": """
code = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5)"
subprocess.run([sys.executable, '-I', '-S', '-c', code, str(facts['port'])], check=True)
""",
    "udp": """
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(b'hello', ('127.0.0.1', facts['udp_port']))
""",
    "unix socket": """
s = socket.socket(socket.AF_UNIX)
s.connect(facts['unix_path'])
""",
    "abstract unix socket": """
s = socket.socket(socket.AF_UNIX)
s.connect(facts['abstract'])
""",
    "unix datagram": """
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.sendto(b'hello', facts['unix_dgram_path'])
""",
    "abstract unix datagram": """
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.sendto(b'hello', facts['abstract'] + '-dgram')
""",
    "one of a pair of datagram sockets": """
s, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
s.sendto(b'hello', facts['abstract'] + '-dgram')
""",
}
MPTCP = """
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
s.connect(('127.0.0.1', facts['port']))
"""
SMC = """
s = socket.socket()
s.setsockopt(6, 31, b'smc')
s.connect(('127.0.0.1', facts['port']))
"""
"""Apart: not every kernel has these."""

SIGNAL = {
    "kill": "os.kill(facts['pid'], signal.SIGUSR1)",
    "kill by a child": """
if os.fork() == 0:
    os.kill(facts['pid'], signal.SIGUSR1)
    os._exit(0)
os.wait()
""",
    "pidfd": "signal.pidfd_send_signal(os.pidfd_open(facts['pid']), signal.SIGUSR1)",
    "queue": "check(libc.sigqueue(facts['pid'], signal.SIGUSR1, ctypes.c_void_p(0)))",
}

DONE = {
    "trace the hub": """
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
check(libc.ptrace(PTRACE_SEIZE, facts['pid'], None, None))
print('DONE')
""",
    "read the hub's environment": """
open(f"/proc/{facts['pid']}/environ", 'rb').read()
print('DONE')
""",
    "read the hub's memory map": """
print('DONE' if open(f"/proc/{facts['pid']}/maps").read() else '')
""",
    "read the hub's command line": """
print('DONE' if open(f"/proc/{facts['pid']}/cmdline").read() else '')
""",
    "list the hub's descriptors": """
print('DONE' if os.listdir(f"/proc/{facts['pid']}/fd") else '')
""",
    "see the hub": """
os.kill(facts['pid'], 0)
print('DONE')
""",
    "change the hub's limits": """
import resource
resource.prlimit(facts['pid'], resource.RLIMIT_CORE)
print('DONE')
""",
    "change the hub's priority": """
os.setpriority(os.PRIO_PROCESS, facts['pid'], min(os.getpriority(os.PRIO_PROCESS, 0) + 1, 19))
print('DONE')
""",
    "read who is on this machine": "print('DONE' if 'root' in open('/etc/passwd').read() else '')",
    "list the processes": "print('DONE' if os.listdir('/proc') else '')",
    "read the kernel's log of mounts": "print('DONE' if open('/proc/self/mountinfo').read() else '')",
    "start a shell": """
subprocess.run(['/bin/sh', '-c', 'exit 0'], check=True)
print('DONE')
""",
    "make a file in memory": """
os.memfd_create('hidden')
print('DONE')
""",
    "make shared memory": """
check(libc.shmget(0, 4096, 0o1600))
print('DONE')
""",
    "listen": """
s = socket.socket()
s.listen()
print('DONE')
""",
    "bind": """
s = socket.socket()
s.bind(('127.0.0.1', 0))
print('DONE')
""",
    "clear the way with a tmpfs": """
NEWUSER_NEWNS, REC_PRIVATE = 0x10020000, 0x44000
check(libc.unshare(NEWUSER_NEWNS))
check(libc.mount(b'none', b'/', None, ctypes.c_ulong(REC_PRIVATE), None))
check(libc.mount(b'tmpfs', b'/usr/lib', b'tmpfs', ctypes.c_ulong(0), None))
print('DONE')
""",
    "make a user namespace": """
check(libc.unshare(0x10000000))
print('DONE')
""",
    "make a user namespace by clone": """
number = {'x86_64': 56, 'aarch64': 220}[os.uname().machine]
child = check(libc.syscall(number, ctypes.c_ulong(0x10000000 | signal.SIGCHLD), None, None, None, None))
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
print('DONE')
""",
}

DONE_BY_ROOT = {
    "make a device": """
os.mknod('device', 0o020600, os.makedev(1, 3))
print('DONE')
""",
    "change the root folder": """
os.chroot('.')
print('DONE')
""",
    "change the user": """
os.setresuid(12345, 12345, 12345)
print('DONE')
""",
    "leave the groups": """
os.setgroups([])
print('DONE')
""",
    "open a file by its handle": """
number = {'x86_64': (303, 304), 'aarch64': (264, 265)}[os.uname().machine]
handle = ctypes.create_string_buffer(8 + 128)
ctypes.c_uint32.from_buffer(handle).value = 128
mount = ctypes.c_int()
check(libc.syscall(number[0], -100, b'/usr/lib', handle, ctypes.byref(mount), 0))
folder = os.open('/usr/lib', os.O_RDONLY)
check(libc.syscall(number[1], folder, handle, os.O_RDONLY))
print('DONE')
""",
    "enter the hub's mount namespace": """
check(libc.setns(os.open(f"/proc/{facts['pid']}/ns/mnt", os.O_RDONLY), 0))
print('DONE')
""",
}
